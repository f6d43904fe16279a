"""Determines the state of the component's container from a pod's status. The functions are pure.

The kubelet reports the same fact in several fields, and leaves some of these fields empty after a restart. This module
reduces them to three states: the container waits (for what?), the container runs, the container has ended (how, and
why?).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from tfoperator.base.clock import seconds_between
from tfoperator.kube.protocol.verbs import decoder
from tfoperator.kube.views.event import Event
from tfoperator.kube.views.objects import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    HasMetadata,
    PodCondition,
    PodSpec,
    PodStatus,
)
from tfoperator.launcher.core.output import ContainerEnd
from tfoperator.launcher.core.output_document import OUTPUT_FILE
from tfoperator.launcher.platforms.kubernetes.config import MAIN
from tfoperator.launcher.platforms.kubernetes.interruptions import (
    Interruption,
    interrupted_by,
    limit_reached,
    visible_lag,
)


class ContainerView(ContainerStatus, frozen=True, rename="camel"):
    """One container."""

    image_id: str = msgspec.field(default="", name="imageID")
    state: ContainerState = ContainerState()


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    termination_message_path: str = ""


class _Spec(PodSpec, frozen=True, rename="camel"):
    restart_policy: str = "Always"
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    ephemeral_containers: tuple[_Container, ...] = ()


class _Condition(PodCondition, frozen=True, rename="camel"):
    last_transition_time: datetime | None = None


class _Status(PodStatus, frozen=True, rename="camel"):
    conditions: tuple[_Condition, ...] = ()
    init_container_statuses: tuple[ContainerView, ...] = ()
    container_statuses: tuple[ContainerView, ...] = ()


class PodView(HasMetadata, frozen=True):
    """A pod, reduced to the fields that its launcher reads."""

    spec: _Spec = _Spec()
    status: _Status = _Status()


decode_pod_view = decoder(PodView)


class Pending(msgspec.Struct, frozen=True):
    """The reason why a pod waits.

    `limit` is the field of PendingLimits with the maximum time. It is "" if the pod must not wait at all.
    """

    limit: str
    reason: str = ""
    message: str = ""

    def __str__(self) -> str:
        said = ": ".join(part for part in (self.reason, self.message) if part)
        return said or (
            "the scheduler has not found a node for it" if self.limit == "schedule" else "it has not started"
        )


_PERMANENT_REASONS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_TRANSIENT_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "CreateContainerConfigError",
     "CreateContainerError", "RunContainerError"}
)  # fmt: skip
"""The kubelet's reasons why it can't create a container. Each reason may disappear: a registry may recover, a user may
create a missing secret.
"""

_MESSAGE_BYTES = 4096
_POD_MESSAGE_BYTES = 12 * 1024
"""The kubelet's constants MaxContainerTerminationMessageLength and MaxPodTerminationMessageLogLength."""

_BY_KUBELET = "TerminationByKubelet"
"""The reason in the condition DisruptionTarget if the kubelet ends a pod (because of lack of memory or disk, a shutdown
of the node, or a critical pod). The time of this condition is not usable: kubelets set it when all containers have
ended, not when the containers get the signal to end (`mergePodStatus` in Kubernetes 1.37, pkg/kubelet/status).
"""

_TAKING_EVENTS = frozenset({"Evicted", "Preempting"})
"""Reasons of events about a whole pod. With these events a kubelet announces that it will end the pod's containers.
Before it stops a single container, it writes the event `Killing` about this container.
"""

_LIMIT_REASON = "DeadlineExceeded"
"""The reason in the status of a pod that has reached its own `activeDeadlineSeconds`. Every other reason of a failed
pod (Evicted, NodeLost, OutOfcpu, Terminated ...) means that the platform ended the pod.
"""


def status_of(pod: PodView, container: str = MAIN) -> ContainerView | None:
    """Return the status of one container, if the status already exists."""
    return next((status for status in pod.status.container_statuses if status.name == container), None)


def has_started(pod: PodView, container: str = MAIN) -> bool:
    """Return whether the container runs or has run. If so, there may be a log."""
    status = status_of(pod, container)
    if status is None:
        return False
    return bool(status.state.running is not None or status.state.terminated or status.restart_count)


