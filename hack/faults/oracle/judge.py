"""Judges how a played history ended: whether each job is exactly what its own history allows.

`replay` finds violations that must never happen; this module checks the end, when faults are no longer injected, every
pod that was made runs, and the operator has had time to compare all jobs with what exists.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from hack.faults.journal import Journal
from hack.faults.oracle.attachments import check_attachments
from hack.faults.oracle.due_verdict import due_verdict
from hack.faults.oracle.history import CHIEFS, JobHistory, Violation
from hack.faults.oracle.networks import check_record, check_services
from hack.faults.oracle.queues import check_queue, is_held
from hack.faults.oracle.replay import replay
from hack.faults.oracle.thresholds import goes_on_without
from hack.faults.oracle.usage import check_usage

__all__ = ["Violation", "judge"]

Json = dict[str, Any]


def judge(journal: Journal, *, finished: bool = False) -> tuple[list[Violation], list[Violation]]:
    """Return violations that must never have happened, and things that are not (or not yet) right for the end.

    With `finished` every pod has been let succeed, so every job must have ended.
    """
    jobs, never = replay(journal)
    end: list[Violation] = []
    for job in jobs:
        end += _End(job, finished, journal).check()
    end += _ownerless(journal, {job.uid: job.name for job in jobs if not job.gone})
    return never, end


def _ownerless(journal: Journal, jobs: dict[str, str]) -> list[Violation]:
    """Find objects that belong to none of these jobs (names by UID). A TensorBoard's pod belongs to its Deployment."""
    objects: dict[str, Json] = {}
    for entry in journal.entries:
        if entry.kind != "TFJob":
            if entry.what == "DELETED":
                objects.pop(entry.uid, None)
            else:
                objects[entry.uid] = entry.obj
    names = set(jobs.values())
    deployments = {uid for uid, obj in objects.items() if obj["kind"] == "Deployment"}
    violations = []
    for uid, obj in objects.items():
        # An object that a user has taken from a job that is gone by now waits for another job of that name.
        if uid in journal.foreign_objects or (uid in journal.orphaned and _job_name(obj) not in names):
            continue
        owners = {reference["uid"] for reference in obj["metadata"].get("ownerReferences") or ()}
        if not owners & (jobs.keys() | deployments):
            name = str(obj["metadata"]["name"])
            violations.append(Violation("stuck", "-", f"{str(obj['kind']).lower()} {name} belongs to no job"))
    return violations


def _job_name(obj: Json) -> str:
    return str((obj["metadata"].get("labels") or {}).get("training.kubeflow.org/job-name", ""))


