"""Kueue's objects in the form that caches keep: their size has a limit, whatever their authors write.

Any user of a namespace may make Workloads with the label by which the operator selects them, and Kueue makes a Workload
for each job of every other kind. If no TFJob owns a Workload and the Workload lacks the annotation
`POD_SETS_ANNOTATION` (the operator's mark), a cache keeps only its metadata. Of all other Workloads, the cache keeps
the members that the operator reads.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import force_setattr, replace

from tfoperator.api.kueue.queues import POD_SETS_ANNOTATION, REPLACES_ANNOTATION
from tfoperator.api.kueue.workloads import (
    Admission,
    Assignment,
    PodSet,
    PriorityClassRef,
    Workload,
    WorkloadCondition,
    WorkloadSpec,
    WorkloadStatus,
    decode_workload,
)
from tfoperator.controller.kueue.left import key_of
from tfoperator.controller.kueue.objects import IN_USE, Flavor, FlavorSpec, decode_flavor
from tfoperator.controller.kueue.writes import MAX_FINALIZERS, MAX_MESSAGE
from tfoperator.kube.views.objects import NOBODY, compacting

MAX_WORKLOAD, MAX_FLAVOR = 16 << 10, 16 << 10
"""The limits in bytes, as JSON: for the members that are read from a Workload (most have 2 KB), and for the spec of a
flavor (which has at most eight labels).
"""

_MAX_MARK = 64
"""The maximum number of characters that are kept of the annotation `POD_SETS_ANNOTATION`. The operator writes 16."""
_MAX_KEY = 317
"""The maximum number of characters of the key of the replaced Workload (63 for the namespace, a slash, 253 for the
name).
"""
_MAX_NAME, _MAX_LIST = 316, 18
"""The maximum number of characters of a name, and of items of a list, that the CRD of Workloads allows."""

_TOO_LARGE = f"of an admission with more than {MAX_WORKLOAD} bytes"
"""The text that replaces the name of a flavor in an admission that is too large. A flavor can't have this name, so the
operator finds no flavor and starts no pods.
"""


def _mark_alone(annotations: dict[str, str]) -> dict[str, str]:
    mark, replaces = annotations.get(POD_SETS_ANNOTATION, ""), annotations.get(REPLACES_ANNOTATION, "")
    if not mark:
        return {}
    kept = {POD_SETS_ANNOTATION: mark[:_MAX_MARK]}
    return kept | {REPLACES_ANNOTATION: replaces[:_MAX_KEY]} if replaces else kept


def _read_of(data: bytes) -> Workload:
    workload = decode_workload(data)
    meta = workload.metadata
    key = key_of(workload)
    if not (key or workload.mark):
        force_setattr(meta, "finalizers", ())
        return Workload(metadata=meta)
    if not key and meta.owner_references and meta.controller is None:
        # The Workload has owners, but none is its controller. `NOBODY` stands for them: without any owner, the
        # Workload would look like a Workload whose job is gone.
        force_setattr(meta, "owner_references", (NOBODY,))
    ours = [finalizer for finalizer in meta.finalizers if finalizer == IN_USE]
    force_setattr(meta, "finalizers", (*ours[:1], *(finalizer for finalizer in meta.finalizers if finalizer != IN_USE)))
    spec, status = workload.spec, _without_places(workload.status)
    if len(msgspec.json.encode((spec, status))) > MAX_WORKLOAD:
        spec, status = _bounded_spec(spec), _bounded_status(status)
    return Workload(metadata=meta, spec=spec, status=status)


decode_workload_for_cache = compacting(_read_of, _mark_alone, finalizers=MAX_FINALIZERS + 1)
"""Decode a Workload for a cache: only the members that the operator reads. Equal strings of different Workloads are
stored once. Raises msgspec.DecodeError.
"""


def _read_of_flavor(data: bytes) -> Flavor:
    flavor = decode_flavor(data)
    if len(msgspec.json.encode(flavor.spec)) <= MAX_FLAVOR:
        return flavor
    return Flavor(metadata=flavor.metadata, spec=FlavorSpec(), is_whole=False)


decode_flavor_for_cache = compacting(_read_of_flavor)
"""Decode a flavor for a cache. If a flavor is too large, its `is_whole` is false. Raises msgspec.DecodeError."""


def _without_places(status: WorkloadStatus) -> WorkloadStatus:
    """Return the status without the nodes that a topology assigns.

    The operator reads only whether a topology assigns nodes.
    """
    admission = status.admission
    if admission is None or all(assignment.topology_assignment is None for assignment in admission.pod_set_assignments):
        return status
    without = tuple(
        assignment if assignment.topology_assignment is None else replace(assignment, topology_assignment={})
        for assignment in admission.pod_set_assignments
    )
    return replace(status, admission=replace(admission, pod_set_assignments=without))


def _bounded_spec(spec: WorkloadSpec) -> WorkloadSpec:
    ref = spec.priority_class_ref
    return WorkloadSpec(
        queue_name=_cut(spec.queue_name),
        active=spec.active,
        pod_sets=tuple(
            PodSet(_cut(pod_set.name), pod_set.count, pod_set.min_count) for pod_set in spec.pod_sets[:_MAX_LIST]
        ),
        priority_class_ref=None if ref is None else PriorityClassRef(_cut(ref.group), _cut(ref.name)),
        maximum_execution_time_seconds=spec.maximum_execution_time_seconds,
    )


def _bounded_status(status: WorkloadStatus) -> WorkloadStatus:
    """Shorten the messages of a status that is too large.

    If this is not enough, give its admission a flavor that does not exist (`_TOO_LARGE`), so that the operator can't
    use the admission.
    """
    conditions = tuple(
        WorkloadCondition(
            _cut(condition.type), _cut(condition.status), _cut(condition.reason), condition.message[:MAX_MESSAGE],
            _cut(condition.last_transition_time), condition.observed_generation,
        )
        for condition in status.conditions[:_MAX_LIST]
    )  # fmt: skip
    checks = tuple(replace(check, message=check.message[:MAX_MESSAGE]) for check in status.admission_checks)
    shorter = replace(status, conditions=conditions, admission_checks=checks)
    if len(msgspec.json.encode(replace(shorter, conditions=()))) <= MAX_WORKLOAD:
        return shorter
    admission = status.admission
    if admission is not None:
        admission = Admission(_cut(admission.cluster_queue), (Assignment(flavors={"": _TOO_LARGE}),))
    return WorkloadStatus(
        conditions=conditions,
        admission=admission,
        reclaimable_pods=tuple(
            replace(reclaimable, name=_cut(reclaimable.name)) for reclaimable in status.reclaimable_pods[:_MAX_LIST]
        ),
        accumulated_past_execution_time_seconds=status.accumulated_past_execution_time_seconds,
        requeue_state=status.requeue_state,
        cluster_name=_cut(status.cluster_name),
    )


def _cut(text: str) -> str:
    return text[:_MAX_NAME]
