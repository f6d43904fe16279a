"""How many replicas do their work: the part of a status that changes with every pod of a large job on its way up."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from tfoperator.api.v1.types import JobCondition, ReplicaStatus, ReplicaType, TFJobSpec, TFJobStatus

Counts = tuple[tuple[str, int, int], ...]
"""By replica type: how many are active and how many are ready."""

_COUNTED = re.compile(r"\b\d+/\d+ replicas ready\b")
_OWN_RULES = ("ready", "conditions", "replica_statuses", "last_reconcile_time", "progress")
_ALIKE = tuple(name for name in TFJobStatus.__struct_fields__ if name not in _OWN_RULES)


def counts_of(status: TFJobStatus) -> Counts:
    """The counts in a status that may wait."""
    return tuple((key, one.active, one.ready) for key, one in sorted(status.replica_statuses.items()))


def counted(ready: int, total: int, completed: int, failed: int) -> str:
    """The counts as conditions say them."""
    text = f"{ready}/{total} replicas ready"
    text += f", {completed} completed" if completed else ""
    return text + (f", {failed} failed" if failed else "")


def only_counts_rise(old: TFJobStatus, new: TFJobStatus, spec: TFJobSpec) -> bool:
    """Whether `new` says no more than `old`, but that more replicas are active or ready.

    Then nobody waits for it, and nothing would be lost with it. It is otherwise if fewer are (something may be wrong),
    or if all workers are active, which is what whoever scales a job waits for. (That all replicas are ready is a
    condition.) Started indexes must be recorded, or the loss of a pod could not be told from its absence; what has
    become of the progress is written by whoever receives it.
    """
    if any(getattr(old, name) != getattr(new, name) for name in _ALIKE):
        return False
    if old.ready.partition("/")[2] != new.ready.partition("/")[2]:
        return False
    if not _same_but_for_counts(old.conditions, new.conditions):
        return False
    if old.replica_statuses.keys() != new.replica_statuses.keys():
        return False
    if not all(_only_rises(before, new.replica_statuses[key]) for key, before in old.replica_statuses.items()):
        return False
    return not _all_workers_are_active(old, new, spec)


def _same_but_for_counts(old: Sequence[JobCondition], new: Sequence[JobCondition]) -> bool:
    return len(old) == len(new) and all(_news(one) == _news(other) for one, other in zip(old, new, strict=True))


def _news(condition: JobCondition) -> JobCondition:
    """The condition without its counts, and without when they were last mended."""
    message = _COUNTED.sub("", condition.message)
    return msgspec.structs.replace(condition, message=message, last_update_time=None)


def _only_rises(old: ReplicaStatus, new: ReplicaStatus) -> bool:
    if new.active < old.active or new.ready < old.ready:
        return False
    return old == msgspec.structs.replace(new, active=old.active, ready=old.ready)


def _all_workers_are_active(old: TFJobStatus, new: TFJobStatus, spec: TFJobSpec) -> bool:
    before, now = (one.replica_statuses.get(ReplicaType.WORKER) for one in (old, new))
    workers = spec.tf_replica_specs.get(ReplicaType.WORKER)
    if before is None or now is None or workers is None:
        return False
    return before.active != now.active >= (workers.replicas or 0)
