"""Finds the changes for TFJobs of the Go operator if this operator takes them over. Facts in, findings out.

`job_findings` judges a job, `cluster_findings` their environment; both are pure. `read_cluster` gets the facts from an
API server, by GET and LIST alone, and omits those that it may not read.
"""

from tfoperator.api.migration.cluster import cluster_findings
from tfoperator.api.migration.findings import Effort, Finding
from tfoperator.api.migration.jobs import job_findings
from tfoperator.api.migration.reading import read_cluster

__all__ = ["Effort", "Finding", "cluster_findings", "job_findings", "read_cluster"]
