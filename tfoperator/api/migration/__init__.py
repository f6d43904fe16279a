"""Finds the changes for TFJobs of the Go operator if this operator takes them over. Facts in, findings out.

`job_findings` judges a job, `cluster_findings` their environment; both are pure. `read_cluster` gets the facts from an
API server, by GET and LIST alone, and omits those that it may not read.
"""
