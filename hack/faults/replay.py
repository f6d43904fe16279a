"""Reads a journal into the lives of its jobs, and tells what must never have happened in them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hack.faults.attached import Attached
from hack.faults.journal import Entry, Journal
from hack.faults.lives import CHIEFS, JobLife, PodLife, ReplicaKey, ServiceLife, Violation
from hack.faults.thresholds import enough_succeeded, too_many_failed

__all__ = ["replay"]

Json = dict[str, Any]

_KINDS = {kind.lower(): kind for kind in ("PS", "Worker", "Chief", "Master", "Evaluator")}
_LABEL = "training.kubeflow.org/"
_VERDICTS = ("Succeeded", "Failed")


def replay(journal: Journal) -> tuple[list[JobLife], list[Violation]]:
    """All jobs of a journal as it leaves them, and what went wrong on the way."""
    reader = _Reader(journal)
    for entry in journal.entries:
        reader.read(entry)
    return list(reader.jobs.values()), reader.violations


class _Reader:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._version = 0
        self.jobs: dict[str, JobLife] = {}
        self._early: dict[str, list[Entry]] = {}  # events of objects whose job the journal shows only later, by its UID
        self._attached = Attached(journal.gang, journal.taken, self._complain)
        self._strangers: dict[str, int] = {}  # the version that each has had from the beginning
        self.violations: list[Violation] = []

    def read(self, entry: Entry) -> None:
        self._version = entry.version
        if entry.kind == "TFJob":
            self._job(entry)
            for early in self._early.pop(entry.uid, ()):
                self._child(self.jobs[entry.uid], early)
        elif entry.uid in self._journal.strangers:
            self._stranger(entry)
        elif entry.kind == "Pod" and (board := self._board_of(entry)) is not None:
            self._attached.read_board_pod(board, entry)
        elif (job := self.jobs.get(_owner(entry.obj)) or self._last_owner(entry)) is not None:
            self._child(job, entry)
        else:
            self._early.setdefault(_owner(entry.obj), []).append(entry)

    def _child(self, job: JobLife, entry: Entry) -> None:
        replica = _replica(entry.obj)
        if replica is None:
            self._attached.read(job, entry)
        else:
            (self._pod if entry.kind == "Pod" else self._service)(job, replica, entry)

    def _last_owner(self, entry: Entry) -> JobLife | None:
        """The job that an object was taken from."""
        if entry.uid not in self._journal.orphaned:
            return None
        return next((job for job in self.jobs.values() if entry.uid in job.attached), None)

    def _board_of(self, entry: Entry) -> JobLife | None:
        """The job whose TensorBoard a pod is of."""
        owner = _owner(entry.obj)
        return next((job for job in self.jobs.values() if owner in job.attached), None)

    def _stranger(self, entry: Entry) -> None:
        """What has a name that a job needs, and is nobody's business."""
        first = self._strangers.setdefault(entry.uid, entry.version)
        touched = entry.what == "DELETED" and entry.uid not in self._journal.taken
        if (touched or (entry.what == "MODIFIED" and entry.version != first)) and self._journal.is_whole_at(
            entry.version
        ):
            text = f"{entry.kind.lower()} {entry.name} is somebody else's, and was {entry.what.lower()}"
            self.violations.append(Violation("wrong", "-", text))

    def _complain(self, kind: str, job: JobLife, text: str) -> None:
        if self._journal.is_whole_at(self._version):
            self.violations.append(Violation(kind, job.name, text))

    # Jobs.

    def _job(self, entry: Entry) -> None:
        job = self.jobs.get(entry.uid)
        before = job.obj if job is not None else None
        if job is None:
            job = self.jobs[entry.uid] = JobLife(entry.obj)
        old_counts, old_completed, old_failed = job.counts(), job.completed(), job.failed()
        old_verdict = job.verdict
        job.obj = entry.obj
        if before is None or before["spec"] != entry.obj["spec"]:
            job.specs.append(job.spec)
        if entry.what == "DELETED":
            job.gone = True
            self._gone(job)
        self._give_reasons(job)
        self._check_verdict(job, old_verdict)
        self._check_counts(job, old_counts)
        for kind, index in sorted(old_completed - job.completed()):
            self._complain("lost", job, f"{kind}-{index} is not completed any more")
        for key in sorted(job.completed() - old_completed):
            if not any(pod.ended_well for pod in job.pods.values() if pod.replica == key):
                self._complain("wrong", job, f"{key[0]}-{key[1]} counts as completed, but never was")
        for kind, index in sorted(job.failed() - old_failed):
            policy = job.policy(kind)
            if not any(pod.may_have_failed(policy) for pod in job.pods.values() if pod.replica == (kind, index)):
                self._complain("wrong", job, f"{kind}-{index} counts as failed for good, but never was")

    def _gone(self, job: JobLife) -> None:
        if job.uid in self._journal.discarded:
            return
        ttl = job.run_policy.get("ttlSecondsAfterFinished")
        if ttl is None or not job.verdict:
            self._complain("lost", job, "the job was deleted, and nobody asked for it")

    def _give_reasons(self, job: JobLife) -> None:
        """What the operator may do from here on: not only to what is there, for it may act on this a moment late."""
        children: list[PodLife | ServiceLife] = [pod for pod in job.pods.values() if not pod.followed]
        children += [one for one in job.services.values() if not one.gone]
        for child in children:
            self._give_reasons_to(job, child)
        self._attached.give_reasons(job)

    def _give_reasons_to(self, job: JobLife, child: PodLife | ServiceLife) -> None:
        if job.gone or job.obj["metadata"].get("deletionTimestamp"):
            child.reasons.add("job deleted")
        if job.suspended:
            child.reasons.add("suspended")
        if child.replica[1] >= job.size(child.replica[0]):
            child.reasons.add("scaled down")
        if job.verdict and (job.verdict == "Failed" or job.clean_policy != "None"):
            child.reasons.add("finished")

    def _check_verdict(self, job: JobLife, before: str) -> None:
        verdicts = [kind for kind in _VERDICTS if job.holds(kind)]
        if len(verdicts) > 1:
            self._complain("wrong", job, "it has both succeeded and failed")
        job.verdict = verdicts[0] if verdicts else ""
        if before and job.verdict != before:
            self._complain("wrong", job, f"it had {before}, and now has {job.verdict or 'not'}")
        if job.verdict and not before:
            self._give_reasons(job)
            why = _why_succeeded(job) if job.verdict == "Succeeded" else _why_failed(job, self._journal.clock_stepped)
            if not why:
                message = job.conditions()[job.verdict].get("message", "")
                self._complain("wrong", job, f"it has {job.verdict} without a reason: {message}")

    def _check_counts(self, job: JobLife, before: dict[ReplicaKey, int]) -> None:
        counts = job.counts()
        for key, count in sorted(before.items()):
            if counts.get(key, 0) < count:
                what = f"{key[0]}-{key[1]} had {count} restarts, now {counts.get(key, 0)}"
                self._complain("lost", job, what)
        for key, count in sorted(counts.items()):
            most = job.most_restarts(key)
            if count > before.get(key, 0) and count > most:
                self._complain("doubled", job, f"{key[0]}-{key[1]} counts {count} restarts, there were at most {most}")

    # Pods.

    def _pod(self, job: JobLife, replica: ReplicaKey, entry: Entry) -> None:
        pod = job.pods.get(entry.uid)
        if pod is None:
            if entry.what == "DELETED":
                return
            pod = job.pods[entry.uid] = PodLife(entry.uid, entry.name, replica, _base(entry.obj))
            if entry.what == "ADDED":
                self._born(job, pod)
                self._attached.check_member(job, entry.obj)
            self._give_reasons_to(job, pod)
        self._report(pod, entry.obj)
        if pod.failed_retryably(job.policy(replica[0])):
            pod.reasons.add("failed")
        deleting = bool(entry.obj["metadata"].get("deletionTimestamp"))
        if (deleting or entry.what == "DELETED") and not pod.deleting:
            pod.deleting = True
            self._deleted(job, pod)
        if entry.what == "DELETED":
            pod.gone = True

    def _born(self, job: JobLife, pod: PodLife) -> None:
        kind, index = pod.replica
        for other in job.pods.values():
            other.followed |= other is not pod and other.replica == pod.replica
        for other in job.living(pod.replica):
            if other is pod:
                continue
            if other.name == pod.name:
                other.gone = True  # the journal has missed its removal: a name is free before it is used again
            elif not other.deleting:
                self._complain("doubled", job, f"{kind}-{index} has two pods: {other.name} and {pod.name}")
        if job.verdict:
            self._complain("doubled", job, f"pod {pod.name} was made although the job has {job.verdict}")
        if pod.replica in job.completed():
            self._complain("doubled", job, f"{kind}-{index} had completed, and runs again")
        if pod.replica in job.failed() and index < job.size(kind):
            self._complain("doubled", job, f"{kind}-{index} had failed for good, and runs again")
        if job.foreign:
            self._complain("wrong", job, f"pod {pod.name} was made although somebody else manages the job")
        most = job.most_restarts(pod.replica)
        if pod.base > most:
            self._complain("doubled", job, f"pod {pod.name} is restart {pod.base}, there were at most {most} losses")

    def _deleted(self, job: JobLife, pod: PodLife) -> None:
        if pod.uid in self._journal.taken:
            pod.taken = True
            # Of a pod that was lost before anything was written about it nobody can know, least of all a new leader.
            pod.started = pod.replica in job.started() and job.counts().get(pod.replica, 0) >= pod.base
            if not pod.started:
                self._reopen(job, pod)
        elif not pod.reasons:
            self._complain("wrong", job, f"pod {pod.name} ({pod.phase}) was deleted without a reason")

    def _reopen(self, job: JobLife, successor: PodLife) -> None:
        """A pod was lost that alone told of the loss before it: whatever excuses the one excuses the other, too."""
        before = [pod for pod in job.pods.values() if pod.replica == successor.replica and pod is not successor]
        for pod in before[-1:]:
            pod.followed = False
            self._give_reasons_to(job, pod)

    @staticmethod
    def _report(pod: PodLife, obj: Json) -> None:
        status = obj.get("status") or {}
        pod.phase = str(status.get("phase") or "Pending")
        containers = status.get("containerStatuses") or ()
        pod.in_place = max([pod.in_place, *(int(one.get("restartCount", 0)) for one in containers)])
        pod.infrastructure = bool(status.get("reason")) or pod.phase == "Unknown"
        codes = [
            one["state"]["terminated"]["exitCode"] for one in containers if (one.get("state") or {}).get("terminated")
        ]
        pod.exit_code = codes[0] if codes else None
        if pod.phase == "Succeeded" and not pod.deleting:
            pod.ended_well = True

    # Services.

    def _service(self, job: JobLife, replica: ReplicaKey, entry: Entry) -> None:
        service = job.services.get(entry.uid)
        if service is None:
            if entry.what == "DELETED":
                return
            service = job.services[entry.uid] = ServiceLife(entry.uid, entry.name, replica)
            if job.foreign:
                self._complain("wrong", job, f"service {service.name} was made although somebody else manages the job")
            self._give_reasons_to(job, service)
        if entry.what == "DELETED":
            service.gone = True
            if not service.reasons and service.uid not in self._journal.taken:
                self._complain("wrong", job, f"service {service.name} was deleted without a reason")


