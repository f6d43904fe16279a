"""The writes to a job's Workload, which the module `requests` sends, and the next status of a Workload as one patch.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from tfoperator.api.kueue.workloads import ReclaimablePod, Workload, WorkloadCondition
from tfoperator.controller.kueue.objects import IN_USE

MAX_MESSAGE = 1024
"""The maximum number of characters in a condition's message; a message in a Workload may have 32 KiB."""

MAX_FINALIZERS = 16
"""The number of finalizers of a Workload that a cache keeps, in addition to the operator's finalizer. If a Workload has
more finalizers, they are read from the API server before a write.
"""

_READY, _NOT_READY = "All replicas are ready or have ended.", "Not all replicas are ready."
_READY_NO_MORE = "A replica is not ready any more."

_RETRIED_AT_ONCE = ("Preempted", "NodeFailures")
"""After an eviction with one of these reasons, the condition Requeued is True: Kueue may admit the Workload again as
soon as there is quota.
"""


class Verb(StrEnum):
    """The ways to write a Workload."""

    CREATE = "create"
    PATCH = "patch"
    STATUS = "patch status of"
    DELETE = "delete"


class Write(msgspec.Struct, frozen=True):
    """One write to a job's Workload. A patch is a merge patch with the version of the Workload from which it was made.

    With `prices`, the sender looks up the priority class and adds it to the body. With `reads_finalizers`, the sender
    reads all finalizers from the API server, because the cache keeps only some of them.
    """

    verb: Verb
    name: str
    body: dict[str, Any] = {}
    uid: str = ""
    prices: bool = False
    reads_finalizers: bool = False


def removal(workload: Workload) -> tuple[Write, ...]:
    """Return the writes that delete a Workload, and thereby free its quota."""
    meta = workload.metadata
    delete = (Write(Verb.DELETE, meta.name, uid=meta.uid),) if meta.deletion_timestamp is None else ()
    return (*unfinalized(workload), *delete)


def unfinalized(workload: Workload) -> tuple[Write, ...]:
    """Return the write that removes the operator's finalizer from a Workload, so that it can be deleted.

    Without the finalizer, the result is empty.
    """
    if IN_USE not in workload.metadata.finalizers:
        return ()
    finalizers = [finalizer for finalizer in workload.metadata.finalizers if finalizer != IN_USE]
    write = patch_of(workload, {"metadata": {"finalizers": finalizers}})
    return (msgspec.structs.replace(write, reads_finalizers=len(finalizers) >= MAX_FINALIZERS),)


def finalized(workload: Workload) -> tuple[Write, ...]:
    """Return the write that adds the operator's finalizer, if it is missing, to a Workload that its job needs.

    If a job is resumed after the operator has removed the finalizer, but before the operator could delete the Workload,
    the job continues with this Workload. The result is empty if the Workload has the finalizer, or
    MAX_FINALIZERS other finalizers.
    """
    finalizers = workload.metadata.finalizers
    if IN_USE in finalizers or len(finalizers) >= MAX_FINALIZERS:
        return ()
    return (patch_of(workload, {"metadata": {"finalizers": [*finalizers, IN_USE]}}),)


def is_reported_by_kueue(workload: Workload) -> bool:
    """Return whether Kueue's TFJob integration has written the condition PodsReady of the operator's Workload.

    In this case, the integration and the operator handle TFJobs at the same time. For a Workload that an administrator
    gave to the operator (`is_adopted`), the result is False: the integration wrote the condition before this.
    """
    message = workload.condition("PodsReady").message
    ours = bool(workload.mark) and not workload.is_adopted
    return ours and bool(message) and message not in (_READY, _NOT_READY, _READY_NO_MORE)


def frees_quota(write: Write) -> bool:
    """Return whether Kueue may give a Workload's quota to other Workloads after this write.

    Kueue may do this if the write removes or finishes the Workload, or gives its quota back.
    """
    metadata, status = write.body.get("metadata", {}), write.body.get("status", {})
    ends = any(condition.type == "Finished" for condition in status.get("conditions", ()))
    return write.verb is Verb.DELETE or "finalizers" in metadata or "admission" in status or ends


def frees_some_quota(write: Write) -> bool:
    """Return whether Kueue may give the quota of ended replicas to other Workloads after this write."""
    return "reclaimablePods" in write.body.get("status", {})


