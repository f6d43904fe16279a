"""Pods, and what becomes of them in the next moment, by chance."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from hack.random_jobs.chances import chance, number, some, timestamp
from hack.simulated_objects import NOW
from hack.simulated_pods import bound, with_status
from tfoperator.api.replicas.names import (
    ANNOTATION_DISRUPTIONS,
    ANNOTATION_JOB_DISRUPTIONS,
    ANNOTATION_JOB_RESTARTS,
    ANNOTATION_RESTARTS,
    LABEL_JOB_NAME,
    LABEL_OPERATOR_NAME,
    LABEL_REPLICA_INDEX,
    LABEL_REPLICA_TYPE,
    MAX_RESTARTS,
    OPERATOR_NAME,
)
from tfoperator.controller.pods.pod_groups import PodGroup, PodGroupStatus
from tfoperator.kube.views.objects import ObjectMeta, Pod
from tfoperator.kube.views.pod_status import ContainerStatus, PodCondition, PodStatus

_CODES = (0, 1, 2, 127, 128, 129, 130, 137, 137, 137, 138, 138, 143, 143, 201, 202, 255)
_UNSEEN = (("ContainerStatusUnknown", 137), ("Unknown", 255), ("Unknown", 137))
_WAITS = ("ContainerCreating", "ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff", "CreateContainerConfigError")
_REASONS = (
    *("", "", "", "Evicted", "NodeLost", "DeadlineExceeded", "UnexpectedAdmissionError", "Preempting", "OutOfcpu"),
    *("NodePorts", "TaintToleration", "UnknownReason"),
)
_DISRUPTIONS = ("DeletionByTaintManager", "PreemptionByScheduler", "EvictionByEvictionAPI", "TerminationByKubelet")
_TEXTS = (
    "0/3 nodes are available: 3 Insufficient cpu.",
    "0/3 nodes are available: 1 node(s) had untolerated taint, 2 Insufficient memory. preemption: 0/3 nodes.",
    "pod group is not ready, 1 Pending, 3 minAvailable",
    "resource gap: map[cpu:{{5000 -3} {<nil>}  DecimalSI} memory:{{5 9} {<nil>} 5G BinarySI}].",
    "summary. Origin reason is mnist-worker-0: 0/9 nodes are unavailable: 1 a, 2 b, 3 c, 4 d.",
    "something else",
    "something else that takes more than a line: " + 20 * "another word, ",
    "",
)
_AGES = (0, 1, 5, 9, 10, 11, 30, -1, -10, -11)
"""Seconds; less than none where a node's clock is ahead."""

_COUNTS = ("", "0", "1", "2", "x", "-1", *(str(MAX_RESTARTS + more) for more in (-2, -1, 0, 1)))


def _requests(*names: str, amount: str = "2") -> str:
    amounts = ",".join(f'"{name}":"{amount}"' for name in names)
    return f'{{"containers":[{{"resources":{{"requests":{{{amounts}}}}}}}]}}'


_REQUESTS = (
    *(
        "",
        *[_requests("cpu")] * 4,
        _requests("cpu", "memory"),
        _requests("cpu", amount="?"),
        _requests("cpu", amount="100u"),
    ),
    _requests(*(f"a.example/{at}" for at in range(17))),
    _requests(*(f"b.example/{at}" for at in range(20))),
    _requests("memory", amount="9000000000000000E"),
)
"""Requests of random pods: also more kinds than are accounted for, more than is counted, and unreadable requests."""


def changed_pod(rng: random.Random, pod: Pod, now: datetime) -> Pod | None:
    """Return the pod as it is next: mostly the same. None: it is gone."""
    meta = pod.metadata
    if meta.deletion_timestamp is not None and chance(rng, 0.4):
        return None
    if chance(rng, 0.04):
        pod = replace(pod, metadata=_odd(rng, meta))
    if chance(rng, 0.5 if pod.status.phase == "Pending" else 0.75):
        return pod
    change = _CHANGES.get(pod.status.phase)
    return pod if change is None else change(rng, pod, now)


def changed_pod_group(rng: random.Random, group: PodGroup) -> PodGroup:
    """Return the PodGroup as its scheduler has it next: mostly the same."""
    if chance(rng, 0.8):
        return group
    condition = PodCondition(rng.choice(("Unschedulable", "PodGroupScheduled")), rng.choice(("True", "False")), "", "")
    condition = replace(
        condition, reason=rng.choice(("NotEnoughResources", "Unschedulable", "")), message=rng.choice(_TEXTS)
    )
    conditions = (condition,) if chance(rng, 0.5) else ()
    status = PodGroupStatus(rng.choice(("", "Pending", "Inqueue", "Running", "Scheduled")), conditions)
    spec = replace(group.spec, queue=rng.choice(("", "shared", "other")))
    if chance(rng, 0.2):
        spec = replace(spec, scheduling_constraints=rng.choice((None, {"topology": [{"key": "rack"}]})))
    if chance(rng, 0.2):
        spec = replace(spec, min_member=rng.choice((1, 2, 3, 5)))
    return replace(group, status=status, spec=spec)


