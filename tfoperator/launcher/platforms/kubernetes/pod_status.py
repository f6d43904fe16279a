"""The state of the component's container from a pod's status: pure functions of a pod.

The kubelet reports one fact in several fields, and leaves some of them empty when it is restarted. Here they become
three states: the container waits (for what?), it runs, it has ended (how, and by which cause?).
"""

from __future__ import annotations

import msgspec

from tfoperator.kube.objects import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    HasMetadata,
    PodSpec,
    PodStatus,
)
from tfoperator.kube.verbs import decoder
from tfoperator.launcher.core.output import ContainerEnd
from tfoperator.launcher.core.output_document import OUTPUT_FILE
from tfoperator.launcher.platforms.kubernetes.config import MAIN


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


class _Status(PodStatus, frozen=True, rename="camel"):
    init_container_statuses: tuple[ContainerView, ...] = ()
    container_statuses: tuple[ContainerView, ...] = ()


class PodView(HasMetadata, frozen=True):
    """A pod, reduced to the fields that its launcher reads."""

    spec: _Spec = _Spec()
    status: _Status = _Status()


decode_pod_view = decoder(PodView)


class Pending(msgspec.Struct, frozen=True):
    """The reason for a pod's wait. `limit` is the PendingLimits field with its maximum; "" if it must not wait."""

    limit: str
    reason: str = ""
    message: str = ""

    def __str__(self) -> str:
        said = ": ".join(part for part in (self.reason, self.message) if part)
        return said or ("no node was chosen for it" if self.limit == "schedule" else "it has not started")


_PERMANENT_REASONS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_TRANSIENT_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "CreateContainerConfigError",
     "CreateContainerError", "RunContainerError"}
)  # fmt: skip
"""The kubelet's reasons why a container can't be created. Each may pass: a registry recovers, a secret is created."""

_MESSAGE_BYTES = 4096
_POD_MESSAGE_BYTES = 12 * 1024
"""The kubelet's MaxContainerTerminationMessageLength and MaxPodTerminationMessageLogLength."""

_OWN_REASONS = frozenset({"DeadlineExceeded"})
"""Reasons of a pod's failure caused by itself; all others (Evicted, NodeLost, OutOfcpu ...) are the platform's."""


def status_of(pod: PodView, container: str = MAIN) -> ContainerView | None:
    """Return the status of one container, if there is one yet."""
    return next((status for status in pod.status.container_statuses if status.name == container), None)


def has_started(pod: PodView, container: str = MAIN) -> bool:
    """Return whether the container runs or has run, so that there may be a log."""
    status = status_of(pod, container)
    if status is None:
        return False
    return bool(status.state.running is not None or status.state.terminated or status.restart_count)


def container_end(pod: PodView, container: str = MAIN) -> ContainerEnd | None:
    """Return how the container has ended; None if it has not, or will be restarted."""
    status, phase = status_of(pod, container), pod.status.phase
    terminated = status.state.terminated if status else None
    # Other containers (sidecars) may run for ever: the component's own decides, unless it is restarted.
    if phase not in ("Succeeded", "Failed") and not (terminated and pod.spec.restart_policy == "Never"):
        return None
    code = terminated.exit_code if terminated else (0 if phase == "Succeeded" else None)
    image_id = status.image_id if status else ""
    document, cut = _document(pod, container, terminated)
    by_message = _reports_by_message(pod, container)
    if code == 0:
        return ContainerEnd(0, output=document, output_cut=cut, by_message=by_message, image_id=image_id)
    taken = _taken_away(pod, terminated)
    return ContainerEnd(
        None if taken else code,
        taken or _explanation(pod, terminated, is_document=document is not None),
        lost=bool(taken),
        output=document,
        output_cut=cut,
        by_message=by_message,
        image_id=image_id,
    )


def lost_end(last: PodView | None, name: str, container: str = MAIN) -> ContainerEnd:
    """Return the end of the container of a deleted pod, `last` being its last observed state."""
    end = container_end(last, container) if last is not None else None
    if end is not None and end.exit_code == 0:
        return end  # it succeeded before its pod was deleted
    return ContainerEnd(None, f"pod {name} was deleted before its container had succeeded", lost=True)


def pending(pod: PodView, container: str = MAIN) -> Pending | None:
    """Return the reason for the pod's wait; None once the container has started or ended."""
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


def _taken_away(pod: PodView, terminated: ContainerStateTerminated | None) -> str:
    """Return how the platform ended the container, as a message; "" if it ended by itself."""
    name, status = pod.metadata.key, pod.status
    for condition in status.conditions:
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return f"pod {name} was disrupted ({condition.reason}): {condition.message or 'its node was needed'}"
    if status.phase == "Failed" and status.reason and status.reason not in _OWN_REASONS:
        return f"pod {name} was ended by its node ({status.reason}): {status.message or 'without a message'}"
    if pod.metadata.deletion_timestamp is not None:
        return f"pod {name} was deleted before its container had succeeded"
    if terminated is not None and terminated.reason == "ContainerStatusUnknown":
        return f"pod {name}: its node lost the container: {terminated.message}"
    return ""


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
    """Return the bytes of a termination message that the kubelet keeps: the last 4096, of which the first are kept
    where a pod's containers (of all kinds) would need more than 12 KiB together.
    """  # fmt: skip
    return min(_MESSAGE_BYTES, _POD_MESSAGE_BYTES // max(1, containers))


def _reports_by_message(pod: PodView, container: str) -> bool:
    """Return whether the file of the container's termination message is output.json."""
    own = next((one for one in pod.spec.containers if one.name == container), _Container())
    return own.termination_message_path.endswith(f"/{OUTPUT_FILE}")


def _document(pod: PodView, container: str, terminated: ContainerStateTerminated | None) -> tuple[bytes | None, bool]:
    """Return the termination message, if it is meant as output.json; and whether it may be truncated.

    Where the container's message is the file output.json, any content is meant as such. Only a failed container
    may have a message of its runtime instead, which is no document.
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
