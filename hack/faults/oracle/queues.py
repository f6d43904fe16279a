"""The promises of docs/kueue.md about a job in a queue where the operator drives Workloads, as the oracle reads them.

Quota is never overdrawn: at any moment, of each pod set only so many pods take room as the job's Workload has
quota for. An elastic job may have a second Workload beside the first, which asks for more workers and replaces the
first: while both have quota, the quota of each is enough for the pods. The other rules follow from this rule: pods
exist only after the admission, and writes never give quota back before the last pod of an evicted, changed, suspended
or ended job is gone. `QueueChecker` finds states that must never occur, `check_queue` states that are wrong at the end.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from hack.faults.journal import Entry
from hack.faults.oracle.history import AttachmentHistory, JobHistory, Violation
from hack.faults.plan.queues import (
    CHECK_LABELS,
    CHECK_SELECTOR,
    CHECK_TOLERATION,
    CLUSTER_QUEUE,
    FLAVOR_SELECTOR,
    FLAVOR_TOLERATION,
    PRIORITIES,
)
from hack.faults.plan.steps import PRIORITY_LABEL, QUEUE_LABEL

Json = dict[str, Any]
Complain = Callable[[str, JobHistory, str], None]
_Asks = tuple[str, tuple[tuple[str, int, str], ...]]
"""The queue, and how many pods of each set, and a digest of their template. An elastic job asks for `_ANY` workers."""

_ANY = -1
"""In place of the number of an elastic job's workers, which Workloads of one job need not agree about."""

_WORKERS = "worker"
_REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
_IN_USE = "kueue.x-k8s.io/resource-in-use"
_POD_SET = "kueue.x-k8s.io/podset"


class QueueChecker:
    """Reads the events of Workloads, and calls `complain` for what must not happen."""

    def __init__(self, deleted_by_plan: set[str], complain: Complain) -> None:
        """`deleted_by_plan` are UIDs."""
        self._deleted_by_plan = deleted_by_plan
        self._complain = complain
        self._asked: dict[str, set[_Asks]] = {}  # all that a job has ever asked for, by its UID

    def read(self, job: JobHistory, entry: Entry) -> None:
        """One event of a Workload of the job."""
        workload = job.attachments.get(entry.uid)
        before = None if workload is None else workload.obj
        if workload is None:
            if entry.what == "DELETED":
                return
            workload = job.attachments[entry.uid] = AttachmentHistory(entry.uid, entry.kind, entry.obj)
            self._created(job, workload)
        workload.obj = entry.obj
        if before is not None:
            self._check_change(job, workload, before)
        self.give_reasons(job)
        going = workload.deleting or entry.what == "DELETED"
        if going and not workload.reasons and workload.uid not in self._deleted_by_plan:
            self._complain("wrong", job, f"its Workload {workload.name} was deleted without a reason")
        workload.gone = entry.what == "DELETED"
        self._check_quota(job)

    def note_job(self, job: JobHistory) -> None:
        """A new version of the job."""
        self._asked.setdefault(job.uid, set()).add(_asks(job))
        self.give_reasons(job)

    def give_reasons(self, job: JobHistory) -> None:
        """Note the actions that the operator may take from here on, with Workloads and with pods."""
        for attachment in job.attachments_of("Workload"):
            if job.gone or job.obj["metadata"].get("deletionTimestamp"):
                attachment.reasons.add("job deleted")
            if job.suspended:
                attachment.reasons.add("suspended")
            if not _queue_of(job):
                attachment.reasons.add("in no queue")
            if _asks_of(attachment, job) != _asks(job):
                attachment.reasons.add("changed")
            if _is_larger(attachment, job):
                attachment.reasons.add("asks for more workers beside another, and may be given up at any time")
            if _holds(attachment, "Finished") and not job.verdict:
                attachment.reasons.add("failed to start")
            if _is_short(job, attachment):
                attachment.reasons.add("gave back too much")
        if is_held(job):
            for pod in job.living():
                pod.reasons.add("queue")
            for service in job.services.values():
                service.reasons.add("queue")

    def check_new_pod(self, job: JobHistory, pod: Json) -> None:
        """A pod of the job was made."""
        self.give_reasons(job)
        name = pod["metadata"]["name"]
        if not _queue_of(job):
            return
        if not any(map(_is_admitted, job.attachments_of("Workload"))):
            self._complain("wrong", job, f"pod {name} was made, and no Workload of its job is admitted")
        self._check_quota(job)
        for text in _missing(job, pod):
            self._complain("wrong", job, f"pod {name} lacks {text}")

    def _created(self, job: JobHistory, workload: AttachmentHistory) -> None:
        def say(kind: str, text: str) -> None:
            self._complain(kind, job, f"its Workload {workload.name} {text}")

        others = [other for other in job.attachments_of("Workload") if other is not workload]
        if others and not (_is_larger(workload, job) and all(_holds(other, "QuotaReserved") for other in others)):
            say("doubled", f"was made beside {[other.name for other in others]}")
        if len(others) > 1:
            say("doubled", "is the third")
        most = max(int(spec["tfReplicaSpecs"].get("Worker", {}).get("replicas", 1)) for spec in job.specs)
        if _is_elastic(job) and any(
            each["count"] > most for each in workload.spec["podSets"] if each["name"] == _WORKERS
        ):
            say("wrong", f"asks for more than {most} workers")
        if job.verdict:
            say("doubled", f"was made although the job has {job.verdict}")
        if job.managed_elsewhere or all((spec.get("runPolicy") or {}).get("suspend") for spec in job.specs):
            say("wrong", "was made for a job that was never to run")
        if _asks_of(workload, job) not in self._asked.get(job.uid, ()):
            say("wrong", f"asks for {_asks_of(workload, job)}, which the job never did")
        if _IN_USE not in (workload.obj["metadata"].get("finalizers") or ()):
            say("wrong", "can be deleted while pods run")

    def _check_change(self, job: JobHistory, workload: AttachmentHistory, before: Json) -> None:
        """Check the rules of Kueue's webhook, which plans do not have."""
        old = AttachmentHistory(workload.uid, workload.kind, before)
        if not _holds(old, "QuotaReserved"):
            return
        if not _holds(workload, "QuotaReserved"):
            requeued = _conditions(workload).get("Requeued", {}).get("status")
            at_once = str(_conditions(old).get("Evicted", {}).get("reason") == "Preempted")
            if requeued != at_once or _holds(workload, "Admitted") or workload.obj["status"].get("admission"):
                text = f"has given its quota back but for its admission, and is Requeued={requeued}, not {at_once}"
                self._complain("wrong", job, f"its Workload {workload.name} {text}")
            return
        if any(old.spec.get(name) != workload.spec.get(name) for name in ("podSets", "queueName")):
            self._complain("wrong", job, f"its Workload {workload.name} asks for something else while it has quota")
        was, now = _reclaimed(old), _reclaimed(workload)
        if any(now.get(name, 0) < count for name, count in was.items()):
            self._complain(
                "wrong", job, f"its Workload {workload.name} takes back what it had given back: {was}, {now}"
            )

    def _check_quota(self, job: JobHistory) -> None:
        if not _queue_of(job):
            return
        busy, quota = _busy(job), _quota(job)
        if any(count > quota[kind] for kind, count in busy.items()):
            self._complain("wrong", job, f"quota is overdrawn: {dict(busy)} pods, with quota for {dict(quota)}")


