"""Jobs in queues of Kueue: the operator makes their Workloads, and starts and stops their pods as Kueue decides.

`decide` is pure: it takes a job, its pods and its Workload, and returns a gate for the plan and writes to the Workload.
`pod_sets` computes what a job asks for and what its pods get, and `keeper` is the shell that reads caches and writes.
Only jobs with a queue's label come here, and only with the option `kueue`.
"""
