"""Determines the state of the component's container from a pod's status. The functions are pure.

The kubelet reports the same fact in several fields, and leaves some of these fields empty after a restart of the node.
This module reduces them to three states: the container waits (with the reason), it runs, or it has ended (with exit
code and cause).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from tfoperator.base.clock import seconds_between
from tfoperator.kube.protocol.verbs import decoder
from tfoperator.kube.views.event import Event
from tfoperator.kube.views.objects import HasMetadata, PodSpec
from tfoperator.kube.views.pod_status import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    PodCondition,
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
    """The status of a container."""

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

    `limit` is the field of PendingLimits with the maximum time: `schedule`, `start` or `image`. It is "" if the pod can
    never start, for example because its image name is invalid.
    """

    limit: str
    reason: str = ""
    message: str = ""

    def __str__(self) -> str:
        text = ": ".join(part for part in (self.reason, self.message) if part)
        return text or (
            "the scheduler has not found a node for it" if self.limit == "schedule" else "it has not started"
        )


_PERMANENT_REASONS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_TRANSIENT_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "CreateContainerConfigError",
     "CreateContainerError", "RunContainerError"}
)  # fmt: skip
"""Reasons in `state.waiting.reason` of a container. The kubelet retries after each of them, and may succeed: a registry
may recover, or a user may create a missing Secret.
"""

_MESSAGE_BYTES = 4096
_POD_MESSAGE_BYTES = 12 * 1024
"""`_MESSAGE_BYTES` is the maximum size of the termination message of a container, and `_POD_MESSAGE_BYTES` is the
maximum for all containers of a pod together. In the kubelet, these constants are MaxContainerTerminationMessageLength
and MaxPodTerminationMessageLogLength.
"""

_BY_KUBELET = "TerminationByKubelet"
"""The reason in the condition DisruptionTarget if the kubelet ends a pod, because memory or disk are short, the node
shuts down, or a critical pod needs resources. The time of this condition can't be used: the kubelet sets it when all
containers have ended, and not when they get SIGTERM (`mergePodStatus` in Kubernetes 1.37, pkg/kubelet/status).
"""

_TAKING_EVENTS = frozenset({"Evicted", "Preempting"})
"""Reasons of events with which a kubelet announces that it will end all containers of a pod. Before it stops a single
container, it writes an event with the reason `Killing` about this container.
"""

_LIMIT_REASON = "DeadlineExceeded"
"""The reason in the status of a pod that has reached its own `activeDeadlineSeconds`. Every other reason of a failed
pod (Evicted, NodeLost, OutOfcpu, Terminated ...) means that the platform ended the pod.
"""


def status_of(pod: PodView, container: str = MAIN) -> ContainerView | None:
    """Return the status of a container, or None if the kubelet has not reported it yet."""
    return next((status for status in pod.status.container_statuses if status.name == container), None)


def has_started(pod: PodView, container: str = MAIN) -> bool:
    """Return whether the container runs or has run. If so, there may be a log."""
    status = status_of(pod, container)
    if status is None:
        return False
    return bool(status.state.running is not None or status.state.terminated or status.restart_count)


def container_end(pod: PodView, container: str = MAIN, events: Iterable[Event] = ()) -> ContainerEnd | None:
    """Return how the container has ended. Return None if it has not ended, or will be restarted.

    Exit code 0 is a success only if the program certainly ended before its pod got an order to end (`interruptions`).
    Otherwise the container counts as timed out if the order came from the pod's `activeDeadlineSeconds`, or else as
    lost. The launcher repeats the step of a lost container, but not of a container that has timed out. With any other
    exit code, the container counts as lost if its pod was deleted or evicted at any time, even after the program
    failed. A needless repetition costs less than a step that fails permanently although only an eviction made the
    program fail.

    `events` are the events about the pod, which are used only for exit code 0. A kubelet may stop a container after a
    failed liveness probe, or evict a pod that uses too much local storage. If the program then exits with 0, only an
    event shows the cause.
    """
    status, phase = status_of(pod, container), pod.status.phase
    terminated = status.state.terminated if status else None
    # Sidecars may run forever. So the end of the component's own container decides, unless the kubelet restarts it.
    if phase not in ("Succeeded", "Failed") and not (terminated and pod.spec.restart_policy == "Never"):
        return None
    reported = reported_end(pod, container)
    orders = _interruptions(pod, terminated)
    if reported.exit_code == 0:
        interruptions = (*_kubelet_orders(pod, container, terminated, events), *orders)
        order = interrupted_by(terminated.finished_at if terminated else None, interruptions, _lag(pod))
        if order is None:
            return reported
        message = f"{order.message}; so exit code 0 does not prove that the work was done"
        return msgspec.structs.replace(
            reported, exit_code=None, message=message, lost=not order.by_limit, timed_out=order.by_limit
        )
    taken = next((order for order in orders if not order.by_limit), None)
    if taken is None:
        return reported
    return msgspec.structs.replace(reported, exit_code=None, message=taken.message, lost=True)


