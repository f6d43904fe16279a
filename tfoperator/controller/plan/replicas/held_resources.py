"""Adds up the resources that a job's pods hold while they are on nodes, and determines when their programs ran. Pure.

Each sum (for example GPU-seconds) is computed from the last recorded sum: it grows by the recorded amount in use
multiplied by the seconds since the record. If pods have come to their nodes or have ended since then, the sum is
corrected with the times in these pods. A pod is on a node from its `startTime` on, which its kubelet sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise

from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME
from tfoperator.api.v1.status import JobUsage, ResourceUsage, UsagePhase, seconds_since
from tfoperator.base.clock import utc
from tfoperator.controller.plan.replicas.replicas import Replica, ReplicaState
from tfoperator.controller.pods.resources import requests_of
from tfoperator.controller.pods.template import PodTemplateError
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import ContainerStateTerminated, ContainerStatus

_MAX_RESOURCES, _MAX_SUM = 16, 2.0**100

Span = tuple[UsagePhase, datetime]
"""A phase, and when it began."""


def resources_until(
    usage: JobUsage, spans: Sequence[Span], held: Mapping[str, float], pods: Iterable[Pod], until: datetime
) -> dict[str, ResourceUsage]:
    """Return the sums at the time `until`, by resource name: the last sums in `usage`, and the use since then.

    `spans` are the job's phases since the last sums. `held` has the amounts in use at the time `until`. The use is
    corrected for `pods` that came to their nodes, or ended, since the last sums.
    """
    since = utc(usage.resources_since or until)

    def trained(begin: datetime) -> int:
        spent = 0
        for (phase, began), (_, ended) in pairwise([*spans, ("", until)]):
            if phase is UsagePhase.TRAINING:
                spent += seconds_since(max(began, begin), ended)
        return spent

    changes: Counter[tuple[str, datetime, int]] = Counter()
    for pod in pods:
        start, end = _on_node(pod)
        for moment, sign in ((start, 1), (end, -1)):
            if pod.spec.requests and start is not None and moment is not None and since < moment <= until:
                changes[pod.spec.requests, moment, sign] += 1
    sums = {name: [resource.in_use * seconds_since(since, until), resource.in_use * trained(since)]
            for name, resource in usage.resources.items()}  # fmt: skip
    for (requests, moment, sign), number in changes.items():
        for name, amount in _amounts(requests).items():
            totals = sums.setdefault(name, [0.0, 0.0])
            totals[0] += sign * number * amount * seconds_since(moment, until)
            totals[1] += sign * number * amount * trained(moment)
    nothing = ResourceUsage()
    names = sorted({*sums, *held}, key=lambda name: (name not in usage.resources, name))[:_MAX_RESOURCES]
    return {
        name: ResourceUsage(
            held.get(name, 0.0),
            *(
                round(min(max(so_far, 0.0) + max(more, 0.0), _MAX_SUM), 3)
                for so_far, more in zip(
                    (old.requested_seconds, old.trained_seconds), sums.get(name, (0.0, 0.0)), strict=True
                )
            ),
        )
        for name in names
        for old in [usage.resources.get(name, nothing)]
    }


def held_by(pods: Iterable[Pod], now: datetime) -> dict[str, float]:
    """Return the sum of the requests of all pods that are on nodes now, by resource."""
    counts: Counter[str] = Counter()
    for pod in pods:
        if pod.spec.requests:
            start, end = _on_node(pod)
            counts[pod.spec.requests] += start is not None and start <= now and (end is None or end > now)
    held: dict[str, float] = {}
    for requests, number in counts.items():
        for name, amount in _amounts(requests).items() if number else ():
            held[name] = held.get(name, 0.0) + number * amount
    return dict(sorted(held.items())[:_MAX_RESOURCES])


@lru_cache(1024)
def _amounts(requests: str) -> Mapping[str, float]:
    try:
        return requests_of(requests)
    except PodTemplateError:
        return {}  # an API server has accepted it, but it can't be read here


def _on_node(pod: Pod) -> tuple[datetime | None, datetime | None]:
    """Return when the pod came to its node (None: it has no node), and when it ended there (None: it has not ended)."""
    start, status = pod.status.start_time, pod.status
    if start is None:
        return (utc(datetime.min), None) if status.phase == "Running" else (None, None)
    if status.phase not in ("Succeeded", "Failed"):
        return utc(start), None
    end = termination_of(program_of(pod))
    return utc(start), utc(start if end is None or end.finished_at is None else end.finished_at)


def bound_at(pod: Pod | None, now: datetime) -> datetime | None:
    """Return when a pod came to its node, according to its kubelet; None if it has no node yet.

    If the kubelet has not reported the time yet, return `now`.
    """
    if pod is None or not (pod.spec.node_name or pod.status.start_time or pod.status.phase != "Pending"):
        return None
    return utc(pod.status.start_time or now)


def begun_at(replica: Replica, now: datetime) -> datetime | None:
    """Return when a replica's program began, by the node's clock; None if it does not run and has not succeeded.

    If the kubelet has not reported the time yet, return `now`.
    """
    program, done = program_of(replica.pod), replica.state is ReplicaState.SUCCEEDED
    if replica.pod is None or not (done or replica.state is ReplicaState.RUNNING):
        return None
    if program is None or program.state is None:
        return now
    ended, running = program.state.terminated, program.state.running
    if ended is not None:
        return utc(ended.started_at or now) if done else None
    if program.state.waiting is not None:
        return None
    return utc(now if running is None or running.started_at is None else running.started_at)


def program_of(pod: Pod | None) -> ContainerStatus | None:
    """Return the state of the container `tensorflow` that the kubelet reports."""
    containers = () if pod is None else pod.status.container_statuses
    return next((container for container in containers if container.name == DEFAULT_CONTAINER_NAME), None)


def termination_of(program: ContainerStatus | None, *, last: bool = False) -> ContainerStateTerminated | None:
    """Return how a program has ended; with `last`, return how it ended before the kubelet last restarted it."""
    state = None if program is None else program.last_state if last else program.state
    return None if state is None else state.terminated
