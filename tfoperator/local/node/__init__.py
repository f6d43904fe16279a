"""The node agent: the scheduler and the kubelet of the embedded control plane.

`NodeAgent` watches pods, and starts a worker thread for each pod (`pod_worker`). The worker prepares volumes and
environment, starts containers, and reports the pod's status as a kubelet does. The logs of all containers are
in the agent's `LogStore`.
"""