def reported_end(pod: PodView, container: str = MAIN) -> ContainerEnd:
    """Return the exit code, message and output.json that the kubelet reports for an ended container.

    The cause of the end is not determined: see `container_end`.
    """
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
    """Return how the container of a deleted pod counts: as lost, unless it succeeded before the deletion.

    `last` is the last observed state of the pod, or None.
    """
    end = container_end(last, container) if last is not None else None
    if end is not None and end.exit_code == 0:
        return end  # the container had succeeded before its pod was deleted
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
    """Return all interruptions in the status of a pod that may have ended its containers.

    `activeDeadlineSeconds` of the pod, if it was reached, is the last item.
    """
    name, status, interruptions = pod.metadata.key, pod.status, list[Interruption]()
    for condition in status.conditions:
        if condition.type == "DisruptionTarget" and condition.status == "True":
            why = condition.message or "the node was needed for other pods"
            at = condition.last_transition_time if condition.reason != _BY_KUBELET else None
            interruptions.append(Interruption(f"pod {name} was disrupted ({condition.reason}): {why}", at))
    if status.reason not in ("", _LIMIT_REASON):
        why = status.message or "without a message"
        interruptions.append(Interruption(f"pod {name} was ended by its node ({status.reason}): {why}"))
    if pod.metadata.deletion_timestamp is not None:
        deleted = f"pod {name} was deleted before its container had succeeded"
        interruptions.append(Interruption(deleted, pod.metadata.certain_deletion))
    if terminated is not None and terminated.reason == "ContainerStatusUnknown":
        interruptions.append(Interruption(f"pod {name}: the container was lost on its node: {terminated.message}"))
    if status.reason == _LIMIT_REASON:
        reached = limit_reached(status.start_time, pod.spec.active_deadline_seconds)
        text = ": ".join(part for part in (status.reason, status.message) if part)
        interruptions.append(Interruption(text, reached, by_limit=True))
    return tuple(interruptions)


def _kubelet_orders(
    pod: PodView, container: str, terminated: ContainerStateTerminated | None, events: Iterable[Event]
) -> Iterator[Interruption]:
    """Yield the interruptions that events report: the kubelet stops the container, or evicts the pod.

    Events from before the container's last start are skipped.
    """
    name, started = pod.metadata.key, terminated.started_at if terminated is not None else None
    for event in events:
        killing = event.reason == "Killing" and event.involved_object.field_path == f"spec.containers{{{container}}}"
        if not killing and event.reason not in _TAKING_EVENTS:
            continue
        first = event.first_timestamp or event.last_seen
        if started is not None and seconds_between(started, event.last_seen) < 0:
            continue  # the kubelet stopped an earlier run of the container
        # An event can count several orders. If the first order was for an earlier run, the time of the later order is
        # unknown.
        at = first if started is None or seconds_between(started, first) >= 0 else None
        yield Interruption(f"pod {name} was stopped by its kubelet ({event.reason}): {event.message}", at)


def _lag(pod: PodView) -> float:
    """Return the seconds by which the node's clock is behind the API server's clock, as the pod's status shows."""
    bound = pod.metadata.creation_timestamp
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True":
            bound = condition.last_transition_time or bound
    return visible_lag(bound, pod.status.start_time)


def _explanation(pod: PodView, terminated: ContainerStateTerminated | None, *, is_document: bool) -> str:
    if terminated is None:
        for status in pod.status.init_container_statuses:
            if status.state.terminated and status.state.terminated.exit_code:
                return f"init container {status.name} ended with exit code {status.state.terminated.exit_code}"
        return ": ".join(part for part in (pod.status.reason, pod.status.message) if part)
    reason = terminated.reason if terminated.reason not in ("Error", "Completed") else ""
    message = "" if is_document else terminated.message.strip()
    return ": ".join(part for part in (reason, message, pod.status.message) if part)


def message_limit(containers: int) -> int:
    """Return the maximum size in bytes of a termination message in a pod with this number of containers.

    The kubelet keeps at most 4096 bytes for a container, and at most 12 KiB for all containers of a pod together.
    """
    return min(_MESSAGE_BYTES, _POD_MESSAGE_BYTES // max(1, containers))


def _reports_by_message(pod: PodView, container: str) -> bool:
    """Return whether the `terminationMessagePath` of the container ends in /output.json."""
    own = next((candidate for candidate in pod.spec.containers if candidate.name == container), _Container())
    return own.termination_message_path.endswith(f"/{OUTPUT_FILE}")


def _document(pod: PodView, container: str, terminated: ContainerStateTerminated | None) -> tuple[bytes | None, bool]:
    """Return the termination message if it is an output.json, else None. Also return whether its end may be missing.

    If `terminationMessagePath` ends in /output.json, the message is an output.json, even if it is malformed. But the
    message of a failed container that does not begin with `{` is a message of the container runtime. With another
    `terminationMessagePath`, only a message that begins with `{` is an output.json.
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
