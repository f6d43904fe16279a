"""Facts of a cluster and its log archive for `tfoperator.report`: why a job failed, and which replica failed first."""
