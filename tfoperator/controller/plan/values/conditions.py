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

from tfoperator.api.v1.condition_types import PEER_CONDITIONS, ConditionType, OwnReason
from tfoperator.api.v1.reasons import ForeignReason, JobReason
from tfoperator.api.v1.status import JobCondition, TFJobStatus, find_condition, status_of
from tfoperator.base.clock import whole_second


def is_finished(conditions: Sequence[JobCondition]) -> bool:
    """Return whether the job has ended: Succeeded or Failed is true. That never changes again."""
    return any(c.status == "True" and c.type in (ConditionType.SUCCEEDED, ConditionType.FAILED) for c in conditions)


def is_held(conditions: Sequence[JobCondition]) -> bool:
    """Return whether the job is suspended, or waits in its queue, according to its conditions."""
    suspended = status_of(conditions, ConditionType.SUSPENDED) == "True"
    return suspended or status_of(conditions, ConditionType.ADMITTED) == "False"


class Conditions(msgspec.Struct, frozen=True):
    """The conditions of a job, and those that it had when the plan began; times change only where something changed."""

    before: tuple[JobCondition, ...]
    now: tuple[JobCondition, ...]
    time: datetime

    def having(
        self, condition: ConditionType, status: str, reason: JobReason | OwnReason | ForeignReason, message: str
    ) -> Conditions:
        """Return these with a condition set; the same if that changes nothing.

        The transition time moves only with the status, the update time with any change. A condition that becomes true
        moves to the end of its list.
        """
        old = find_condition(self.now, condition)
        if old is not None and (old.status, old.reason, old.message) == (status, reason, message):
            return self
        same_status = old is not None and old.status == status
        new = JobCondition(
            type=condition,
            status=status,
            reason=reason,
            message=message,
            last_update_time=self.time,
            last_transition_time=old.last_transition_time if old is not None and same_status else self.time,
        )
        if old is not None and (same_status or status != "True"):
            return self._with(tuple(new if item is old else item for item in self.now))
        return self._with((*(item for item in self.now if item.type != condition), new))

    def has(self, condition: ConditionType) -> bool:
        """Return whether a condition of that type is there."""
        return find_condition(self.now, condition) is not None

    def without(self, condition: ConditionType) -> Conditions:
        """Return these without a condition; the same if it is not there."""
        if not self.has(condition):
            return self
        return self._with(tuple(item for item in self.now if item.type != condition))

    def _with(self, items: tuple[JobCondition, ...]) -> Conditions:
        return Conditions(self.before, items, self.time)

    def written_to(self, status: TFJobStatus) -> TFJobStatus:
        """Return the status with these conditions, each type in its list; the same status if it has them already."""
        conditions = _with_a_true_one_last([item for item in self.now if item.type in PEER_CONDITIONS])
        own = tuple(item for item in self.now if item.type not in PEER_CONDITIONS)
        if (conditions, own) == (status.conditions, status.operator_conditions):
            return status
        return msgspec.structs.replace(status, conditions=conditions, operator_conditions=own)

    def became_true(self) -> frozenset[ConditionType]:
        """Return the conditions that are true now and were not before."""
        return frozenset(
            ConditionType(item.type)
            for item in self.now
            if item.status == "True" and item.type in _KNOWN_TYPES and status_of(self.before, item.type) != "True"
        )


def conditions_of(conditions: tuple[JobCondition, ...], now: datetime) -> Conditions:
    """Return the conditions of a job as they are before a plan changes them at `now`."""
    return Conditions(conditions, conditions, whole_second(now))


_KNOWN_TYPES = frozenset(ConditionType)


def _with_a_true_one_last(items: Sequence[JobCondition]) -> tuple[JobCondition, ...]:
    true = [position for position, item in enumerate(items) if item.status == "True"]
    if not true or true[-1] == len(items) - 1:
        return tuple(items)
    last = true[-1]
    return (*items[:last], *items[last + 1 :], items[last])
