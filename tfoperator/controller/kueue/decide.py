"""Decides which writes a job's Workload needs, and whether the job may have pods (the gate, a `QueueGate`). Pure.

Kueue decides which jobs may run, and the operator starts and stops pods accordingly. Four rules keep a job from using
more than its quota:

- The operator creates pods only after Kueue has admitted the Workload.
- The operator gives a job's whole quota back, and deletes a Workload, only when the last pod that may run is gone. It
  may give the quota of a replica that has ended back earlier.
- A Workload has a finalizer. So if the Workload or its job is deleted, the Workload also stays until the last pod is
  gone.
- If a replica's quota was given back, the replica starts again only after the operator has requested the whole quota of
  the job again.

For the last rule, it is not enough to compare the Workload's request with the pod sets that the job needs. Whether an
ended replica starts again depends on fields that may change at any time (`runPolicy.restartScope`), and on events such
as failures. So the operator compares the Workload with the replicas that have ended. If quota was given back for more
replicas than have ended, it replaces the Workload. Until then, the plan, which restarts replicas, creates no more pods
than `QueueGate.quota` allows (`scaling.plan_replicas`).

The operator marks its Workloads with the annotation `POD_SETS_ANNOTATION`. If a Workload has no mark, Kueue's own TFJob
integration (its framework) handles it, and suspends and resumes the job: the operator does not change such a Workload.
The operator creates no Workload for a suspended job, and Kueue's webhook suspends every job that Kueue's own framework
handles. So the operator and Kueue's framework never both create a Workload for the same job, even if both are enabled.
The author of a job can write nothing that decides whether the operator or Kueue's framework handles the job: otherwise
the author could get pods without quota.

An elastic job may have a second Workload for a time, by which it asks for more workers: see `growth`.

Read `decide` from top to bottom: Workloads of Kueue's own framework, ended jobs, jobs without a Workload, jobs whose
Workload must be deleted, and jobs whose Workload stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tfoperator.api.kueue.queues import (
    ADOPTED,
    POD_SETS_ANNOTATION,
    PRIORITY_LABEL,
    REPLACES_ANNOTATION,
    WORKLOAD_ANNOTATION,
    queue_name,
)
from tfoperator.api.kueue.workloads import Workload
from tfoperator.api.replicas.data_service import DATA_SERVICE_POD_SET
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.job_conditions import final_condition, has_condition
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.kueue.adoption import agree
from tfoperator.controller.kueue.growth import REPLACED, WORKERS, Wish, seconds_to_grow, wish, writes_for
from tfoperator.controller.kueue.objects import Flavor
from tfoperator.controller.kueue.pod_sets import (
    PlacementError,
    admitted_job,
    mark_of,
    max_execution_seconds,
    placements,
    pod_sets,
    workload_body,
)
from tfoperator.controller.kueue.reclaiming import not_needed, occupies, quota_of, run_again, without_pods
from tfoperator.controller.kueue.writes import (
    MAX_MESSAGE,
    NextStatus,
    Verb,
    Write,
    finalized,
    patch_of,
    removal,
    unfinalized,
)
from tfoperator.controller.plan.values.observed import QueueGate
from tfoperator.kube.views.objects import Pod

_FLAVOR_UNKNOWN = "FlavorUnknown"
_UNREADABLE = (ValueError, TypeError, AttributeError)
"""The errors for a template that is not a pod template; msgspec's errors are subclasses of ValueError."""


class QueueFacts(msgspec.Struct, frozen=True):
    """The facts about a job in a queue."""

    job: TFJob
    """The job, with its defaults filled in."""

    workload: Workload | None
    pods: Sequence[Pod] = ()
    flavors: Mapping[str, Flavor] = {}
    usable: bool = True
    """Whether pods can be made from the job."""

    awaits_pods: bool = False
    """Whether there may be pods that `pods` lacks."""

    default_ps_image: str = ""
    given_back: Mapping[str, int] = {}
    """The number of pods of each pod set for which this process may have given quota back.

    The write that gave the quota back is not visible in the cached Workload yet.
    """

    asked: Sequence[dict[str, Any]] = ()
    """The Workload's pod sets as the API server stores them, if they must be compared (`is_to_be_compared`)."""

    larger: Workload | None = None
    """The second Workload of an elastic job (`growth.Roles`)."""

    spent: tuple[Workload, ...] = ()
    """The Workloads of an elastic job that `workload` has replaced (`growth.Roles`)."""

    def reclaimed(self, workload: Workload) -> dict[str, int]:
        """Return for how many pods of each set the Workload's quota was given back, as far as this process knows."""
        shown = {reclaimable.name: reclaimable.count for reclaimable in workload.status.reclaimable_pods}
        return {name: max(shown.get(name, 0), self.given_back.get(name, 0)) for name in {**shown, **self.given_back}}


