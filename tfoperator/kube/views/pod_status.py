"""The status of a pod, as the kubelet reports it, and the limits of its size in a cache."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tfoperator.kube.views.kept import DECIDING_CONTAINER

_MAX_CONTAINERS = 16
_MAX_CONDITIONS = 16
_MAX_NAME = 128
"""The maximum number of characters of a name or a reason in a large pod's status."""
_MAX_MESSAGE, _MAX_MESSAGE_OF_MANY = 4096, 256
"""The maximum number of characters of a message in a large pod's status. Kubelets write at most 4096 characters. The
limit is 256 if the pod has more than 16 conditions, containers or init containers.
"""
_CONDITIONS_OF_KUBERNETES = frozenset(
    ("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready", "DisruptionTarget")
)


class ContainerStateWaiting(msgspec.Struct, frozen=True, gc=False):
    """Why a container has not started, for example with the reason `ImagePullBackOff`."""

    reason: str = ""
    message: str = ""


class ContainerStateTerminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: datetime | None = None
    started_at: datetime | None = None


class ContainerStateRunning(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """When a container started to run, according to its node's clock."""

    started_at: datetime | None = None


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """The state of a container: at most one field is set. If no field is set, the state is not known yet."""

    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None
    running: ContainerStateRunning | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The kubelet's report about one container of a pod."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class PodCondition(msgspec.Struct, frozen=True, gc=False):
    """One condition of a pod, for example PodScheduled=False with the reason `Unschedulable`."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of a pod's status that the controller reads."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None
    conditions: tuple[PodCondition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


def bounded_status(status: PodStatus) -> PodStatus:
    """Return a pod's status, with a maximum size for every field whose size the author of the job decides.

    For example, a pod of a thousand containers has a thousand statuses. The result always keeps the container that
    decides the state of the replica.
    """
    few = (
        max(map(len, (status.conditions, status.container_statuses, status.init_container_statuses))) <= _MAX_CONTAINERS
    )
    longest = _MAX_MESSAGE if few else _MAX_MESSAGE_OF_MANY
    conditions = sorted(status.conditions, key=lambda condition: condition.type not in _CONDITIONS_OF_KUBERNETES)
    return PodStatus(
        phase=cut(status.phase),
        reason=cut(status.reason),
        message=cut(status.message, longest),
        start_time=status.start_time,
        conditions=tuple(
            PodCondition(
                cut(condition.type), cut(condition.status), cut(condition.reason), cut(condition.message, longest)
            )
            for condition in conditions[:_MAX_CONDITIONS]
        ),
        init_container_statuses=_bounded_containers(status.init_container_statuses, longest),
        container_statuses=_bounded_containers(status.container_statuses, longest),
    )


def _bounded_containers(statuses: tuple[ContainerStatus, ...], longest: int) -> tuple[ContainerStatus, ...]:
    deciding = [status for status in statuses[_MAX_CONTAINERS:] if status.name == DECIDING_CONTAINER][:1]
    return tuple(
        ContainerStatus(
            cut(status.name),
            status.ready,
            status.restart_count,
            _bounded_state(status.state, longest),
            _bounded_state(status.last_state, longest),
        )
        for status in (*statuses[: _MAX_CONTAINERS - len(deciding)], *deciding)
    )


def _bounded_state(state: ContainerState | None, longest: int) -> ContainerState | None:
    if state is None:
        return None
    waiting, ended = state.waiting, state.terminated
    if waiting is not None:
        waiting = ContainerStateWaiting(cut(waiting.reason), cut(waiting.message, longest))
    if ended is not None:
        message = cut(ended.message, longest)
        ended = ContainerStateTerminated(
            ended.exit_code, cut(ended.reason), message, ended.finished_at, ended.started_at
        )
    return ContainerState(waiting, ended, state.running)


def cut(text: str, most: int = _MAX_NAME) -> str:
    """Return the first `most` characters of a text."""
    return text if len(text) <= most else text[:most]
