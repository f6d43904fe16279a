"""Jobs in queues of Kueue: the operator creates their Workloads, and starts and stops their pods as Kueue decides.

`decide` is pure: it takes a job, its pods and its Workload. It returns a gate, which shows the plan how many pods the
job may have, and the writes to the Workload. `pod_sets` computes the quota that a job requests, and the values that the
job's pods get from Kueue's answer. `keeper` reads caches and makes the writes. This package handles only jobs with the
label `kueue.x-k8s.io/queue-name`, and only if the option `kueue` is set.
"""
