"""Finds the changes for TFJobs if this operator replaces the Go operator. The functions take facts and return findings.

`job_findings` checks a job, `cluster_findings` the jobs' environment; both are pure. `read_cluster` reads the facts
from an API server with GET and LIST only, and leaves out facts that it has no right to read.
"""