def patch_of(workload: Workload, body: dict[str, Any], verb: Verb = Verb.PATCH, *, prices: bool = False) -> Write:
    """Return a merge patch that is accepted only for the version of the Workload that the operator has read."""
    meta = workload.metadata
    metadata = {**body.get("metadata", {}), "resourceVersion": meta.resource_version, "uid": meta.uid}
    return Write(verb, meta.name, body | {"metadata": metadata}, prices=prices)


class NextStatus:
    """The next status of a Workload, as one patch."""

    def __init__(self, workload: Workload, now: datetime) -> None:
        self._workload = workload
        self._now = now
        self._conditions = list(workload.status.conditions)
        self._status: dict[str, Any] = {}
        self.reclaimed = {reclaimable.name: reclaimable.count for reclaimable in workload.status.reclaimable_pods}
        """The number of pods of each set that no longer need quota."""

    def set(self, kind: str, status: str, reason: str, message: str) -> None:
        """Set a condition of the Workload; nothing changes if it already has this status, reason and message."""
        old = self._workload.condition(kind)
        if (old.status, old.reason, old.message) == (status, reason, message):
            return
        since = old.last_transition_time if old.status == status else self._now.strftime("%Y-%m-%dT%H:%M:%SZ")
        new = WorkloadCondition(kind, status, reason, message[:MAX_MESSAGE], since, self._workload.metadata.generation)
        self._conditions = [condition for condition in self._conditions if condition.type != kind] + [new]
        self._status["conditions"] = True

    def report_readiness(self, *, admitted: bool, ready: bool) -> None:
        """Set the condition PodsReady: whether all replicas are ready or have ended (`ready`).

        The condition is False while the Workload is not `admitted`. If Kueue's TFJob integration sets the condition of
        an admitted Workload, nothing changes. With this condition, Kueue detects a job that does not start, and takes
        its quota back.
        """
        old = self._workload.condition("PodsReady")
        if admitted and is_reported_by_kueue(self._workload):
            return  # Kueue's framework sets PodsReady by other rules: the two would overwrite each other
        if admitted and ready:
            again = old.reason in ("WaitForRecovery", "Recovered")
            self.set("PodsReady", "True", "Recovered" if again else "Started", _READY)
        elif admitted and (old.status == "True" or old.reason == "WaitForRecovery"):
            self.set("PodsReady", "False", "WaitForRecovery", _READY_NO_MORE)
        else:
            self.set("PodsReady", "False", "WaitForStart", _NOT_READY)

    def reclaim(self, done: Mapping[str, int], *, reserved: bool) -> None:
        """Report how many pods of each set no longer need quota (`done`).

        While the Workload has quota (`reserved`), Kueue allows this number only to increase, so a number in `done` that
        is smaller than the reported number has no effect.
        """
        before, now = self.reclaimed, []
        for pod_set in self._workload.spec.pod_sets:
            count = max(min(done.get(pod_set.name, 0), pod_set.count), before.get(pod_set.name, 0) if reserved else 0)
            if count > 0:
                now.append(ReclaimablePod(pod_set.name, count))
        self.reclaimed = {reclaimable.name: reclaimable.count for reclaimable in now}
        if self.reclaimed != before:
            self._status["reclaimablePods"] = now

    def give_back(self, evicted: WorkloadCondition) -> None:
        """Give back the quota of an evicted Workload, whose last pod is gone."""
        self.set("Requeued", "True" if evicted.reason in _RETRIED_AT_ONCE else "False", evicted.reason, evicted.message)
        self.set("QuotaReserved", "False", "Pending", evicted.message)
        admitted = self._workload.condition("Admitted")
        if admitted.status == "True":
            self.set("Admitted", "False", "NoReservation", "The workload has no reservation")
            ran = self._now - datetime.fromisoformat(admitted.last_transition_time)
            past = self._workload.status.accumulated_past_execution_time_seconds
            self._status["accumulatedPastExecutionTimeSeconds"] = past + max(int(ran.total_seconds()), 0)
        self._status["admission"] = None

    def writes(self) -> tuple[Write, ...]:
        """Return the patch; empty if the status stays as it is."""
        if not self._status:
            return ()
        if "conditions" in self._status:
            self._status["conditions"] = self._conditions
        return (patch_of(self._workload, {"status": self._status}, Verb.STATUS),)
