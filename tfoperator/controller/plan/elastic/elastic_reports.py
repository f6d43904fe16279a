"""Records the number of workers of an elastic job, reports its changes, and creates and deletes probes. Pure.

A probe is a pod that never runs the program. It only shows whether there is room for one more worker.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

import msgspec

from tfoperator.api.replicas.names import is_probe, replica_of
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.reasons import JobReason
from tfoperator.controller.plan.facts.elastic_size import Size
from tfoperator.controller.plan.facts.facts import Facts
from tfoperator.controller.plan.facts.proposal import (
    STATUS_FIRST,
    Act,
    LookAgain,
    SetCondition,
    StatusPart,
    Want,
    delete,
    event,
)
from tfoperator.controller.plan.replicas.replicas import ReplicaGroup
from tfoperator.controller.plan.values.actions import Create, DeleteReason, PhaseName
from tfoperator.controller.pods.manifests import PodCounts, ReplicaManifests
from tfoperator.controller.pods.probes import as_probe, for_workers

_SAVED_STEP = "saved_step"
"""The metric in the reports of a program that has saved a checkpoint (class `Saving` of the progress library)."""

_WITHOUT_CHECKPOINTS = (
    "the job has no spec.checkpoint, and its program has reported no checkpoint. If the program does not continue "
    "from a checkpoint, the training starts from the beginning after each change of the number of workers"
)


def record_size(facts: Facts) -> Iterator[Want]:
    """Record the number of workers before other actions use it, and report a change."""
    size = facts.size
    if size is None or facts.job.spec.elastic_policy is None:
        # A user has removed `spec.elasticPolicy`.
        yield StatusPart({"elastic": None})
        if size is None:
            yield from remove_probes(facts)
        else:
            yield event(JobReason.RESIZED, _change_text(facts, size))
        return
    if not size.changes:  # a change of the size deletes all pods, including the probes
        yield from remove_probes(facts, kept=size.kept)
    yield StatusPart({"elastic": size.record})
    if size.is_new or size.changes:
        yield STATUS_FIRST
    if size.changes and size.record.changes == 1 and not _saves(facts):
        yield event(JobReason.NO_CHECKPOINT, f"TFJob {facts.job.metadata.key}: {_WITHOUT_CHECKPOINTS}.")
    if size.changes:
        yield event(JobReason.RESIZED, _change_text(facts, size))
    if size.look_again is not None:
        yield LookAgain(size.look_again)


def _saves(facts: Facts) -> bool:
    """Return whether the spec or the program's reports show that the program saves checkpoints."""
    reported = facts.observed.reported
    metrics = () if reported is None else reported.metrics
    return facts.job.spec.checkpoint is not None or any(metric.name == _SAVED_STEP for metric in metrics)


def forget_size(facts: Facts) -> Iterator[Want]:
    """Forget the number of workers of a job that is suspended or waits in its queue.

    After a user has resumed the job, it starts anew. If the queue has stopped the job, `workers_before` keeps the
    number: a later start with another number is a change.
    """
    recorded = facts.job.status.elastic
    if recorded is None:
        return
    replace, is_by_user = msgspec.structs.replace, facts.job.spec.suspended
    before = 0 if is_by_user else max(recorded.workers, 0) or recorded.workers_before
    if recorded.workers or recorded.workers_before != before:
        wanted = 0 if is_by_user else recorded.wanted
        nothing = replace(recorded, workers=0, wanted=wanted, reason="", lacking_since=None, workers_before=before)
        yield StatusPart({"elastic": nothing})


def plan_probes(facts: Facts) -> Iterator[Want]:
    """Create probes: pods that test whether there is room for more workers.

    Raises PodTemplateError if the body of a probe can't be made.
    """
    size = facts.size
    workers = next((group for group in facts.groups if group.type is ReplicaType.WORKER), None)
    if size is None or not size.probes or workers is None:
        return
    last = size.before + size.probes
    there = {replica_of(pod.metadata.labels) for pod in facts.observed.pods}
    missing = [index for index in range(size.before, last) if (ReplicaType.WORKER, index) not in there]
    if not missing:
        return
    larger = msgspec.structs.replace(workers, size=last)
    groups = [larger if group.type is ReplicaType.WORKER else group for group in facts.groups]
    gang = None if facts.gang is None else facts.gang.scheduler
    manifests = ReplicaManifests(facts.job, groups, facts.options, gang)
    for index in missing:
        yield Act(PhaseName.REPLICAS, _probe(facts, manifests, larger, index, last))


def remove_probes(facts: Facts, kept: Container[str] = ()) -> Iterator[Want]:
    """Delete the job's probes, except the probes with the UIDs in `kept`.

    A probe never runs the program, and has the name of a replica's pod. So a probe that is no longer needed would block
    that replica.
    """
    for pod in facts.observed.pods:
        if is_probe(pod.metadata.annotations) and pod.metadata.uid not in kept:
            yield from delete("pods", pod, DeleteReason.NOT_WANTED)


def restarting_for_size(facts: Facts, size: Size) -> Iterator[Want]:
    """Set the condition Restarting: all replicas restart, because the number of workers changes."""
    yield SetCondition(ConditionType.RESTARTING, "True", JobReason.RESIZED, _change_text(facts, size))


def _change_text(facts: Facts, size: Size) -> str:
    again = ": all its replicas restart. This does not count as a failure" if size.has_pods else ""
    return f"job {facts.job.metadata.name} goes {size.change}{again}."


def size_note(size: Size) -> str:
    """Return a text for the condition Running about an elastic job that has fewer workers than wanted.

    The text is empty if the job has all wanted workers.
    """
    if size.record.lacking_since is not None and size.workers == size.least:
        return f"the job does not train with fewer than {size.least} workers (minReplicas)"
    if size.workers >= size.wanted:
        return ""
    asks = f", and the operator looks for nodes for {size.probes} more" if size.probes else ""
    return f"the job has {size.workers} of the {size.wanted} requested workers{asks}"


def _probe(facts: Facts, manifests: ReplicaManifests, group: ReplicaGroup, index: int, workers: int) -> Create:
    counts = PodCounts(job_restarts=facts.restart.number, job_disruptions=facts.restart.disruptions)
    body = as_probe(for_workers(manifests.pod(group, index, counts), workers))
    return Create(
        kind="pods",
        name=body["metadata"]["name"],
        replica=(group.type, index),
        required=False,
        body=body,
        spec_field=f"spec.tfReplicaSpecs[{group.type}].template",
    )
