"""The node agent: scheduler and kubelet of the embedded control plane.

`NodeAgent` watches pods and starts a worker thread for each (`pod_worker`), which prepares volumes and environment,
starts containers, and reports the pod's status as a kubelet does. Logs of all containers are in its `LogStore`.
"""

from tfoperator.local.node.agent import NodeAgent
from tfoperator.local.node.expansion import expand
from tfoperator.local.node.log_store import LogStore
from tfoperator.local.node.node_api import NODES
from tfoperator.local.node.stacks import kept_stacks
from tfoperator.local.node.volumes import VOLUMES, VolumeManager

__all__ = ["NODES", "VOLUMES", "LogStore", "NodeAgent", "VolumeManager", "expand", "kept_stacks"]
