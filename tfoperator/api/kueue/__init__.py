"""Jobs in queues of Kueue: what it counts of a job, and the Workloads in which it keeps records of jobs."""