class Decision(msgspec.Struct, frozen=True):
    """Whether the job may have pods, the writes to its Workload, and the job from which the plan is made."""

    gate: QueueGate | None = None
    """Whether the job may have pods. None if the operator handles no Workload of the job, or the job needs no quota.

    A job that has ended or is suspended needs no quota.
    """

    writes: tuple[Write, ...] = ()
    """The writes to the job's Workload."""

    admitted: TFJob | None = None
    """A copy of the job with the values that its pods get from the admission, for example node labels."""

    look_again: float | None = None
    """The number of seconds after which the decision may change without an event; None if it can't."""


def is_driven_by_kueue(workload: Workload) -> bool:
    """Return whether Kueue's own TFJob integration handles the Workload: it lacks the mark (`POD_SETS_ANNOTATION`)."""
    return not workload.mark


def is_to_be_compared(workload: Workload) -> bool:
    """Return whether the operator must still compare the Workload with its job.

    Kueue's own TFJob integration has created such a Workload. An administrator has given the Workload to the operator:
    the annotation `POD_SETS_ANNOTATION` has the value `ADOPTED`.
    """
    return workload.mark == ADOPTED


def decide(facts: QueueFacts, now: datetime) -> Decision:
    """Return what to do about the job's Workloads at `now` (UTC)."""
    made = _decide(facts, now)
    if facts.larger is None and not facts.spent and facts.job.spec.elastic_policy is None:
        return made
    return _with_growth(facts, made, now)


def _with_growth(facts: QueueFacts, made: Decision, now: datetime) -> Decision:
    """Return the decision with the writes to the second Workload of an elastic job.

    With the second Workload, the operator requests quota for more workers. If the job no longer needs the second
    Workload, its deletion comes first: otherwise Kueue could give the second Workload the quota that the first Workload
    gives back.
    """
    job, gate, workload, later = facts.job, made.gate, facts.workload, Wish()
    if workload is not None and gate is not None and gate.admitted and not facts.spent:
        later = wish(job, workload, gate.quota.get(WORKERS, 0), now)
    first = [write for spent in facts.spent for write in removal(spent)]
    last: tuple[Write, ...] = ()
    if workload is not None and gate is not None and later.workers:
        sets = pod_sets(job, facts.default_ps_image)
        last = writes_for(job, workload, facts.larger, later.workers, gate.quota.get(WORKERS, 0), sets)
    elif facts.larger is not None:
        first += removal(facts.larger)
    times = [seconds for seconds in (made.look_again, later.look_again) if seconds is not None]
    writes = (*first, *made.writes, *last)
    return msgspec.structs.replace(made, writes=writes, look_again=min(times, default=None))


def _decide(facts: QueueFacts, now: datetime) -> Decision:
    job, workload = facts.job, facts.workload
    queue = queue_name(job.metadata.labels)
    if workload is None and not queue:
        return Decision()
    if workload is not None and is_driven_by_kueue(workload):
        return Decision()
    occupied = facts.awaits_pods or any(map(occupies, facts.pods))
    if final_condition(job) is not None:
        return Decision(writes=() if workload is None else _ended(facts, workload, occupied, now))
    suspended = job.spec.suspended
    if workload is None:
        return Decision() if suspended or not facts.usable else _without_workload(facts, occupied)
    return _with_workload(facts, workload, now, occupied=occupied, wanted=bool(queue) and not suspended)


