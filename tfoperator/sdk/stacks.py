"""Takes the stacks of the Python threads in a job's pods, in any cluster or on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from tfoperator.api.replicas.names import replica_name
from tfoperator.api.replicas.replica_pods import replica_phase
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import KubeError, NotFoundError
from tfoperator.kube.views.objects import Pod
from tfoperator.logs.stacks import STACKS_COMMAND, PodStacks, stacks_printed, stacks_refused, stacks_told
from tfoperator.sdk.states import container_status

_PARALLEL_PODS = 8


class ReplicaStacks(msgspec.Struct, frozen=True):
    """The stacks of a replica's threads as text, or the reason (`problem`) why they could not be read."""

    replica: str
    text: str = ""
    problem: str = ""


def take_stacks(client: Client, pods: Sequence[Pod]) -> list[ReplicaStacks]:
    """Return the stacks of the running pods, in the order of the pods.

    The call blocks for some seconds if a program does not answer.
    """
    running = [pod for pod in pods if replica_phase(pod) == "Running" and pod.metadata.deletion_timestamp is None]
    with ThreadPoolExecutor(_PARALLEL_PODS, thread_name_prefix="stacks") as pool:
        all_stacks = pool.map(lambda pod: _stacks_of_pod(client, pod), running)
        return [
            ReplicaStacks(replica_name(pod), stacks.text, stacks.problem)
            for pod, stacks in zip(running, all_stacks, strict=True)
        ]


def _stacks_of_pod(client: Client, pod: Pod) -> PodStacks:
    meta, status = pod.metadata, container_status(pod)
    container = status.name if status is not None else ""
    try:
        try:
            # Only the control plane of `tfoperator local up` serves `pods/stacks`. It uses py-spy, which also works for
            # programs that do not react to signals.
            return stacks_told(client.pod_stacks(meta.namespace, meta.name, container))
        except NotFoundError:
            return stacks_printed(client.pod_exec(meta.namespace, meta.name, container, STACKS_COMMAND))
    except KubeError as error:
        return stacks_refused(error, "you")
