"""Jobs in queues of Kueue: the operator makes their Workloads, and lets their pods begin and end as Kueue says.

`decide` is pure: a job, its pods and its Workload in, a gate for the plan and writes to the Workload out. `pod_sets` is
what a job asks for and what its pods get, `keeper` the shell that reads caches and writes. Only jobs with a queue's
label come here, and only with the option `kueue`.
"""
