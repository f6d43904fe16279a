"""What would change for the TFJobs of the Go operator if this operator took them over? Facts in, findings out.

`job_findings` judges a job, `cluster_findings` what stands around the jobs; both are pure. `read_cluster` gets
the facts from an API server, by GET and LIST alone, and goes without those that it may not read.
"""

from tfoperator.api.migration.cluster import ClusterFacts, Unread, cluster_findings
from tfoperator.api.migration.findings import Effort, Finding
from tfoperator.api.migration.jobs import job_findings
from tfoperator.api.migration.reading import read_cluster

__all__ = ["ClusterFacts", "Effort", "Finding", "Unread", "cluster_findings", "job_findings", "read_cluster"]