class _End:
    """The end of one job."""

    def __init__(self, job: JobHistory, finished: bool, journal: Journal) -> None:
        self._job = job
        self._finished = finished
        self._journal = journal
        self._found: list[Violation] = []

    def check(self) -> list[Violation]:
        job = self._job
        if job.gone:
            return []
        if job.obj["metadata"].get("deletionTimestamp"):
            self._complain("stuck", "it is being deleted and does not go")
        else:
            (self._check_foreign if job.managed_elsewhere else self._check_ours)()
            self._found += [*check_attachments(job, self._journal), *check_queue(job)]
        return self._found

    def _complain(self, kind: str, text: str) -> None:
        self._found.append(Violation(kind, self._job.name, text))

    def _expect(self, name: str, actual: object, expected: object, kind: str = "wrong") -> None:
        if actual != expected:
            self._complain(kind, f"{name} is {actual!r} and should be {expected!r}")

    def _check_foreign(self) -> None:
        if self._job.living() or any(not service.gone for service in self._job.services.values()):
            self._complain("doubled", "somebody else manages it, and it has objects of ours")
        if self._job.status.get("conditions"):
            self._complain("wrong", "somebody else manages it, and its status is ours")

    def _check_ours(self) -> None:
        job = self._job
        for pod in job.living():
            if pod.deleting:
                self._complain("stuck", f"pod {pod.name} is terminating and does not go")
            elif pod.runs_on:
                self._complain("stuck", f"pod {pod.name} has ended but for its sidecar, which runs on")
        if not job.holds("Created"):
            self._complain("lost", "it has no condition Created")
        for category, text in check_record(job):
            self._complain(category, text)
        for text in () if self._journal.clock_stepped else check_usage(job, self._journal):
            self._complain("wrong", text)
        self._expect("observedGeneration", job.status.get("observedGeneration"), job.obj["metadata"]["generation"])
        if job.verdict:
            self._check_ended()
            self._check_cleaned_up()
            return
        self._check_counts()
        due = due_verdict(job)
        if due:
            self._complain("stuck", f"it should have {due}")
        elif self._finished:
            self._complain("stuck", "every pod has been let succeed, and it has not ended")
        if job.status.get("completionTime"):
            self._complain("wrong", "it goes on, and has a completionTime")
        if job.suspended or is_held(job):
            self._check_suspended()
        else:
            self._check_active()

    # A job that has ended.

    def _check_ended(self) -> None:
        job, status = self._job, self._job.status
        if self._is_time_over():
            self._complain("stuck", "its time to live is over, and it is still there")
        self._expect("phase", status.get("phase"), job.verdict)
        conditions = status.get("conditions") or [{}]
        self._expect("the last condition", conditions[-1].get("type"), job.verdict)
        for condition in ("Running", "Ready", "Restarting", "Stalled"):
            if job.holds(condition):
                self._complain("wrong", f"it has {job.verdict} and is {condition}")
        if not status.get("completionTime"):
            self._complain("wrong", "it has ended without a completionTime")
        for kind, replicas in (status.get("replicaStatuses") or {}).items():
            # Replicas that ran at a failure count as active where a policy is set, as with the Go operator.
            keeps_count = job.verdict == "Failed" and job.clean_policy
            most = len({pod.replica for pod in job.pods.values() if pod.replica[0] == kind}) if keeps_count else 0
            if not 0 <= replicas.get("active", 0) <= most:
                self._complain("wrong", f"it has {job.verdict}, and {replicas['active']} {kind} are active")

    def _is_time_over(self) -> bool:
        """Whether the job should have been deleted. By a wrong clock its completionTime may lie ahead."""
        ttl, ended = self._job.run_policy.get("ttlSecondsAfterFinished"), self._job.status.get("completionTime")
        if ttl is None:
            return False
        if not self._journal.clock_stepped or self._journal.now is None or not ended:
            return True
        return datetime.fromisoformat(ended) + timedelta(seconds=int(ttl)) <= self._journal.now

    def _check_cleaned_up(self) -> None:
        job = self._job
        remaining = [service for service in job.services.values() if not service.gone]
        services = sorted(service.name for service in remaining)
        if job.clean_policy == "All":
            for pod in job.living():
                self._complain("stuck", f"pod {pod.name} is left of a job that cleans up all")
            if services:
                self._complain("stuck", f"services are left of a job that cleans up all: {services}")
        elif job.clean_policy == "Running":
            left = {pod.replica for pod in job.living()}
            for pod in job.living():
                if pod.phase not in ("Succeeded", "Failed"):
                    self._complain("stuck", f"pod {pod.name} is left {pod.phase} of a job that has {job.verdict}")
            useless = [
                service.name
                for service in remaining
                if not (left if service.replica is None else service.replica in left)
            ]
            if useless:
                self._complain("stuck", f"services are left without pods: {useless}")
        elif job.stops_programs:
            active = [pod for pod in job.living() if pod.phase not in ("Succeeded", "Failed")]
            busy = job.verdict == "Succeeded" and any(p.replica[0] != "PS" and p.phase == "Running" for p in active)
            for pod in active:
                in_peace = pod.phase == "Running" and job.verdict == "Succeeded" and (busy or pod.replica[0] != "PS")
                if not in_peace and not (pod.stopped and pod.phase == "Unknown"):
                    self._complain("stuck", f"pod {pod.name} is left {pod.phase} of a job that has {job.verdict}")

    # A job that is suspended, or waits in its queue.

    def _check_suspended(self) -> None:
        job, status = self._job, self._job.status
        held = "suspended" if job.suspended else "held by its queue"
        if job.holds("Suspended") != job.suspended:
            self._complain("stuck", f"it is {held}, and Suspended is {not job.suspended}")
        for condition in ("Running", "Ready", "Restarting"):
            if job.holds(condition):
                self._complain("wrong", f"it is {held} and {condition}")
        for pod in job.living():
            self._complain("stuck", f"pod {pod.name} is left of a job that is {held}")
        if any(not service.gone for service in job.services.values()):
            self._complain("stuck", f"services are left of a job that is {held}")
        self._expect("phase", status.get("phase"), "Pending")

    # A job that goes on.

    def _check_active(self) -> None:
        job, status = self._job, self._job.status
        running = completed = failed = total = 0
        for kind in job.spec["tfReplicaSpecs"]:
            size = job.size(kind)
            total += size
            tally = [self._check_replica(kind, index) for index in range(size)]
            self._check_tally(kind, tally)
            running += tally.count("running")
            completed += tally.count("completed")
            failed += tally.count("failed")
        for pod in job.living():
            if pod.replica[1] >= job.size(pod.replica[0]):
                self._complain("stuck", f"pod {pod.name} is beyond the job's size")
        for service in job.services.values():
            if not service.gone and service.replica and service.replica[1] >= job.size(service.replica[0]):
                self._complain("stuck", f"service {service.name} is beyond the job's size")
        self._expect("ready", status.get("ready"), f"{running}/{total}")
        if self._is_running():
            self._expect("phase", status.get("phase"), "Running")
            self._expect("Running", job.holds("Running"), True)
            self._expect("Restarting", job.holds("Restarting"), False)
        self._expect("Ready", job.holds("Ready"), running > 0 and running + completed == total)
        self._expect("Suspended", job.holds("Suspended"), False)
        self._expect("Stalled", job.holds("Stalled"), False)
        if not status.get("startTime"):
            self._complain("wrong", "it has no startTime")

    def _check_replica(self, kind: str, index: int) -> str:
        """Return what one replica is doing; complain unless it is running or done."""
        job, key = self._job, (kind, index)
        pods = [pod for pod in job.living(key) if not pod.deleting]
        over = key in job.completed() or self._has_failed_for_good(key)
        for category, text in check_services(job, key, len(pods), needed=not over):
            self._complain(category, text)
        if any(pod.phase == "Succeeded" for pod in pods) and key not in job.completed():
            self._complain("lost", f"{kind}-{index} has succeeded, and the status does not say so")
        if key in job.completed():
            if any(pod.phase != "Succeeded" for pod in pods):
                self._complain("doubled", f"{kind}-{index} had completed and has pod {pods[0].name} ({pods[0].phase})")
            return "completed"
        if self._has_failed_for_good(key):
            if any(pod.phase not in ("Failed", "Unknown") for pod in pods):
                self._complain(
                    "doubled", f"{kind}-{index} had failed for good and has pod {pods[0].name} ({pods[0].phase})"
                )
            return "failed"
        if not pods:
            self._complain("lost", f"{kind}-{index} has no pod")
            return "lost"
        if pods[0].number != job.job_restarts:
            self._complain("stuck", f"pod {pods[0].name} is of restart {pods[0].number} of all, not {job.job_restarts}")
        if pods[0].phase == "Running":
            return "running"
        self._complain("stuck", f"pod {pods[0].name} is {pods[0].phase}")
        return pods[0].phase

    def _has_failed_for_good(self, key: tuple[str, int]) -> bool:
        """Whether the status shows it, for a worker that the job can do without."""
        return key[0] == "Worker" and goes_on_without(self._job.spec) and key in self._job.failed()

    def _check_tally(self, kind: str, tally: list[str]) -> None:
        status = (self._job.status.get("replicaStatuses") or {}).get(kind) or {}
        for name, doing in (
            ("active", "running"),
            ("ready", "running"),
            ("succeeded", "completed"),
            ("failed", "failed"),
        ):
            self._expect(f"{name} {kind}", status.get(name, 0), tally.count(doing))

    def _is_running(self) -> bool:
        job = self._job
        present = [kind for kind in job.spec["tfReplicaSpecs"] if job.size(kind)]
        deciding = [kind for kind in present if kind in CHIEFS] or [kind for kind in present if kind == "Worker"]
        return any(pod.phase == "Running" for pod in job.living() if pod.replica[0] in (deciding or present))

    # Counters.

    def _check_counts(self) -> None:
        job = self._job
        counts = job.counts()
        self._expect("restarts", job.status.get("restarts", 0), job.job_restarts + sum(counts.values()))
        joint = int(job.status.get("jobDisruptions", 0))
        self._expect("disruptions", job.status.get("disruptions", 0), joint + sum(job.disruptions().values()))
        if job.failures > job.most_failures():
            self._complain("wrong", f"it counts {job.failures} failures, there were at most {job.most_failures()}")
        if job.job_restarts < job.fewest_job_restarts():
            text = f"{job.job_restarts} restarts of all replicas, there were at least {job.fewest_job_restarts()}"
            self._complain("lost", f"it counts {text}")
        for key in sorted({pod.replica for pod in job.pods.values()} | counts.keys()):
            counted, name = counts.get(key, 0), f"{key[0]}-{key[1]}"
            fewest = job.fewest_restarts(key)
            if counted < fewest:
                self._complain("lost", f"{name} counts {counted} restarts, there were at least {fewest}")
            for pod in job.living(key):
                if pod.phase == "Running" and not pod.deleting and key[1] < job.size(key[0]):
                    self._expect(f"the count of {name}'s restarts", counted, pod.base + pod.in_place)
