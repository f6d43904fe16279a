"""Finds the changes for TFJobs of the Go operator if this operator takes them over. Facts in, findings out.

`job_findings` checks a job, `cluster_findings` the jobs' environment; both are pure. `read_cluster` gets the facts from
an API server, by GET and LIST alone, and omits facts that it may not read.
"""