def _with_workload(facts: QueueFacts, workload: Workload, now: datetime, *, occupied: bool, wanted: bool) -> Decision:
    """Return the decision about a job that has a Workload and has not ended.

    `occupied` means that a pod of the job may still run. If the Workload is not `wanted`, because the job is suspended
    or in no queue, the operator deletes it.
    """
    job = facts.job
    # Only a Workload with quota must stay until the pods are gone.
    stays = occupied and workload.is_true("QuotaReserved") and _needs_quota(facts, workload)
    gone = () if stays else removal(workload)
    if workload.metadata.deletion_timestamp is not None:
        closed = closed_gate("WorkloadDeleted", f"Workload {workload.metadata.name} is being deleted")
        return Decision(closed if wanted else None, gone)
    if not wanted:
        # If Kueue's own framework created this Workload, its job is suspended while it waits. The Workload keeps its
        # place in the queue until an administrator resumes the job.
        waits = workload.is_adopted and job.spec.suspended and not workload.is_true("QuotaReserved")
        return Decision(writes=() if waits else gone)
    evicted = workload.condition("Evicted")
    if evicted.status == "True" and workload.is_true("QuotaReserved"):
        status = _reported(facts, workload, now, admitted=False, reserved=occupied)
        if not occupied:
            status.give_back(evicted)
        return Decision(closed_gate(evicted.reason, evicted.message), status.writes())
    if not facts.usable:
        return Decision()
    try:
        sets = pod_sets(job, facts.default_ps_image)
    except _UNREADABLE as error:
        return Decision(closed_gate("Unusable", f"the operator can't request quota: {error}"), gone)
    return _with_pod_sets(facts, workload, sets, now, occupied=occupied, gone=gone)


def _needs_quota(facts: QueueFacts, workload: Workload) -> bool:
    """Return whether a pod of the job may still need the quota of the Workload.

    If the job has left its queue, only the pods that name the Workload in an annotation need quota: the operator
    created these pods while the job was admitted. The other pods run without quota, even if Kueue has admitted the
    Workload after they were created. For elastic jobs and adopted Workloads, the annotations are not used.
    """
    job, name = facts.job, workload.metadata.name
    has_left = not queue_name(job.metadata.labels)
    if facts.awaits_pods or not has_left or workload.is_adopted or job.spec.elastic_policy is not None:
        return True
    return any(occupies(pod) and pod.metadata.annotations.get(WORKLOAD_ANNOTATION) == name for pod in facts.pods)


def _with_pod_sets(
    facts: QueueFacts,
    workload: Workload,
    sets: list[dict[str, Any]],
    now: datetime,
    *,
    occupied: bool,
    gone: tuple[Write, ...],
) -> Decision:
    """Return the decision about a job that needs the pod sets `sets`.

    `occupied` means that a pod of the job may still run. `gone` are the writes that delete the job's Workload.
    """
    fits = _fits(facts, workload, sets)
    if isinstance(fits, str):
        return Decision(_unplaced(facts, workload, _FLAVOR_UNKNOWN, _no_flavor(fits), occupied=occupied))
    if not fits:
        if workload.is_true("QuotaReserved") or workload.is_true("Finished"):
            return Decision(
                closed_gate(
                    "JobChanged", "the job was changed; when its pods are deleted, it will wait in the queue again"
                ),
                gone,
            )
        # The new sets do not contain the ended replicas of the old sets. So the first write removes their counts from
        # the status, and a later write changes the sets.
        status = NextStatus(workload, now)
        status.reclaim({}, reserved=False)
        writes = status.writes() or (_renewed(workload, facts.job, sets),)
        return Decision(closed_gate("JobChanged", "the job was changed"), writes)
    if workload.is_true("Finished"):
        if workload.condition("Finished").reason == REPLACED:
            why = "the Workload that replaced the job's Workload is gone; the job waits in the queue again"
            return Decision(closed_gate("WorkloadFinished", why), gone)
        writes = () if occupied else unfinalized(workload)
        return Decision(closed_gate("WorkloadFinished", workload.condition("Finished").message), writes)
    if workload.is_true("QuotaReserved") and run_again(facts.job, workload, facts.reclaimed(workload)):
        again = "when the job's pods are deleted, the job will wait in the queue again"
        why = f"a replica starts again after its quota was given back; {again}"
        return Decision(closed_gate("QuotaGivenBack", why), gone)
    driven = _driven(facts, workload, occupied=occupied, now=now)
    if is_to_be_compared(workload):
        # This is the only write of this sync: each write names the same version of the Workload, so a second write
        # would be refused.
        return msgspec.structs.replace(driven, writes=(patch_of(workload, _marked(workload, facts.job, sets)),))
    return msgspec.structs.replace(driven, writes=(*driven.writes, *finalized(workload)))


def _without_workload(facts: QueueFacts, occupied: bool) -> Decision:
    """Return the decision about a job without a Workload. `occupied` means that a pod of the job may still run."""
    if occupied:
        return Decision(
            closed_gate("NoWorkload", "the operator requests quota when the pods that ran without quota are gone")
        )
    try:
        sets = pod_sets(facts.job, facts.default_ps_image)
    except _UNREADABLE as error:
        return Decision(closed_gate("Unusable", f"the operator can't request quota: {error}"))
    body = workload_body(facts.job, sets)
    create = Write(Verb.CREATE, body["metadata"]["name"], body, prices=True)
    return Decision(closed_gate("NoWorkload", "the operator requests quota"), (create,))