def check_queue(job: JobHistory) -> Iterator[Violation]:
    """Yield what is wrong at the end with the queue of a job that exists and is not being deleted."""
    for kind, text in _check(job):
        yield Violation(kind, job.name, text)


def is_held(job: JobHistory) -> bool:
    """Whether the job's queue lets it have no pods."""
    if job.verdict or not _queue_of(job):
        return False
    workload = _workload(job)
    holds = workload is not None and _is_admitted(workload) and not _holds(workload, "Evicted", "Finished")
    return (
        workload is None
        or not holds
        or workload.deleting
        or _asks_of(workload, job) != _asks(job)
        or _is_short(job, workload)
    )


def _check(job: JobHistory) -> Iterator[tuple[str, str]]:
    queue, every = _queue_of(job), job.attachments_of("Workload")
    admitted = job.conditions().get("Admitted")
    yield from (
        ("stuck", f"its Workload {workload.name} is being deleted and does not go")
        for workload in every
        if workload.deleting
    )
    if len(every) > 1 and not (
        _is_elastic(job) and not job.verdict and any(_is_larger(workload, job) for workload in every)
    ):
        yield "doubled", f"it has {len(every)} Workloads"
    if not job.verdict and (job.suspended or not queue):
        yield from (
            ("stuck", f"its Workload {workload.name} is left of a job that needs no quota") for workload in every
        )
        if admitted is not None and (admitted["status"] == "True" or not job.suspended):
            yield "wrong", f"it needs no quota, and is Admitted={admitted['status']}"
        return
    workload = _workload(job)
    if workload is None:
        if queue and not job.suspended:
            yield "lost", "it has no Workload"
        return
    if job.verdict and (busy := _busy(job)):
        left = {each["name"]: each["count"] - busy[each["name"]] for each in workload.spec["podSets"]}
        if _holds(workload, "Finished") or _reclaimed(workload) != {
            name: count for name, count in left.items() if count
        }:
            yield "wrong", f"{dict(busy)} run on, and their quota was given back of {_reclaimed(workload)}, or of all"
        return
    if job.verdict:
        finished = _conditions(workload).get("Finished") or {}
        actual = finished.get("status"), finished.get("reason")
        if actual != ("True", job.verdict):
            yield "stuck", f"it has {job.verdict}, and its Workload is Finished={actual[0]} ({actual[1]})"
        if _IN_USE in (workload.obj["metadata"].get("finalizers") or ()):
            yield "stuck", f"it has {job.verdict}, and its Workload can't be deleted"
        return
    yield from _check_asked(job, workload)
    yield from _check_admitted(job, workload, admitted or {})


