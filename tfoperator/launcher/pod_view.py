"""What a pod's status says about the component's container: pure functions from a pod to how it stands.

The kubelet says one thing in several places, and forgets some of them when it dies. Here that becomes three answers:
it waits (for what?), it runs, it has ended (how, and was that its own doing?).
"""

from __future__ import annotations

from typing import Any

import msgspec

from tfoperator.kube.objects import ContainerStateTerminated, ContainerStateWaiting, HasMetadata, PodCondition
from tfoperator.kube.verbs import decoder
from tfoperator.launcher.layers import MAIN
from tfoperator.launcher.outcome import ContainerEnd

__all__ = ["Pending", "PodView", "container_end", "decode_pod_view", "has_started", "lost_end", "pending", "status_of"]


class _State(msgspec.Struct, frozen=True):
    waiting: ContainerStateWaiting | None = None
    running: dict[str, Any] | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerView(msgspec.Struct, frozen=True, rename="camel"):
    """One container."""

    name: str = ""
    restart_count: int = 0
    image_id: str = msgspec.field(default="", name="imageID")
    state: _State = _State()


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    restart_policy: str = "Always"


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    init_container_statuses: tuple[ContainerView, ...] = ()
    container_statuses: tuple[ContainerView, ...] = ()


class PodView(HasMetadata, frozen=True):
    """A pod, as far as its launcher reads it."""

    spec: _Spec = _Spec()
    status: _Status = _Status()


decode_pod_view = decoder(PodView)


class Pending(msgspec.Struct, frozen=True):
    """What a pod waits for. `limit` is the PendingLimits field that says for how long; "" for not at all."""

    limit: str
    reason: str = ""
    message: str = ""

    def __str__(self) -> str:
        said = ": ".join(part for part in (self.reason, self.message) if part)
        return said or ("no node was chosen for it" if self.limit == "schedule" else "it has not started")


_HOPELESS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_UNSTARTABLE = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "CreateContainerConfigError",
     "CreateContainerError", "RunContainerError"}
)  # fmt: skip
"""The kubelet's words for a container that can't be made. Each may pass: a registry comes back, a secret is created."""

_OWN_REASONS = frozenset({"DeadlineExceeded"})
"""Reasons of a failed pod that are its own doing; all others (Evicted, NodeLost, OutOfcpu ...) are the platform's."""


def status_of(pod: PodView, container: str = MAIN) -> ContainerView | None:
    """The report about one container, if there is one yet."""
    return next((status for status in pod.status.container_statuses if status.name == container), None)


def has_started(pod: PodView, container: str = MAIN) -> bool:
    """Whether the container runs or has run, so that there may be a log."""
    status = status_of(pod, container)
    if status is None:
        return False
    return bool(status.state.running is not None or status.state.terminated or status.restart_count)


def container_end(pod: PodView, container: str = MAIN) -> ContainerEnd | None:
    """How the container has ended; None if it has not, or will be started again."""
    status, phase = status_of(pod, container), pod.status.phase
    terminated = status.state.terminated if status else None
    # Other containers (sidecars) may go on for ever: the component's own decides, unless it is started again.
    if phase not in ("Succeeded", "Failed") and not (terminated and pod.spec.restart_policy == "Never"):
        return None
    code = terminated.exit_code if terminated else (0 if phase == "Succeeded" else None)
    image_id = status.image_id if status else ""
    if code == 0:
        return ContainerEnd(0, output=_document(terminated), image_id=image_id)
    taken = _taken_away(pod, terminated)
    return ContainerEnd(
        None if taken else code,
        taken or _explanation(pod, terminated),
        lost=bool(taken),
        output=_document(terminated),
        image_id=image_id,
    )


def lost_end(last: PodView | None, name: str, container: str = MAIN) -> ContainerEnd:
    """How a container has ended whose pod is gone, `last` being the last that was seen of it."""
    end = container_end(last, container) if last is not None else None
    if end is not None and end.exit_code == 0:
        return end  # its own success, cleared away by somebody
    return ContainerEnd(None, f"pod {name} was deleted before its container had succeeded", lost=True)


def pending(pod: PodView, container: str = MAIN) -> Pending | None:
    """What the pod waits for; None once the container has started or ended."""
    if has_started(pod, container) or pod.status.phase in ("Succeeded", "Failed"):
        return None
    waiting = [
        status.state.waiting
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        if status.state.waiting
    ]
    for reasons, limit in ((_HOPELESS, ""), (_UNSTARTABLE, "image")):
        for state in waiting:
            if state.reason in reasons:
                return Pending(limit, state.reason, state.message)
    if not pod.spec.node_name:
        scheduled = next((c for c in pod.status.conditions if c.type == "PodScheduled" and c.status != "True"), None)
        return Pending("schedule", *((scheduled.reason, scheduled.message) if scheduled else ()))
    first = next(iter(waiting), None)
    return Pending("start", *((first.reason, first.message) if first else ()))


def _taken_away(pod: PodView, terminated: ContainerStateTerminated | None) -> str:
    """In words how the platform has ended the container; "" if it ended by itself."""
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


def _explanation(pod: PodView, terminated: ContainerStateTerminated | None) -> str:
    if terminated is None:
        for status in pod.status.init_container_statuses:
            if status.state.terminated and status.state.terminated.exit_code:
                return f"init container {status.name} ended with {status.state.terminated.exit_code}"
        return ": ".join(part for part in (pod.status.reason, pod.status.message) if part)
    reason = terminated.reason if terminated.reason not in ("Error", "Completed") else ""
    message = "" if _document(terminated) else terminated.message.strip()
    return ": ".join(part for part in (reason, message, pod.status.message) if part)


def _document(terminated: ContainerStateTerminated | None) -> bytes | None:
    """The termination message, if it is meant as output.json."""
    if terminated is None or not terminated.message.lstrip().startswith("{"):
        return None
    return terminated.message.encode()
