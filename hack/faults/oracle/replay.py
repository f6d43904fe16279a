"""Reads a journal into the histories of its jobs, and finds what must never happen in one."""

from __future__ import annotations

from typing import Any

from hack.faults.journal import Entry, Journal
from hack.faults.oracle.attachments import AttachmentChecker
from hack.faults.oracle.clients import misled_clients, peer_conditions
from hack.faults.oracle.conditions import check_conditions, check_failure
from hack.faults.oracle.ends import check_counts_at_end
from hack.faults.oracle.history import JobHistory, PodHistory, ReplicaKey, ServiceHistory, Violation
from hack.faults.oracle.moved import check_nodes
from hack.faults.oracle.networks import check_new_pod, check_new_service, is_service_of_job
from hack.faults.oracle.objects import is_probe, note_status, number_in, owner_of, replica_of
from hack.faults.oracle.queues import QueueChecker
from hack.faults.oracle.reasons import give_reasons_to, note_doubles
from hack.faults.oracle.sizes import check_size
from hack.faults.oracle.verdicts import why_failed, why_succeeded

Json = dict[str, Any]

_VERDICTS = ("Succeeded", "Failed")


def replay(journal: Journal) -> tuple[list[JobHistory], list[Violation]]:
    """All jobs of a journal as it leaves them, and what went wrong on the way."""
    reader = _Reader(journal)
    for entry in journal.entries:
        reader.read(entry)
    return list(reader.jobs.values()), reader.violations


