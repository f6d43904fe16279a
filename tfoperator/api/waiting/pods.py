"""Finds the reason why an existing pod does not run, from the pod's status.

The kubelet's messages change with every attempt: they contain back-off times, and a failing image pull alternates
between two reasons. Only the text that a person needs is kept.

If volumes can't be mounted because an object does not exist, the pod's status does not show this reason. Only the
kubelet's events show it. So if a node has prepared a pod for some seconds, the text contains the time at which the
preparation began, and the objects that the pod mounts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

import msgspec

from tfoperator.api.pods.lost_nodes import node_is_lost, node_is_silent
from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME
from tfoperator.api.waiting.reason import NOT_PULLED, Reason, ReasonKind, reason_by_name, words
from tfoperator.api.waiting.scheduling import why_no_node
from tfoperator.api.waiting.templates import images_of, mounts_of
from tfoperator.base.clock import seconds_between
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import ContainerStateTerminated, ContainerStatus

STARTS_SOON = 4.0
"""The number of seconds for which a node may prepare a pod, or an init container may run, before this is reported. A
node needs up to two seconds to create a sandbox, and a reason must be shown within five seconds.
"""

_STARTING_REASONS = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons that every starting container has; they are not reported."""

_PULLS = frozenset({"ErrImagePull", "ImagePullBackOff"})
_CRASHES = frozenset({"CrashLoopBackOff", "RunContainerError"})
"""The reasons of a container that fails again and again. The kubelet alternates between them, so both are shown as the
same reason.
"""

_REASONS_WITH_MESSAGE = frozenset({"CreateContainerConfigError", "CreateContainerError", "InvalidImageName"})
"""Reasons whose message names the cause (a missing secret, a bad name) and stays the same at every attempt."""

_NO_CREDENTIALS = re.compile(r"unauthorized|denied|authoriz|authenticat|forbidden|no basic auth|\b40[13]\b", re.I)
_NO_IMAGE = re.compile(r"not found|notfound|manifest unknown|does not exist|name unknown|no such image", re.I)
_NO_REGISTRY = re.compile(
    r"no such host|connection refused|i/o timeout|deadline exceeded|dial tcp|network is unreachable|x509|tls", re.I
)


def why_it_waits(
    pod: Pod | None, refusal: Reason | None, now: datetime | None, template: msgspec.Raw | None = None
) -> Reason | None:
    """Return why a replica does not run; None if it runs, starts normally or has ended, or if nothing is known.

    `pod` is the replica's pod, or None if it has none. Without a pod, the API server's `refusal` to create a pod is the
    reason. `template` is the template that the pod was made from, if it is known. Without `now`, reasons that depend on
    time are left out.
    """
    if pod is None:
        return refusal
    if node_is_lost(pod):
        return Reason(
            ReasonKind.NODE_LOST,
            f"{_node(pod)} is lost",
            "wait: the operator will delete the pod by force, and create it again on another node",
        )
    if pod.status.phase == "Running" and node_is_silent(pod.status):
        return Reason(
            ReasonKind.NODE_SILENT,
            f"the kubelet of {_node(pod)} does not answer",
            "wait until the node works again, or until its pods are evicted (by default after five minutes), or "
            "delete the node",
        )
    if pod.status.phase not in ("", "Pending", "Running"):
        return None
    reason = why_no_node(pod) or _of_containers(pod, template)
    return reason if reason is not None or now is None else _of_preparation(pod, now, template)


def look_again(pod: Pod, now: datetime) -> float | None:
    """Return after how many seconds `why_it_waits` may have a new result without a change of the pod; None if never."""
    begun = _preparation_began(pod) or _init_began(pod)
    left = None if begun is None else STARTS_SOON - seconds_between(begun, now)
    return left if left is not None and left > 0 else None


def _node(pod: Pod) -> str:
    return f"node {pod.spec.node_name}" if pod.spec.node_name else "its node"


def _of_containers(pod: Pod, template: msgspec.Raw | None) -> Reason | None:
    status = pod.status
    for container, init in _in_order(pod):
        reason = _of_failing(container, template) or (_of_failed_init(container) if init else None)
        if reason is not None:
            since = status.start_time if init else None
            if not init and container.name == DEFAULT_CONTAINER_NAME:
                return reason
            where = f"{'init ' if init else ''}container {container.name}"
            return msgspec.structs.replace(reason, container=where, since=since)
    return None


def _in_order(pod: Pod) -> Iterator[tuple[ContainerStatus, bool]]:
    for container in pod.status.init_container_statuses:
        yield container, True
    for container in pod.status.container_statuses:
        yield container, False


def _of_failing(container: ContainerStatus, template: msgspec.Raw | None) -> Reason | None:
    """Return why a container waits; None if it starts normally."""
    waiting = container.state.waiting if container.state else None
    if waiting is None or waiting.reason in _STARTING_REASONS:
        return None
    image = "" if template is None else images_of(template).get(container.name, "")
    if waiting.reason in _PULLS:
        return _of_pull(waiting.message, image)
    if waiting.reason in _CRASHES:
        return _of_crash(container.name, container.last_state.terminated if container.last_state is not None else None)
    if waiting.reason == "ErrImageNeverPull":
        message = f"{waiting.reason}: image {image or 'of the container'} is not on the pod's node"
        return Reason(ReasonKind.OTHER, message, "load the image onto the node, or set another imagePullPolicy")
    message = words(waiting.message) if waiting.reason in _REASONS_WITH_MESSAGE else ""
    return reason_by_name(waiting.reason, message, _remedy(waiting.reason, waiting.message))