def _check_asked(job: JobHistory, workload: AttachmentHistory) -> Iterator[tuple[str, str]]:
    if _asks_of(workload, job) != _asks(job):
        yield "wrong", f"its Workload asks for {_asks_of(workload, job)}, and the job for {_asks(job)}"
    if _holds(workload, "Finished"):
        yield "stuck", "it goes on, and its Workload is finished"
    has = str((workload.spec.get("priorityClassRef") or {}).get("name") or "")
    wanted = str((job.obj["metadata"].get("labels") or {}).get(PRIORITY_LABEL) or "")
    if (has != wanted and has and wanted) or workload.spec.get("priority") != PRIORITIES[has]:
        yield "wrong", f"its priority is {wanted!r}, and that of its Workload {has!r}: {workload.spec.get('priority')}"
    if _holds(workload, "Evicted") and _holds(workload, "QuotaReserved"):
        yield "stuck", "its Workload is evicted, and keeps its quota"
    if not _is_admitted(workload):
        return
    ready = job.holds("Ready")
    if _holds(workload, "PodsReady") != ready:
        yield "wrong", f"its Ready is {ready}, and its Workload says PodsReady={not ready}"
    ended = _ended(job)
    if _is_elastic(job) and (held := _quota_of(workload)[_WORKERS]) != job.size("Worker") - ended[_WORKERS]:
        yield (
            "stuck",
            f"it has quota for {held} workers, and {job.size('Worker')} of which {ended[_WORKERS]} have ended",
        )
    if not job.together and not _is_elastic(job) and _reclaimed(workload) != dict(ended):
        yield "wrong", f"{dict(ended)} have ended, and their quota was given back of {_reclaimed(workload)}"


def _ended(job: JobHistory) -> Counter[str]:
    """Return how many replicas of each set have ended for good, according to the status."""
    return Counter(key[0].lower() for key in job.completed() | job.failed() if key[1] < job.size(key[0]))


def _is_short(job: JobHistory, workload: AttachmentHistory) -> bool:
    """Whether quota was given back of replicas that run again."""
    if not _holds(workload, "QuotaReserved"):
        return False
    ended, asked = _ended(job), _counts(workload)
    if _is_elastic(job):
        ended[_WORKERS] += max(0, asked[_WORKERS] - job.size("Worker"))
    return any(count > ended[name] for name, count in _reclaimed(workload).items())


def _check_admitted(job: JobHistory, workload: AttachmentHistory, admitted: Json) -> Iterator[tuple[str, str]]:
    status, message = admitted.get("status"), str(admitted.get("message"))
    if status != str(_is_admitted(workload)):
        yield "wrong", f"its Workload is admitted: {_is_admitted(workload)}, and the job's Admitted is {status}"
    elif status == "True":
        if f" {CLUSTER_QUEUE}." not in message:
            yield "wrong", f"it is admitted by {CLUSTER_QUEUE}, and says: {message}"
    else:
        why = (
            "not active" if workload.spec.get("active") is False else _conditions(workload)["QuotaReserved"]["message"]
        )
        if why not in message or f"queue {_queue_of(job)}" not in message:
            yield "wrong", f"it waits in {_queue_of(job)}, for {why}, and says: {message}"


def _missing(job: JobHistory, pod: Json) -> Iterator[str]:
    """Yield each part of its job's admission that a new pod lacks."""
    spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
    workload = _workload(job)
    checks = [] if workload is None else (workload.obj.get("status") or {}).get("admissionChecks") or ()
    checked = any(check["state"] == "Ready" for check in checks)
    selector = {**FLAVOR_SELECTOR, **(CHECK_SELECTOR if checked else {})}
    wanted = {_POD_SET: labels.get("training.kubeflow.org/replica-type"), **(CHECK_LABELS if checked else {})}
    if not selector.items() <= (spec.get("nodeSelector") or {}).items():
        yield f"the node selector {selector}"
    if not wanted.items() <= labels.items():
        yield f"the labels {wanted}"
    for toleration in (FLAVOR_TOLERATION, *((CHECK_TOLERATION,) if checked else ())):
        if toleration not in (spec.get("tolerations") or ()):
            yield f"the toleration {toleration}"


