"""Finds the changes that a migration from the Go operator to this operator brings to TFJobs.

The functions take facts and return findings.
`job_findings` checks a job, `cluster_findings` the jobs' environment; both are pure. `read_cluster` reads the facts
from an API server with GET and LIST only, and leaves out facts that it has no right to read.
"""