def container_end(pod: PodView, container: str = MAIN, events: Iterable[Event] = ()) -> ContainerEnd | None:
    """Return how the container has ended. Return None if it has not ended, or will be restarted.

    Exit code 0 is a success only if the program certainly ended before its pod got the order to end (`interruptions`).
    Otherwise the container was lost, or has timed out. With any other exit code, a container counts as lost if its pod
    was removed at any time. The reason: a step that fails permanently only because its pod was removed costs more than
    a failed program that runs again.

    `events` are the events about the pod. They matter only for exit code 0. A kubelet may evict a pod for the pod's own
    limits of storage, or after a failed liveness probe. If the program then exits with 0, the pod's status does not
    show the eviction.
    """
    status, phase = status_of(pod, container), pod.status.phase
    terminated = status.state.terminated if status else None
    # Other containers (sidecars) may run for ever: the component's own decides, unless it is restarted.
    if phase not in ("Succeeded", "Failed") and not (terminated and pod.spec.restart_policy == "Never"):
        return None
    reported = reported_end(pod, container)
    orders = _interruptions(pod, terminated)
    if reported.exit_code == 0:
        found = (*_kubelet_orders(pod, container, terminated, events), *orders)
        order = interrupted_by(terminated.finished_at if terminated else None, found, _lag(pod))
        if order is None:
            return reported
        message = f"{order.message}; exit code 0 does not prove here that the work was done"
        return msgspec.structs.replace(
            reported, exit_code=None, message=message, lost=not order.by_limit, timed_out=order.by_limit
        )
    taken = next((order for order in orders if not order.by_limit), None)
    if taken is None:
        return reported
    return msgspec.structs.replace(reported, exit_code=None, message=taken.message, lost=True)


def reported_end(pod: PodView, container: str = MAIN) -> ContainerEnd:
    """Return the end that the kubelet reports for an ended container, whatever its cause."""
    status = status_of(pod, container)
    terminated = status.state.terminated if status else None
    code = terminated.exit_code if terminated else (0 if pod.status.phase == "Succeeded" else None)
    document, cut = _document(pod, container, terminated)
    return ContainerEnd(
        code,
        "" if code == 0 else _explanation(pod, terminated, is_document=document is not None),
        output=document,
        output_cut=cut,
        by_message=_reports_by_message(pod, container),
        image_id=status.image_id if status else "",
    )


def lost_end(last: PodView | None, name: str, container: str = MAIN) -> ContainerEnd:
    """Return the end of the container of a deleted pod. `last` is the last observed state of the pod."""
    end = container_end(last, container) if last is not None else None
    if end is not None and end.exit_code == 0:
        return end  # it succeeded before its pod was deleted
    return ContainerEnd(None, f"pod {name} was deleted before its container had succeeded", lost=True)


def pending(pod: PodView, container: str = MAIN) -> Pending | None:
    """Return why the pod waits. Return None if the container has started or ended."""
    if has_started(pod, container) or pod.status.phase in ("Succeeded", "Failed"):
        return None
    waiting = [
        status.state.waiting
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        if status.state.waiting
    ]
    for reasons, limit in ((_PERMANENT_REASONS, ""), (_TRANSIENT_REASONS, "image")):
        for state in waiting:
            if state.reason in reasons:
                return Pending(limit, state.reason, state.message)
    if not pod.spec.node_name:
        scheduled = next((c for c in pod.status.conditions if c.type == "PodScheduled" and c.status != "True"), None)
        return Pending("schedule", *((scheduled.reason, scheduled.message) if scheduled else ()))
    first = next(iter(waiting), None)
    return Pending("start", *((first.reason, first.message) if first else ()))


