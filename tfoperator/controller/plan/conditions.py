"""A job's list of conditions as a value: set one, get a new list.

Other programs read this list by position: `kubectl get tfjobs` prints the type of the last one as State, and so do
clients of the Go operator. So the last one is always true, and one of the Go operator's: Ready, Stalled, Straggling and
Admitted, which it doesn't know, and conditions that became false never stand last.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tfoperator.api.v1.status import JobCondition, find_condition, status_of
from tfoperator.api.v1.types import ConditionType
from tfoperator.base.clock import whole_second


def is_finished(conditions: Sequence[JobCondition]) -> bool:
    """Return whether the job has ended: Succeeded or Failed is true. That never changes again."""
    return any(c.status == "True" and c.type in (ConditionType.SUCCEEDED, ConditionType.FAILED) for c in conditions)


class Conditions:
    """Builds the next list of conditions from the current one; times are set only where something changed."""

    def __init__(self, current: Sequence[JobCondition], now: datetime) -> None:
        self._items = list(current)
        self._current = tuple(current)
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

    def set(self, condition: ConditionType, status: str, reason: str, message: str) -> bool:
        """Set a condition; return whether that changed anything.

        The transition time moves only with the status, the update time with any change. A condition that becomes true
        moves to the end of the list.
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

    def result(self) -> tuple[JobCondition, ...]:
        """Return the new list, with one of the Go operator's true conditions last, if any; the old list if equal."""
        items = self._items
        leading = [position for position, item in enumerate(items) if _may_be_last(item)]
        if leading and leading[-1] != len(items) - 1:
            items = [*items[: leading[-1]], *items[leading[-1] + 1 :], items[leading[-1]]]
        result = tuple(items)
        return self._current if result == self._current else result

    def became_true(self) -> frozenset[ConditionType]:
        """Return the conditions that are true now and were not before."""
        return frozenset(
            ConditionType(item.type)
            for item in self._items
            if item.status == "True" and item.type in _KNOWN_TYPES and status_of(self._current, item.type) != "True"
        )


_KNOWN_TYPES = frozenset(ConditionType)
_OWN_TYPES = frozenset((ConditionType.READY, ConditionType.STALLED, ConditionType.STRAGGLING, ConditionType.ADMITTED))


def _may_be_last(condition: JobCondition) -> bool:
    return condition.status == "True" and condition.type not in _OWN_TYPES
