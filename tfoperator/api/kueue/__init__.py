"""Jobs in queues of Kueue: the parts of a job that Kueue counts, and Kueue's records of jobs, the Workloads."""