def _remedy(reason: str, message: str) -> str:
    """Return the next step for a reason that the kubelet gives."""
    if reason == "CreateContainerConfigError" and "not found" in message:
        return "create the missing object, or correct its name in the replica's template"
    if reason == "CreateContainerConfigError":
        return "correct the replica's template, or the object that it names"
    if reason == "InvalidImageName":
        return "correct the image's name in the replica's template"
    return "to see the kubelet's report: kubectl describe pod"


def _of_pull(message: str, image: str) -> Reason:
    """Return the reason for an image that can't be pulled, with the cause if the message shows the cause.

    Back-off messages of older kubelets don't show the cause. Each text with a cause begins with the text without a
    cause. So if a later message does not show the cause, the condition can keep the text that has it.
    """
    statement = f"image {image} {NOT_PULLED}" if image else f"its image {NOT_PULLED}"
    if _NO_CREDENTIALS.search(message):
        why, remedy = (
            ": the registry denies access, so the pod needs credentials, or the image does not exist",
            "add imagePullSecrets to the replica's template, or correct the image's name",
        )
    elif _NO_IMAGE.search(message):
        why, remedy = (
            ": the registry does not have this image",
            "correct the image's name, or push the image to the registry",
        )
    elif _NO_REGISTRY.search(message):
        why, remedy = (
            ": the node can't reach the registry",
            "correct the registry's name, or ask an administrator to repair the node's connection to it",
        )
    else:
        why, remedy = "", "to see the kubelet's report: kubectl describe pod"
    return Reason(ReasonKind.IMAGE, statement + why, remedy, detail=words(message))


def _of_crash(name: str, last: ContainerStateTerminated | None) -> Reason:
    code = "" if last is None else f"exit code {last.exit_code}"
    detail = f" ({last.reason})" if last is not None and last.reason not in ("", "Error", "Completed") else ""
    return Reason(
        ReasonKind.CRASHES, f"{code}{detail}", f"read the log of the container: kubectl logs POD -c {name} --previous"
    )


def _of_failed_init(container: ContainerStatus) -> Reason | None:
    """Return the reason of a failing init container; None if the container has not failed.

    This reason is the same during a back-off, during a new run, and just after a failure.
    """
    ends = [state.terminated for state in (container.state, container.last_state) if state is not None]
    ended = next((end for end in ends if end is not None), None)
    if container.ready or ended is None or ended.exit_code == 0:
        return None
    return _of_crash(container.name, ended)


def _of_preparation(pod: Pod, now: datetime, template: msgspec.Raw | None) -> Reason | None:
    began = _preparation_began(pod)
    if began is not None and seconds_between(began, now) >= STARTS_SOON:
        names = () if template is None else mounts_of(template)
        mounts = f", which mounts {', '.join(names)}," if names else ""
        return Reason(
            ReasonKind.PREPARED,
            f"the kubelet of its node prepares the pod{mounts}",
            "to see whether a volume can't be mounted or the network can't be set up: kubectl describe pod",
            began,
        )
    began = _init_began(pod)
    if began is not None and seconds_between(began, now) >= STARTS_SOON:
        name = next(c.name for c in reversed(pod.status.init_container_statuses) if _runs(c))
        return Reason(
            ReasonKind.INIT_RUNS,
            f"init container {name} runs",
            f"if the init container takes too long, read its log: kubectl logs POD -c {name}",
            began,
        )
    return None


def _preparation_began(pod: Pod) -> datetime | None:
    """Return when the node began to prepare the pod (volumes, network); None if this preparation is not under way."""
    status = pod.status
    if status.phase != "Pending" or not pod.spec.node_name or not status.container_statuses:
        return None
    ready = next((c.status for c in status.conditions if c.type == "PodReadyToStartContainers"), "")
    statuses = (*status.init_container_statuses, *status.container_statuses)
    return status.start_time if ready == "False" and all(map(_is_untouched, statuses)) else None


def _is_untouched(container: ContainerStatus) -> bool:
    return container.restart_count == 0 and container.state is not None and container.state.waiting is not None


def _init_began(pod: Pod) -> datetime | None:
    """Return the start of the init container for which the other containers wait; None if no init container runs."""
    status = pod.status
    if status.phase != "Pending" or not all(_waits_for_init(container) for container in status.container_statuses):
        return None
    running = next((container for container in reversed(status.init_container_statuses) if _runs(container)), None)
    state = None if running is None else running.state
    return state.running.started_at if state is not None and state.running is not None else None


def _runs(container: ContainerStatus) -> bool:
    return container.state is not None and container.state.running is not None


def _waits_for_init(container: ContainerStatus) -> bool:
    waiting = container.state.waiting if container.state else None
    return waiting is not None and waiting.reason in _STARTING_REASONS