def _interruptions(pod: PodView, terminated: ContainerStateTerminated | None) -> tuple[Interruption, ...]:
    """Return everything that may have ended the pod's containers. The pod's own limit is the last item."""
    name, status, found = pod.metadata.key, pod.status, list[Interruption]()
    for condition in status.conditions:
        if condition.type == "DisruptionTarget" and condition.status == "True":
            why = condition.message or "the node was needed for other pods"
            at = condition.last_transition_time if condition.reason != _BY_KUBELET else None
            found.append(Interruption(f"pod {name} was disrupted ({condition.reason}): {why}", at))
    if status.reason not in ("", _LIMIT_REASON):
        why = status.message or "without a message"
        found.append(Interruption(f"pod {name} was ended by its node ({status.reason}): {why}"))
    if pod.metadata.deletion_timestamp is not None:
        deleted = f"pod {name} was deleted before its container had succeeded"
        found.append(Interruption(deleted, pod.metadata.certain_deletion))
    if terminated is not None and terminated.reason == "ContainerStatusUnknown":
        found.append(Interruption(f"pod {name}: the container was lost on its node: {terminated.message}"))
    if status.reason == _LIMIT_REASON:
        reached = limit_reached(status.start_time, pod.spec.active_deadline_seconds)
        said = ": ".join(part for part in (status.reason, status.message) if part)
        found.append(Interruption(said, reached, by_limit=True))
    return tuple(found)


def _kubelet_orders(
    pod: PodView, container: str, terminated: ContainerStateTerminated | None, events: Iterable[Event]
) -> Iterator[Interruption]:
    """Yield the kubelet's orders to end for this run of the container, as events report them."""
    name, started = pod.metadata.key, terminated.started_at if terminated is not None else None
    for event in events:
        killing = event.reason == "Killing" and event.involved_object.field_path == f"spec.containers{{{container}}}"
        if not killing and event.reason not in _TAKING_EVENTS:
            continue
        first = event.first_timestamp or event.last_seen
        if started is not None and seconds_between(started, event.last_seen) < 0:
            continue  # the order was for an earlier run
        # An event that also stands for orders to earlier runs has no time of the last one's.
        at = first if started is None or seconds_between(started, first) >= 0 else None
        yield Interruption(f"pod {name} was stopped by its kubelet ({event.reason}): {event.message}", at)


def _lag(pod: PodView) -> float:
    """Return the number of seconds by which the node's clock is visibly behind the API server's clock."""
    bound = pod.metadata.creation_timestamp
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True":
            bound = condition.last_transition_time or bound
    return visible_lag(bound, pod.status.start_time)


def _explanation(pod: PodView, terminated: ContainerStateTerminated | None, *, is_document: bool) -> str:
    if terminated is None:
        for status in pod.status.init_container_statuses:
            if status.state.terminated and status.state.terminated.exit_code:
                return f"init container {status.name} ended with {status.state.terminated.exit_code}"
        return ": ".join(part for part in (pod.status.reason, pod.status.message) if part)
    reason = terminated.reason if terminated.reason not in ("Error", "Completed") else ""
    message = "" if is_document else terminated.message.strip()
    return ": ".join(part for part in (reason, message, pod.status.message) if part)


def message_limit(containers: int) -> int:
    """Return the bytes of a termination message that the kubelet keeps: the last 4096.

    If the pod's containers (of all kinds) would together need more than 12 KiB, the kubelet keeps only the first part
    of these bytes.
    """
    return min(_MESSAGE_BYTES, _POD_MESSAGE_BYTES // max(1, containers))


def _reports_by_message(pod: PodView, container: str) -> bool:
    """Return whether the file of the container's termination message is output.json."""
    own = next((one for one in pod.spec.containers if one.name == container), _Container())
    return own.termination_message_path.endswith(f"/{OUTPUT_FILE}")


def _document(pod: PodView, container: str, terminated: ContainerStateTerminated | None) -> tuple[bytes | None, bool]:
    """Return the termination message, if it is meant as output.json. Also return whether it may be truncated.

    If the file of the message is output.json, any content is meant as output.json. Only a failed container may have a
    message from the container runtime instead. Such a message is not a document.
    """
    message = terminated.message if terminated is not None else ""
    if terminated is None or not message:
        return None, False
    spec = pod.spec
    if not _reports_by_message(pod, container):
        return (message.encode(), False) if message.lstrip().startswith("{") else (None, False)
    data = message.encode()
    cut = len(data) >= message_limit(len(spec.containers) + len(spec.init_containers) + len(spec.ephemeral_containers))
    if terminated.exit_code != 0 and not cut and not message.lstrip().startswith("{"):
        return None, False
    return data, cut
