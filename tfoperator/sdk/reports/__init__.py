"""Facts of a cluster and its log archive for `tfoperator.report`: why a job failed, and which replica failed first."""

from tfoperator.sdk.reports.culprit import Culprit, read_culprit
from tfoperator.sdk.reports.job_report import ClusterLogs, job_facts

__all__ = ["ClusterLogs", "Culprit", "job_facts", "read_culprit"]
