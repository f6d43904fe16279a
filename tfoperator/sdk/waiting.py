"""The result of a wait for a job: a condition is true, can no longer become true, or did not become true in time.

The module does no I/O.
"""

from __future__ import annotations

from collections.abc import Collection

from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.job_conditions import final_condition, has_condition
from tfoperator.api.v1.types import TFJob
from tfoperator.sdk.errors import JobEnded, JobFailed, WaitTimeout

_PASSED_BY_SUCCESS = frozenset((ConditionType.CREATED, ConditionType.RUNNING))
"""Conditions that a succeeded job must have had before. A short job may have had them before a client first observed
its state.
"""


def checked_conditions(conditions: Collection[str]) -> frozenset[ConditionType]:
    """Return conditions (or a single condition) as types.

    The letter case of a condition does not matter. Raises ValueError if a type is unknown.
    """
    conditions = (conditions,) if isinstance(conditions, str) else conditions
    by_lower = {condition.lower(): condition for condition in ConditionType}
    unknown = [condition for condition in conditions if condition.lower() not in by_lower]
    if unknown or not conditions:
        what = f"{unknown[0]!r} is no condition" if unknown else "the condition to wait for is missing"
        raise ValueError(f"{what}; there are {', '.join(ConditionType)}")
    return frozenset(by_lower[condition.lower()] for condition in conditions)


def is_reached(job: TFJob, expected: frozenset[ConditionType]) -> bool:
    """Return whether one of these conditions is true, or was true before.

    Raises JobFailed, unless the caller waits for Failed. Raises JobEnded if the job has ended, so that none of the
    conditions can become true any more.
    """
    if any(has_condition(job, condition) for condition in expected):
        return True
    end = final_condition(job)
    if end is None:
        return False
    if end.type == ConditionType.FAILED:
        raise JobFailed(job, end)
    if expected & _PASSED_BY_SUCCESS:
        return True
    raise JobEnded(job, f"has succeeded, so it can't become {' or '.join(sorted(expected))} any more")


def late(namespace: str, name: str, what: str, timeout: float | None, job: TFJob | None, why: str = "") -> WaitTimeout:
    """Return the error after a wait for the job `name`.

    `what` describes the state (`is not Running`). The error has the job's last known state and the reason.
    """
    text = f"{what} after {round(timeout or 0, 2):.12g} s"
    if job is not None:
        state = job.state
        text += f": it is {state.word}" + (f" ({state.message})" if state.message else "")
    return WaitTimeout(namespace, name, text + why, job)