class _Reader:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._version = 0
        self.jobs: dict[str, JobHistory] = {}
        self._early: dict[str, list[Entry]] = {}  # events of objects whose job the journal shows only later, by its UID
        self._attachments = AttachmentChecker(journal.gang, journal.deleted_by_plan, self._complain)
        self._queues = QueueChecker(journal.deleted_by_plan, self._complain)
        self._foreign_objects: dict[str, int] = {}  # the version that each has had from the beginning
        self.violations: list[Violation] = []

    def read(self, entry: Entry) -> None:
        self._version = entry.version
        if entry.kind == "TFJob":
            self._job(entry)
            for early in self._early.pop(entry.uid, ()):
                self._dependent(self.jobs[entry.uid], early)
        elif entry.uid in self._journal.foreign_objects:
            self._foreign_object(entry)
        elif entry.kind == "Pod" and (tensorboard := self._tensorboard_of(entry)) is not None:
            self._attachments.read_tensorboard_pod(tensorboard, entry)
        elif (job := self.jobs.get(owner_of(entry.obj)) or self._last_owner(entry)) is not None:
            self._dependent(job, entry)
        else:
            self._early.setdefault(owner_of(entry.obj), []).append(entry)

    def _dependent(self, job: JobHistory, entry: Entry) -> None:
        replica = replica_of(entry.obj)
        if replica is not None and entry.kind == "Pod":
            self._pod(job, replica, entry)
        elif replica is not None or is_service_of_job(job, entry.obj):
            self._service(job, replica, entry)
        elif entry.kind == "Workload":
            self._queues.read(job, entry)
        else:
            self._attachments.read(job, entry)

    def _last_owner(self, entry: Entry) -> JobHistory | None:
        """The job that a user took an object from."""
        if entry.uid not in self._journal.orphaned:
            return None
        owners = ((job, (job.attachments, job.pods, job.services)) for job in self.jobs.values())
        return next((job for job, owned in owners if any(entry.uid in objects for objects in owned)), None)

    def _tensorboard_of(self, entry: Entry) -> JobHistory | None:
        """The job whose TensorBoard a pod is of."""
        owner = owner_of(entry.obj)
        return next((job for job in self.jobs.values() if owner in job.attachments), None)

    def _foreign_object(self, entry: Entry) -> None:
        """Check an object that has a name that a job needs, and belongs to no job: only its maker may touch it."""
        first = self._foreign_objects.setdefault(entry.uid, entry.version)
        touched = entry.what == "DELETED" and entry.uid not in self._journal.deleted_by_plan
        if (touched or (entry.what == "MODIFIED" and entry.version != first)) and self._journal.is_whole_at(
            entry.version
        ):
            text = f"{entry.kind.lower()} {entry.name} is somebody else's, and was {entry.what.lower()}"
            self.violations.append(Violation("wrong", "-", text))

    def _complain(self, kind: str, job: JobHistory, text: str) -> None:
        if self._journal.is_whole_at(self._version):
            self.violations.append(Violation(kind, job.name, text))

    # Jobs.

    def _job(self, entry: Entry) -> None:
        job = self.jobs.get(entry.uid)
        before = job.obj if job is not None else None
        if job is None:
            job = self.jobs[entry.uid] = JobHistory(entry.obj)
        old_counts, old_completed, old_failed = job.counts(), job.completed(), job.failed()
        old_number, old_disruptions = job.job_restarts, job.disruptions()
        old_verdict = job.verdict
        job.obj = entry.obj
        if before is None or before["spec"] != entry.obj["spec"]:
            job.specs.append(job.spec)
        for pod in (candidate for candidate in job.living() if candidate.phase not in ("Failed", "Unknown")):
            noted = job.counts().get(pod.replica, 0) - pod.base
            pod.noted_in_place = max(pod.noted_in_place, min(noted, pod.in_place))
        if entry.what == "DELETED":
            job.gone = True
            self._gone(job)
        self._give_reasons(job)
        self._queues.note_job(job)
        judged = self._journal.texts and not job.managed_elsewhere
        texts = check_conditions(job, before) if judged else ()
        for text in (*texts, *check_size(job, before)):
            self._complain("wrong", job, text)
        self._check_clients(job, judged=judged)
        self._check_verdict(job, old_verdict)
        if old_verdict and before and (before["status"].get("replicaStatuses") != job.status.get("replicaStatuses")):
            self._complain("wrong", job, "it had ended, and its replicaStatuses have changed since")
        self._check_counts(job, old_counts)
        self._check_disruptions(job, old_disruptions)
        self._check_number(job, old_number)
        all_again = job.job_restarts > old_number or (job.together and job.has_released_all)
        for kind, index in () if all_again else sorted(old_completed - job.completed()):
            self._complain("lost", job, f"{kind}-{index} is not completed any more")
        for key in sorted(job.completed() - old_completed):
            if not any(pod.ended_well for pod in job.pods.values() if pod.replica == key):
                self._complain("wrong", job, f"{key[0]}-{key[1]} counts as completed, but never was")
        for kind, index in sorted(job.failed() - old_failed):
            policy = job.policy(kind)
            if not any(pod.failed_for_good(policy) for pod in job.pods.values() if pod.replica == (kind, index)):
                self._complain("wrong", job, f"{kind}-{index} counts as failed for good, but never was")

    def _check_clients(self, job: JobHistory, *, judged: bool) -> None:
        for text in misled_clients(job.peer_conditions, job.status) if judged else ():
            self._complain("wrong", job, text)
        job.peer_conditions = peer_conditions(job.peer_conditions, job.status.get("conditions") or ())

    def _gone(self, job: JobHistory) -> None:
        if job.uid in self._journal.jobs_deleted_by_plan:
            return
        ttl = job.run_policy.get("ttlSecondsAfterFinished")
        if ttl is None or not job.verdict:
            self._complain("lost", job, "the job was deleted, and nobody asked for it")

    def _give_reasons(self, job: JobHistory) -> None:
        """Note what the operator may do now, and to objects that come a moment later: it may act on old state."""
        children: list[PodHistory | ServiceHistory] = [pod for pod in job.pods.values() if not pod.replaced]
        children += [service for service in job.services.values() if not service.gone]
        for child in children:
            give_reasons_to(job, child)
        self._attachments.give_reasons(job)

    def _check_verdict(self, job: JobHistory, before: str) -> None:
        verdicts = [kind for kind in _VERDICTS if job.holds(kind)]
        if len(verdicts) > 1:
            self._complain("wrong", job, "it has both succeeded and failed")
        job.verdict = verdicts[0] if verdicts else ""
        if before and job.verdict != before:
            self._complain("wrong", job, f"it had {before}, and now has {job.verdict or 'not'}")
        if job.verdict and not before:
            self._give_reasons(job)
            why = why_succeeded(job) if job.verdict == "Succeeded" else why_failed(job, self._journal.clock_stepped)
            if not why:
                message = job.conditions()[job.verdict].get("message", "")
                self._complain("wrong", job, f"it has {job.verdict} without a reason: {message}")
            failure_texts = check_failure(job) if job.verdict == "Failed" and self._journal.texts else ()
            for text in (*failure_texts, *(check_counts_at_end(job) if self._journal.prompt else ())):
                self._complain("wrong", job, text)

    def _check_counts(self, job: JobHistory, before: dict[ReplicaKey, int]) -> None:
        counts = job.counts()
        for key, count in sorted(before.items()):
            if counts.get(key, 0) < count:
                text = f"{key[0]}-{key[1]} had {count} restarts, now {counts.get(key, 0)}"
                self._complain("lost", job, text)
        for key, count in sorted(counts.items()):
            most = job.most_restarts(key)
            if count > before.get(key, 0) and count > most:
                self._complain("doubled", job, f"{key[0]}-{key[1]} counts {count} restarts, there were at most {most}")

    def _check_disruptions(self, job: JobHistory, before: dict[ReplicaKey, int]) -> None:
        """Check that disruptions are counted apart: never more than was taken, and never less than before."""
        disruptions, counts = job.disruptions(), job.counts()
        for key in sorted({*before, *disruptions}):
            count, name = disruptions.get(key, 0), f"{key[0]}-{key[1]}"
            if count < before.get(key, 0):
                self._complain("lost", job, f"{name} had {before[key]} disruptions, now {count}")
            if count > counts.get(key, 0):
                self._complain("wrong", job, f"{name} counts {count} disruptions of {counts.get(key, 0)} restarts")
            most = job.most_disruptions(key)
            if count > before.get(key, 0) and count > most:
                self._complain("wrong", job, f"{name} counts {count} disruptions, there were at most {most}")

    def _check_number(self, job: JobHistory, before: int) -> None:
        number = job.job_restarts
        if number < before:
            self._complain("lost", job, f"all its replicas had restarted {before} times, now {number}")
        most = job.most_job_restarts()
        if number > max(before, most):
            self._complain("doubled", job, f"it counts {number} restarts of all replicas, there were at most {most}")

    # Pods.

    def _pod(self, job: JobHistory, replica: ReplicaKey, entry: Entry) -> None:
        pod = job.pods.get(entry.uid)
        if pod is None:
            if entry.what == "DELETED":
                return
            pod = job.pods[entry.uid] = PodHistory(
                entry.uid, entry.name, replica, number_in(entry.obj, "restarts"), number_in(entry.obj, "job-restarts")
            )
            pod.disruptions = number_in(entry.obj, "disruptions")
            pod.is_probe = is_probe(entry.obj)
            if entry.what == "ADDED" and entry.uid not in self._journal.doubles:
                self._created(job, pod)
                self._attachments.check_member(job, entry.obj)
                self._queues.check_new_pod(job, entry.obj)
                check_new_pod(job, entry.obj, self._complain)
                for text in check_nodes(job, pod, entry.obj):
                    self._complain("wrong", job, text)
            give_reasons_to(job, pod)
        self._check_stopped(job, pod, entry.obj)
        note_status(pod, entry.obj)
        if pod.failed_retryably(job.policy(replica[0])):
            pod.reasons.add("failed")
        note_doubles(job, replica, self._journal.doubles)
        deleting = bool(entry.obj["metadata"].get("deletionTimestamp"))
        if (deleting or entry.what == "DELETED") and not pod.deleting:
            pod.deleting = True
            pod.ended_before_deletion = pod.phase == "Failed"
            self._deleted(job, pod)
        if entry.what == "DELETED":
            pod.gone = True

    def _created(self, job: JobHistory, pod: PodHistory) -> None:
        kind, index = pod.replica
        for other in job.pods.values():
            other.replaced |= other is not pod and other.replica == pod.replica
        for other in job.living(pod.replica):
            if other is pod:
                continue
            if other.name == pod.name:
                other.gone = True  # the journal has missed its removal: a name is free before it is used again
            elif not other.deleting:
                self._complain("doubled", job, f"{kind}-{index} has two pods: {other.name} and {pod.name}")
        if job.verdict:
            self._complain("doubled", job, f"pod {pod.name} was made although the job has {job.verdict}")
        if pod.replica in job.completed() and pod.number <= job.job_restarts:
            self._complain("doubled", job, f"{kind}-{index} had completed, and runs again")
        if pod.replica in job.failed() and index < job.size(kind):
            self._complain("doubled", job, f"{kind}-{index} had failed for good, and runs again")
        if job.managed_elsewhere:
            self._complain("wrong", job, f"pod {pod.name} was made although somebody else manages the job")
        if job.has_released_all and not job.suspended:
            state = "resumed" if job.holds("Suspended") else "admitted"
            self._complain("wrong", job, f"pod {pod.name} was made before the status said that the job is {state}")
        self._check_number_of(job, pod)
        most = job.most_restarts(pod.replica)
        if pod.base > most:
            self._complain("doubled", job, f"pod {pod.name} is restart {pod.base}, there were at most {most} losses")

    def _check_number_of(self, job: JobHistory, pod: PodHistory) -> None:
        if pod.disruptions > job.most_disruptions(pod.replica):
            self._complain(
                "wrong",
                job,
                f"pod {pod.name} has {pod.disruptions} disruptions in its annotation, but there were fewer",
            )
        for other in job.living():
            # A probe runs no program, so the programs of two restarts never meet beside it.
            if other.number < pod.number and other.replica not in job.failed() and not other.is_probe:
                text = f"pod {pod.name} of restart {pod.number} was made beside {other.name} of restart {other.number}"
                self._complain("doubled", job, text)
        if pod.number > max(job.job_restarts, job.most_job_restarts()):
            self._complain("doubled", job, f"pod {pod.name} is of restart {pod.number}, which nothing has caused")

    def _deleted(self, job: JobHistory, pod: PodHistory) -> None:
        if pod.uid in self._journal.deleted_by_plan:
            pod.deleted_by_plan = True
            # If a pod was lost before a status recorded it, the operator can't know of it, least of all a new leader.
            pod.started = pod.replica in job.started() and job.counts().get(pod.replica, 0) >= pod.base
            pod.started = pod.started and pod.number == job.job_restarts
            if not pod.started:
                self._reopen(job, pod)
        elif not pod.reasons and not (job.verdict and job.stops_programs and pod.phase == "Pending"):
            self._complain("wrong", job, f"pod {pod.name} ({pod.phase}) was deleted without a reason")

    def _check_stopped(self, job: JobHistory, pod: PodHistory, obj: Json) -> None:
        if pod.stopped or not (obj.get("spec") or {}).get("activeDeadlineSeconds"):
            return
        pod.stopped = True
        if pod.runs_on:
            return  # an accelerator is not held for a sidecar
        if not (job.verdict and job.stops_programs):
            self._complain("wrong", job, f"pod {pod.name} ({pod.phase}) was stopped without a reason")
        elif job.verdict == "Succeeded" and pod.phase == "Running" and pod.replica[0] != "PS" and not pod.in_place:
            self._complain("wrong", job, f"pod {pod.name} was stopped, although its job has succeeded")

    def _reopen(self, job: JobHistory, successor: PodHistory) -> None:
        """Give reasons anew: only the lost pod showed the loss before it, so one excuse applies to both."""
        before = [pod for pod in job.pods.values() if pod.replica == successor.replica and pod is not successor]
        for pod in before[-1:]:
            pod.replaced = False
            give_reasons_to(job, pod)

    # Services.

    def _service(self, job: JobHistory, replica: ReplicaKey | None, entry: Entry) -> None:
        service = job.services.get(entry.uid)
        if service is None:
            if entry.what == "DELETED":
                return
            service = job.services[entry.uid] = ServiceHistory(entry.uid, entry.name, replica)
            if job.managed_elsewhere:
                self._complain("wrong", job, f"service {service.name} was made although somebody else manages the job")
            if entry.uid in self._journal.doubles:
                service.reasons.add("twice")
            elif entry.what == "ADDED":
                check_new_service(job, service, self._complain)
            give_reasons_to(job, service)
        if entry.what == "DELETED":
            service.gone = True
            if not service.reasons and service.uid not in self._journal.deleted_by_plan:
                self._complain("wrong", job, f"service {service.name} was deleted without a reason")
