"""A job's conditions as a value: set a condition, get new lists.

Foreign clients read `status.conditions`, and each kind of client has a rule of its own: the last condition of the list,
the newest true condition by its transition time, any true condition of a type, `Ready` and `Stalled` as kstatus defines
them. So this list has the Go operator's types only, the last condition in it is true, and transition times are as that
operator sets them. Types that it does not know are in `status.operatorConditions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from tfoperator.api.v1.condition_types import PEER_CONDITIONS, ConditionType
from tfoperator.api.v1.reasons import ForeignReason, JobReason
from tfoperator.api.v1.status import JobCondition, TFJobStatus, all_conditions, find_condition, status_of
from tfoperator.base.clock import whole_second


def is_finished(conditions: Sequence[JobCondition]) -> bool:
    """Return whether the job has ended: Succeeded or Failed is true. That never changes again."""
    return any(c.status == "True" and c.type in (ConditionType.SUCCEEDED, ConditionType.FAILED) for c in conditions)


def was_held(status: TFJobStatus) -> bool:
    """Return whether the job is suspended, or waits in its queue, according to its status."""
    conditions = all_conditions(status)
    suspended = status_of(conditions, ConditionType.SUSPENDED) == "True"
    return suspended or status_of(conditions, ConditionType.ADMITTED) == "False"


class Conditions:
    """Builds the next conditions from the current ones; times are set only where something changed."""

    def __init__(self, current: TFJobStatus, now: datetime) -> None:
        self._current = all_conditions(current)
        self._items = list(self._current)
        self._now = whole_second(now)

    def get(self, condition: ConditionType) -> JobCondition | None:
        """Return the condition of that type, or None."""
        return find_condition(self._items, condition)

    def is_true(self, condition: ConditionType) -> bool:
        """Return whether the condition is there and true."""
        return status_of(self._items, condition) == "True"

    @property
    def held_before(self) -> bool:
        """Whether the job was suspended, or waited in its queue, when this plan began."""
        suspended = status_of(self._current, ConditionType.SUSPENDED) == "True"
        return suspended or status_of(self._current, ConditionType.ADMITTED) == "False"

    def set(self, condition: ConditionType, status: str, reason: JobReason | ForeignReason, message: str) -> bool:
        """Set a condition; return whether that changed anything.

        The transition time moves only with the status, the update time with any change. A condition that becomes true
        moves to the end of its list.
        """
        old = self.get(condition)
        if old is not None and (old.status, old.reason, old.message) == (status, reason, message):
            return False
        same_status = old is not None and old.status == status
        new = JobCondition(
            type=condition,
            status=status,
            reason=reason,
            message=message,
            last_update_time=self._now,
            last_transition_time=old.last_transition_time if old is not None and same_status else self._now,
        )
        if old is not None and (same_status or status != "True"):
            self._items[self._items.index(old)] = new
        else:
            self.remove(condition)
            self._items.append(new)
        return True

    def remove(self, condition: ConditionType) -> None:
        """Drop a condition, if it is there."""
        self._items = [item for item in self._items if item.type != condition]

    def written_to(self, status: TFJobStatus) -> TFJobStatus:
        """Return the status with these conditions, each type in its list; the same status if it has them already."""
        conditions = _with_a_true_one_last([item for item in self._items if item.type in PEER_CONDITIONS])
        own = tuple(item for item in self._items if item.type not in PEER_CONDITIONS)
        if (conditions, own) == (status.conditions, status.operator_conditions):
            return status
        return msgspec.structs.replace(status, conditions=conditions, operator_conditions=own)

    def became_true(self) -> frozenset[ConditionType]:
        """Return the conditions that are true now and were not before."""
        return frozenset(
            ConditionType(item.type)
            for item in self._items
            if item.status == "True" and item.type in _KNOWN_TYPES and status_of(self._current, item.type) != "True"
        )


_KNOWN_TYPES = frozenset(ConditionType)


def _with_a_true_one_last(items: list[JobCondition]) -> tuple[JobCondition, ...]:
    true = [position for position, item in enumerate(items) if item.status == "True"]
    if true and true[-1] != len(items) - 1:
        items.append(items.pop(true[-1]))
    return tuple(items)
