"""What somebody who runs pods on this machine should know once, and not with every pod. Pure but for its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tfoperator.api.names import LABEL_REPLICA_TYPE
from tfoperator.kube.pod_spec import GPU, Container
from tfoperator.local.runtime import LocalPod, Runtime

_CROWDED = "MoreReplicasThanCPUs"
_LIMITED = ("cpu", "memory")


class Notices:
    """Says each thing once. Not thread-safe.

    `cpus` is how many this machine has, `gpu_problem` why there are no GPUs to be had, empty if there are.
    """

    def __init__(self, runtime: Runtime, *, cpus: int, gpu_problem: str) -> None:
        self._enforces_limits = runtime.enforces_limits
        self._gpu_problem = "" if runtime.may_have_gpus else gpu_problem
        self._cpus = cpus
        self._said: set[str] = set()

    def about(self, pod: LocalPod, replicas: Callable[[], int]) -> list[tuple[str, str]]:
        """(reason, message) of each thing that this pod gives cause to say for the first time.

        `replicas` says how many run now, this one included.
        """
        news = [notice for notice in self._all(pod, replicas) if notice[0] not in self._said]
        self._said.update(reason for reason, _ in news)
        return news

    def _all(self, pod: LocalPod, replicas: Callable[[], int]) -> Iterator[tuple[str, str]]:
        containers = (*pod.spec.containers, *(pod.spec.init_containers or ()))
        limited = _limited(containers)
        if limited and not self._enforces_limits:
            yield (
                "LimitsNotEnforced",
                f"limits of {limited} are not enforced for processes: --enforce-limits does it where control groups "
                "allow, --runtime docker everywhere",
            )
        crowd = 0 if _CROWDED in self._said or not is_replica(pod) else replicas()
        if crowd > self._cpus:
            cpus = "1 CPU" if self._cpus == 1 else f"{self._cpus} CPUs"
            yield _CROWDED, f"there are more replicas than the {cpus} of this machine: they slow each other down"
        if self._gpu_problem and any(_names_gpus(container) for container in containers):
            yield "NoGPU", f"{self._gpu_problem}; what asks for {GPU} runs without a GPU of its own"


def is_replica(pod: LocalPod) -> bool:
    """Whether the pod is a replica of a TFJob."""
    return LABEL_REPLICA_TYPE in pod.metadata.labels


def _limited(containers: Sequence[Container]) -> str:
    """Which resources any of these limits: `cpu and memory`, say."""
    limits = [container.resources.limits or {} for container in containers if container.resources is not None]
    return " and ".join(name for name in _LIMITED if any(name in one for one in limits))


def _names_gpus(container: Container) -> bool:
    resources = container.resources
    return resources is not None and (GPU in (resources.limits or {}) or GPU in (resources.requests or {}))