def keeping_gate(job: TFJob, workload: Workload | None, why: str = "") -> QueueGate:
    """Return a gate with which a job keeps its pods and gets no more pods; the message has the reason `why`, if any."""
    admission = None if workload is None else workload.status.admission
    cluster_queue = "" if admission is None else admission.cluster_queue
    message = f"{cluster_queue}, but gets no new pods: {why}" if why else cluster_queue
    no_more = {**{key.lower(): 0 for key in job.spec.tf_replica_specs}, DATA_SERVICE_POD_SET: 0}
    return QueueGate("Admitted", message[:MAX_MESSAGE], admitted=True, quota=no_more)


def _unplaced(facts: QueueFacts, workload: Workload, reason: str, message: str, *, occupied: bool) -> QueueGate:
    """Return the gate of a job whose new pods can't get the values of the admission, for the given reason.

    Such a job can't start. But a job that runs (`occupied`) keeps its pods, which got their values earlier: an
    administrator may have changed or deleted a flavor since then.
    """
    runs = occupied and workload.is_true("Admitted")
    return keeping_gate(facts.job, workload, message) if runs else closed_gate(reason, message)


def _no_flavor(name: str) -> str:
    return f"ResourceFlavor {name} does not exist"


def closed_gate(reason: str, message: str) -> QueueGate:
    """Return a gate that allows no pods, with a reason and a message from Kueue or from the operator."""
    text = " ".join(message.split())
    return QueueGate(reason or "Pending", text[:MAX_MESSAGE] or "Kueue has not processed its Workload yet")


def _fits(facts: QueueFacts, workload: Workload, sets: list[dict[str, Any]]) -> bool | str:
    """Return whether the Workload requests what the job needs.

    If this depends on an unknown flavor, return the flavor's name.
    """
    job, spec = facts.job, workload.spec
    if (spec.queue_name, spec.maximum_execution_time_seconds) != (
        queue_name(job.metadata.labels),
        max_execution_seconds(job),
    ):
        return False
    if not is_to_be_compared(workload):
        return workload.mark == mark_of(job, sets, adopted=workload.is_adopted) and _has_counts(job, workload, sets)
    try:
        places = placements(workload, facts.flavors)
    except PlacementError:
        places = {}
    return places if isinstance(places, str) else agree(facts.asked, sets, places)


def _has_counts(job: TFJob, workload: Workload, sets: list[dict[str, Any]]) -> bool:
    """Return whether the Workload of an elastic job asks for the right number of workers.

    If the Workload has quota, each number is right: `growth` asks for more quota, and quota that is not needed is given
    back. For a job that is not elastic, return True.
    """
    if job.spec.elastic_policy is None or workload.is_true("QuotaReserved") or workload.is_true("Finished"):
        return True
    counts = {pod_set["name"]: (pod_set["count"], pod_set.get("minCount")) for pod_set in sets}
    return counts == {pod_set.name: (pod_set.count, pod_set.min_count) for pod_set in workload.spec.pod_sets}


def _renewed(workload: Workload, job: TFJob, sets: list[dict[str, Any]]) -> Write:
    """Return the patch with which a Workload without quota requests the job's present needs.

    The Workload keeps its place in the queue.
    """
    spec = workload_body(job, sets)["spec"]
    spec.setdefault("maximumExecutionTimeSeconds", None)
    marked = _marked(workload, job, sets)
    if workload.replaces:
        marked["metadata"]["annotations"][REPLACES_ANNOTATION] = None
    return patch_of(workload, {**marked, "spec": spec})