def _why_succeeded(job: JobLife) -> bool:
    """Whether what has ended well is enough, by any spec that the job has had."""
    well = {pod.replica for pod in job.pods.values() if pod.ended_well}
    failed = _may_have_failed(job) - well

    def done(spec: Json, kinds: list[str]) -> bool:
        return all((kind, index) in well for kind in kinds for index in range(job.size(kind, spec)))

    for spec in job.specs:
        present = [kind for kind in spec["tfReplicaSpecs"] if job.size(kind, spec) > 0]
        chiefs = [kind for kind in present if kind in CHIEFS]
        if "Worker" in present and (not chiefs or spec.get("minSucceededWorkers") is not None):
            size = job.size("Worker", spec)
            enough = enough_succeeded(spec, size, _workers(well, size), _workers(failed, size))
        else:
            enough = bool(present) and done(spec, chiefs or present)
        if enough:
            return True
    return False


def _why_failed(job: JobLife, clock_stepped: bool) -> bool:
    well = {pod.replica for pod in job.pods.values() if pod.ended_well}
    failed = _may_have_failed(job)
    if any(kind != "Worker" for kind, _ in failed):
        return True
    for spec in job.specs:
        size, led = job.size("Worker", spec), any(job.size(kind, spec) for kind in CHIEFS)
        if too_many_failed(spec, size, _workers(well, size), _workers(failed, size), led=led):
            return True
    limit = job.run_policy.get("backoffLimit")
    keys = {pod.replica for pod in job.pods.values()}
    if limit is not None and sum(map(job.most_restarts, keys)) >= max(int(limit), 1):
        return True
    deadline = job.run_policy.get("activeDeadlineSeconds")
    return deadline is not None and (clock_stepped or _active_seconds(job) >= int(deadline))


def _may_have_failed(job: JobLife) -> set[ReplicaKey]:
    """The replicas that may count as failed for good."""
    return {pod.replica for pod in job.pods.values() if pod.may_have_failed(job.policy(pod.replica[0]))}


def _workers(replicas: set[ReplicaKey], size: int) -> set[int]:
    """The indexes of workers among these, of so many that there are."""
    return {index for kind, index in replicas if kind == "Worker" and index < size}


def _active_seconds(job: JobLife) -> float:
    start, end = job.status.get("startTime"), job.status.get("completionTime")
    if not start or not end:
        return 0.0
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def _owner(obj: Json) -> str:
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((str(one["uid"]) for one in owners if one.get("controller")), "")


def _replica(obj: Json) -> ReplicaKey | None:
    labels = obj["metadata"].get("labels") or {}
    kind = _KINDS.get(str(labels.get(f"{_LABEL}replica-type", "")).lower())
    index = str(labels.get(f"{_LABEL}replica-index", ""))
    return (kind, int(index)) if kind is not None and index.isdigit() else None


def _base(obj: Json) -> int:
    text = str((obj["metadata"].get("annotations") or {}).get(f"{_LABEL}restarts", "0"))
    return int(text) if text.isdigit() else 0
