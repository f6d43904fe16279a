"""The node agent: scheduler and kubelet of the embedded control plane.

`NodeAgent` watches pods and starts a worker thread for each (`pod_worker`), which prepares volumes and environment,
starts containers, and reports the pod's status as a kubelet does. Logs of all containers are in its `LogStore`.
"""