def _odd(rng: random.Random, metadata: ObjectMeta) -> ObjectMeta:
    """Return metadata that differ from the metadata of the operator's pods, or are only a part of them."""
    match rng.randrange(10):
        case 0 | 1:
            return replace(metadata, creation_timestamp=None)
        case 2:
            return replace(metadata, labels={LABEL_JOB_NAME: metadata.labels.get(LABEL_JOB_NAME, "")})
        case 3:
            return replace(metadata, finalizers=("example.com/kept",))
    count = rng.choice((ANNOTATION_RESTARTS, ANNOTATION_JOB_RESTARTS))
    return replace(metadata, annotations={**metadata.annotations, count: rng.choice(_COUNTS)})


def _pending(rng: random.Random, pod: Pod, now: datetime) -> Pod:
    match rng.randrange(10):
        case 9 if chance(rng, 0.3):
            return with_status(pod, phase="")
        case 0:
            placed = rng.choice(("True", "False", "False"))
            condition = PodCondition("PodScheduled", placed, rng.choice(("Unschedulable", "")), rng.choice(_TEXTS))
            others = (PodCondition("Ready", "False", "", rng.choice(_TEXTS)),) if chance(rng, 0.3) else ()
            return with_status(pod, conditions=(*others, condition))
        case 1:
            waits = _waiting(rng)
            return with_status(_bound(rng, pod), container_statuses=(waits,), conditions=(), start_time=now)
        case 2:
            first = replace(_container(rng, {"terminated": _end(rng, now)}), name="init")
            return with_status(_bound(rng, pod), init_container_statuses=(first,), conditions=())
        case 3 if chance(rng, 0.3):
            return failed_pod(rng, pod, now)
    return _running(rng, _bound(rng, pod), now)


def _bound(rng: random.Random, pod: Pod) -> Pod:
    return bound(pod, rng.choice(("a", "b")), requests=rng.choice(_REQUESTS))


def _running(rng: random.Random, pod: Pod, now: datetime) -> Pod:
    start = now - timedelta(seconds=rng.choice(_AGES))
    container = replace(_container(rng, {"running": {"startedAt": start}}), ready=chance(rng, 0.8))
    status = PodStatus("Running", start_time=pod.status.start_time or start, container_statuses=(container,))
    return replace(pod, status=status)


def _going_on(rng: random.Random, pod: Pod, now: datetime) -> Pod:
    match rng.randrange(9):
        case 0:
            return failed_pod(rng, pod, now)
        case 1:
            waits = _waiting(rng, last={"terminated": _end(rng, now)} if chance(rng, 0.8) else None)
            return with_status(pod, container_statuses=(waits,))
        case 2 if chance(rng, 0.5):
            ended = _container(rng, {"terminated": _end(rng, now) | {"exitCode": 0}})
            return with_status(pod, phase="Succeeded", container_statuses=(ended,))
        case 4:
            again = _container(rng, {"running": {"startedAt": now}}, last={"terminated": _end(rng, now)})
            before = max((status.restart_count for status in pod.status.container_statuses), default=0)
            again = replace(again, restart_count=before + rng.choice((1, 1, 2)), ready=chance(rng, 0.5))
            return with_status(pod, container_statuses=(again,))
        case 5:
            lost = PodCondition("DisruptionTarget", "True", rng.choice(_DISRUPTIONS), "")
            return with_status(pod, conditions=(*pod.status.conditions, lost))
        case 6:
            beside = replace(_container(rng, {"running": {"startedAt": now}}), name="proxy")
            ended = _container(rng, {"terminated": _end(rng, now)})
            return with_status(pod, container_statuses=(beside, ended))
        case 7 if chance(rng, 0.3):
            return with_status(pod, phase=rng.choice(("Unknown", "Running")), reason="NodeLost")
    return _running(rng, pod, now)


def failed_pod(rng: random.Random, pod: Pod, now: datetime) -> Pod:
    """Return the pod as it has failed, by its program, its node, or a refusal of its kubelet."""
    ended = tuple(_container(rng, {"terminated": _end(rng, now)}) for _ in range(rng.choice((0, 1, 1, 1, 2))))
    match rng.randrange(6):
        case 0:
            ended = tuple(replace(container, name=f"other-{at}") for at, container in enumerate(ended))
        case 1:  # it has not begun, or not again
            ended = (_waiting(rng),)
    disrupted = (PodCondition("DisruptionTarget", "True", rng.choice(_DISRUPTIONS), ""),) if chance(rng, 0.2) else ()
    message = rng.choice(("", "Pod was rejected: no room", "The node was low on resource: memory."))
    reason = rng.choice(_REASONS)
    return with_status(
        pod, phase="Failed", reason=reason, message=message, container_statuses=ended, conditions=disrupted
    )