def _marked(workload: Workload, job: TFJob, sets: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the part of a patch that sets the Workload's mark for these pod sets."""
    return {"metadata": {"annotations": {POD_SETS_ANNOTATION: mark_of(job, sets, adopted=workload.is_adopted)}}}


def _ended(facts: QueueFacts, workload: Workload, occupied: bool, now: datetime) -> tuple[Write, ...]:
    """Return the writes for an ended job.

    `occupied` means that a pod of the job may still run. When a pod has ended, its quota is given back. When the last
    pod has ended, the Workload is finished.
    """
    if workload.metadata.deletion_timestamp is not None:
        return () if occupied else removal(workload)
    if workload.is_true("Finished"):
        return unfinalized(workload)
    status = NextStatus(workload, now)
    if facts.awaits_pods:
        return ()
    if occupied:
        status.reclaim(without_pods(workload, facts.pods), reserved=workload.is_true("QuotaReserved"))
    else:
        final = final_condition(facts.job)
        if final is not None:
            succeeded = final.type == ConditionType.SUCCEEDED
            status.set("Finished", "True", "Succeeded" if succeeded else "Failed", final.message)
    return status.writes()


def _reported(facts: QueueFacts, workload: Workload, now: datetime, *, admitted: bool, reserved: bool) -> NextStatus:
    """Return the next status of a Workload: it reports whether the pods are ready, and how many need no quota any more.

    `reserved` means that the Workload has quota after this write.
    """
    job, status = facts.job, NextStatus(workload, now)
    status.report_readiness(admitted=admitted, ready=has_condition(job, ConditionType.READY))
    if seconds_to_grow(job, workload, now) <= 0:
        status.reclaim(not_needed(job, workload, facts.pods, reserved=reserved), reserved=reserved)
    return status


def _driven(facts: QueueFacts, workload: Workload, *, occupied: bool, now: datetime) -> Decision:
    """Return the decision about a Workload that requests what the job needs and isn't being evicted.

    `occupied` means that a pod of the job may still run.
    """
    job, reserved = facts.job, workload.is_true("QuotaReserved")
    admitted = reserved and workload.is_true("Admitted")
    status = _reported(facts, workload, now, admitted=admitted, reserved=reserved)
    reprice = _reprice(job, workload)
    if not admitted:
        return Decision(_why_closed(workload), (*status.writes(), *reprice))
    try:
        places = placements(workload, facts.flavors)
        if isinstance(places, str):
            gate = _unplaced(facts, workload, _FLAVOR_UNKNOWN, _no_flavor(places), occupied=occupied)
            return Decision(gate, status.writes())
        copy = admitted_job(job, places, facts.default_ps_image)
    except PlacementError as error:
        if not occupied:
            status.set("Finished", "True", "FailedToStart", str(error))
        gate = _unplaced(facts, workload, "FailedToStart", str(error), occupied=occupied)
        return Decision(gate, status.writes())
    admission = workload.status.admission
    cluster_queue = "" if admission is None else admission.cluster_queue
    quota, left = quota_of(workload, status, facts.reclaimed(workload)), seconds_to_grow(job, workload, now)
    size = job.status.elastic.workers if job.status.elastic is not None else 0
    if size > 0 and WORKERS in quota and (left <= 0 or facts.spent):
        # The job continues with these workers. The quota of its other workers is given back when their pods are gone.
        quota[WORKERS] = min(quota[WORKERS], size)
    spec = job.spec.tf_replica_specs.get(ReplicaType.WORKER)
    workers = None if spec is None or job.spec.elastic_policy is None else spec.desired
    gate = QueueGate("Admitted", cluster_queue, admitted=True, quota=quota, workers=workers)
    return Decision(gate, (*status.writes(), *reprice), copy, look_again=left or None)


def _why_closed(workload: Workload) -> QueueGate:
    """Return a gate with the reason why a Workload isn't admitted.

    There are three reasons: the Workload is inactive, an admission check has not passed, or there is no quota yet.
    """
    quota, evicted = workload.condition("QuotaReserved"), workload.condition("Evicted")
    if workload.spec.active is False:
        return closed_gate("Inactive", f"Workload {workload.metadata.name} is not active. {evicted.message}")
    if quota.status == "True":
        checks = (check for check in workload.status.admission_checks if check.state != "Ready")
        waits = ", ".join(f"admission check {check.name} is {check.state} {check.message}".rstrip() for check in checks)
        return closed_gate("Checking", waits or quota.message)
    before = f"; evicted before ({evicted.reason})" if evicted.status == "True" else ""
    return closed_gate(quota.reason, (quota.message or "Kueue has not processed its Workload yet") + before)


def _reprice(job: TFJob, workload: Workload) -> tuple[Write, ...]:
    """Return the patch for a job whose priority label has changed.

    While the Workload has quota, Kueue allows another priority class instead of the present class, but no addition or
    removal of a class: for such a change, the result is empty.
    """
    ref, wanted = workload.spec.priority_class_ref, job.metadata.labels.get(PRIORITY_LABEL, "")
    has = ref.name if ref is not None and ref.group == "kueue.x-k8s.io" else ""
    if has == wanted or (workload.is_true("QuotaReserved") and not (has and wanted)):
        return ()
    return (patch_of(workload, {"spec": {}}, prices=True),)
