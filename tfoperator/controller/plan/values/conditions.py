"""A job's conditions as an immutable value: setting a condition returns a new value.

Other programs read `status.conditions`, and each kind of program has a rule of its own. Some read the last condition in
the list, some the newest true condition by its transition time, some any true condition of a type, and some `Ready` and
`Stalled` as kstatus defines them. Each of these programs must get the result that it gets with the Go operator. So
`status.conditions` has only the types that the Go operator has, its last condition is true, and transition times are as
the Go operator sets them. All other types are in `status.operatorConditions`.
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
    """Return whether the job has ended: Succeeded or Failed is true. An ended job never starts again."""
    return any(c.status == "True" and c.type in (ConditionType.SUCCEEDED, ConditionType.FAILED) for c in conditions)


def is_held(conditions: Sequence[JobCondition]) -> bool:
    """Return whether the job is suspended, or waits in its queue, according to its conditions."""
    suspended = status_of(conditions, ConditionType.SUSPENDED) == "True"
    return suspended or status_of(conditions, ConditionType.ADMITTED) == "False"


class Conditions(msgspec.Struct, frozen=True):
    """The conditions of a job now, and at the beginning of the plan.

    If a condition does not change, its times do not change.
    """

    before: tuple[JobCondition, ...]
    now: tuple[JobCondition, ...]
    time: datetime

    def having(
        self, condition: ConditionType, status: str, reason: JobReason | OwnReason | ForeignReason, message: str
    ) -> Conditions:
        """Return the conditions with a condition set; return the same object if nothing changes.

        The transition time changes only if the condition's status changes, and the update time changes with every
        change. If a condition becomes true, it moves to the end of its list.
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
        """Return whether the job has a condition of that type."""
        return find_condition(self.now, condition) is not None

    def without(self, condition: ConditionType) -> Conditions:
        """Return the conditions without this type; return the same object if the job has no such condition."""
        if not self.has(condition):
            return self
        return self._with(tuple(item for item in self.now if item.type != condition))

    def _with(self, items: tuple[JobCondition, ...]) -> Conditions:
        return Conditions(self.before, items, self.time)

    def written_to(self, status: TFJobStatus) -> TFJobStatus:
        """Return the status with these conditions, divided into `conditions` and `operatorConditions` by type.

        Return the same object if the status has these conditions already.
        """
        conditions = _with_a_true_one_last([item for item in self.now if item.type in PEER_CONDITIONS])
        own = tuple(item for item in self.now if item.type not in PEER_CONDITIONS)
        if (conditions, own) == (status.conditions, status.operator_conditions):
            return status
        return msgspec.structs.replace(status, conditions=conditions, operator_conditions=own)

    def became_true(self) -> frozenset[ConditionType]:
        """Return the conditions that are true now and were not true at the beginning of the plan."""
        return frozenset(
            ConditionType(item.type)
            for item in self.now
            if item.status == "True" and item.type in _KNOWN_TYPES and status_of(self.before, item.type) != "True"
        )


def conditions_of(conditions: tuple[JobCondition, ...], now: datetime) -> Conditions:
    """Return the conditions of a job before a plan changes them; each changed condition gets the time `now`."""
    return Conditions(conditions, conditions, whole_second(now))


_KNOWN_TYPES = frozenset(ConditionType)


def _with_a_true_one_last(items: Sequence[JobCondition]) -> tuple[JobCondition, ...]:
    true = [position for position, item in enumerate(items) if item.status == "True"]
    if not true or true[-1] == len(items) - 1:
        return tuple(items)
    last = true[-1]
    return (*items[:last], *items[last + 1 :], items[last])