def _waiting(rng: random.Random, last: dict[str, Any] | None = None) -> ContainerStatus:
    message = rng.choice(("", "why", 30 * "and why ", "w" * rng.randrange(125, 145)))
    return _container(rng, {"waiting": {"reason": rng.choice(_WAITS), "message": message}}, last)


def _container(rng: random.Random, state: dict[str, Any], last: dict[str, Any] | None = None) -> ContainerStatus:
    count = rng.choice((0, 0, 0, 0, 0, 0, 1, 1, 2, 2)) if not chance(rng, 0.01) else MAX_RESTARTS
    fields = {"name": "tensorflow", "restartCount": count, "state": state} | ({"lastState": last} if last else {})
    return msgspec.convert(fields, ContainerStatus)


def _end(rng: random.Random, now: datetime) -> dict[str, Any]:
    finished = now - timedelta(seconds=rng.choice(_AGES))
    times = {"finishedAt": finished, "startedAt": finished - timedelta(seconds=rng.choice(_AGES))}
    reason, code = rng.choice(("", "Error", "OOMKilled", "Completed")), rng.choice(_CODES)
    if chance(rng, 0.05):
        reason, code = rng.choice(_UNSEEN)
    return {"exitCode": code, "reason": reason} | (times if chance(rng, 0.9) else {})


_CHANGES: dict[str, Callable[[random.Random, Pod, datetime], Pod]] = {
    "Pending": _pending,
    "": _pending,
    "Running": _going_on,
    "Unknown": _running,
}
"""The ways in which a pod can go on, by its phase; a pod that has ended stays as it is."""


def random_pod(rng: random.Random, which: int) -> Pod:
    """Return a pod of the job, as a kubelet or a stranger may have left it."""
    spec = some(rng, 0.3, activeDeadlineSeconds=lambda: rng.choice((1, 2, 3600)))
    spec |= some(rng, 0.2, subdomain=lambda: rng.choice(("mnist", "mnist-job-uid", "x")))
    manifest = {"metadata": _of_anybody(rng, which), "spec": spec, "status": {"phase": "Pending"}}
    pod = msgspec.convert(manifest, Pod)
    for _ in range(rng.choice((0, 2, 4, 8))):
        pod = changed_pod(rng, pod, NOW) or pod
    if chance(rng, 0.2):
        pod = failed_pod(rng, pod, NOW)
    return _spoilt(rng, pod) if chance(rng, 0.3) else pod


def _of_anybody(rng: random.Random, serial: int) -> dict[str, Any]:
    kind = rng.choice(("worker", "worker", "ps", "ps", "chief", "chief", "junk", "WORKER", ""))
    index = rng.choice(("0", "0", "1", "1", "2", "2", "-1", "01", "x", "", str(2**31 - 2), "9" * 30))
    labels = {LABEL_REPLICA_TYPE: kind, LABEL_REPLICA_INDEX: index, LABEL_JOB_NAME: "mnist"}
    labels[LABEL_OPERATOR_NAME] = OPERATOR_NAME
    name = f"mnist-{kind}-{index}" if not chance(rng, 0.2) else f"mnist-{kind}-{index}-{serial}"
    if chance(rng, 0.1):
        # Not under a replica's name: the API server decides whose names are taken, and the plan need not know it.
        name = f"stray-{serial}"
        del labels[rng.choice(list(labels))]
    counts = (*_COUNTS, "3", "-3", "9" * 40, "٣")
    notes = {ANNOTATION_RESTARTS: rng.choice(counts)}
    for key in (ANNOTATION_JOB_RESTARTS, ANNOTATION_DISRUPTIONS, ANNOTATION_JOB_DISRUPTIONS):
        notes |= some(rng, 0.3, **{key: lambda: rng.choice((*counts, "1"))})
    metadata = {"name": name, "uid": f"pod-{serial}", "labels": labels, "annotations": notes}
    metadata |= some(rng, 0.8, creationTimestamp=lambda: timestamp(rng))
    return metadata | some(
        rng,
        0.2,
        deletionTimestamp=lambda: timestamp(rng),
        deletionGracePeriodSeconds=lambda: rng.choice((0, 30, -1, 2**62)),
    )


def _spoilt(rng: random.Random, pod: Pod) -> Pod:
    """Numbers and times that no kubelet writes, and phases that there are not."""
    count = number(rng, (0, 1, -1, 10**12), 10**12)
    ended = {"exitCode": number(rng, (0, 1, -1, 10**12), 10**12)} | some(rng, 0.8, finishedAt=lambda: timestamp(rng))
    states: tuple[dict[str, Any], ...] = ({}, {"terminated": ended}, {"waiting": {"reason": "CrashLoopBackOff"}})
    container = {
        "name": "tensorflow",
        "restartCount": count,
        "state": rng.choice(states),
        "lastState": rng.choice(states),
    }
    phase = rng.choice((pod.status.phase, "Running", "Failed", "", "odd"))
    statuses = (msgspec.convert(container, ContainerStatus),)
    return with_status(pod, phase=phase, container_statuses=statuses)