def _quota(job: JobHistory) -> Counter[str]:
    """For how many pods of each set there is quota, by Kueue's sum. Of two Workloads, the smaller number counts."""
    quotas = [
        _quota_of(attachment)
        for attachment in job.attachments_of("Workload")
        if _holds(attachment, "QuotaReserved") and not _holds(attachment, "Finished")
    ]
    names = {name for quota in quotas for name in quota}
    return Counter({name: min(quota[name] for quota in quotas) for name in names})


def _quota_of(workload: AttachmentHistory) -> Counter[str]:
    spare, given = _reclaimed(workload), (workload.obj["status"].get("admission") or {}).get("podSetAssignments") or ()
    needed = {name: count - spare.get(name, 0) for name, count in _counts(workload).items()}
    return Counter({each["name"]: min(each["count"], needed[each["name"]]) for each in given})


def _busy(job: JobHistory) -> Counter[str]:
    """How many pods of each set take, or will take, room on a node."""
    living = (pod for pod in job.living() if pod.runs_on or pod.phase not in ("Succeeded", "Failed"))
    return Counter(pod.replica[0].lower() for pod in living)


def _workload(job: JobHistory) -> AttachmentHistory | None:
    """Return the Workload that decides about the pods.

    A Workload that replaces another decides as soon as it has quota, or the other has none any more.
    """
    every = job.attachments_of("Workload")
    larger = next((workload for workload in every if _is_larger(workload, job)), None)
    first = next((workload for workload in every if workload is not larger), None)
    if larger is None or first is None:
        return larger or first
    has_quota = _holds(larger, "QuotaReserved") and not _holds(larger, "Evicted") and not larger.deleting
    return larger if has_quota or _holds(first, "Finished") else first


def _is_elastic(job: JobHistory) -> bool:
    return job.spec.get("elasticPolicy") is not None


def _is_larger(workload: AttachmentHistory, job: JobHistory) -> bool:
    """Whether this Workload asks for more workers, to replace another Workload of the job that is there."""
    key = (workload.obj["metadata"].get("annotations") or {}).get(_REPLACES)
    namespace = workload.obj["metadata"]["namespace"]
    others = (other for other in job.attachments_of("Workload") if other is not workload)
    return key is not None and any(key == f"{namespace}/{other.name}" for other in others)


def _counts(workload: AttachmentHistory) -> Counter[str]:
    return Counter({each["name"]: int(each["count"]) for each in workload.spec["podSets"]})


def _queue_of(job: JobHistory) -> str:
    return str((job.obj["metadata"].get("labels") or {}).get(QUEUE_LABEL) or "")


def _asks(job: JobHistory) -> _Asks:
    specs = job.spec["tfReplicaSpecs"].items()
    sets = [(kind.lower(), job.size(kind), _digest((spec.get("template") or {}).get("spec"))) for kind, spec in specs]
    return _queue_of(job), _sets(job, sets)


def _asks_of(workload: AttachmentHistory, job: JobHistory) -> _Asks:
    sets = [(each["name"], int(each["count"]), _digest(each["template"]["spec"])) for each in workload.spec["podSets"]]
    return str(workload.spec["queueName"]), _sets(job, sets)


def _sets(job: JobHistory, sets: list[tuple[str, int, str]]) -> tuple[tuple[str, int, str], ...]:
    any_number = {_WORKERS} if _is_elastic(job) else set()
    return tuple(sorted((name, _ANY if name in any_number else count, digest) for name, count, digest in sets))


def _digest(template: Json | None) -> str:
    return f"{zlib.crc32(json.dumps(template, sort_keys=True).encode()):08x}"


def _is_admitted(workload: AttachmentHistory) -> bool:
    return _holds(workload, "QuotaReserved") and _holds(workload, "Admitted")


def _conditions(workload: AttachmentHistory) -> dict[str, Json]:
    return {each["type"]: each for each in (workload.obj.get("status") or {}).get("conditions") or ()}


def _holds(workload: AttachmentHistory, *kinds: str) -> bool:
    """Whether one of these conditions is true."""
    return any(_conditions(workload).get(kind, {}).get("status") == "True" for kind in kinds)


def _reclaimed(workload: AttachmentHistory) -> dict[str, int]:
    return {each["name"]: each["count"] for each in (workload.obj.get("status") or {}).get("reclaimablePods") or ()}
