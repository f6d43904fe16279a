"""Decides when a wait for a condition of a job ends.

A wait ends when the condition is true, when it can't become true any more, or when the time limit is over. The module
does no I/O.
"""

from __future__ import annotations

from collections.abc import Collection

from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.job_conditions import final_condition, has_condition
from tfoperator.api.v1.types import TFJob
from tfoperator.sdk.errors import JobEnded, JobFailed, WaitTimeout

_PASSED_BY_SUCCESS = frozenset((ConditionType.CREATED, ConditionType.RUNNING))
"""Conditions that every succeeded job has had. A wait for them ends when the job has succeeded, because a short job may
succeed before the client reads its state.
"""


def checked_conditions(conditions: Collection[str]) -> frozenset[ConditionType]:
    """Return conditions (or a single condition) as types.

    The letter case of a condition does not matter. Raises ValueError if a type is unknown, or if there is no
    condition.
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

    Raises JobFailed if the job has failed, and the caller does not wait for Failed. Raises JobEnded if the job has
    succeeded, so that none of the conditions can become true any more.
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
    """Return the error for a wait for the job `name` whose time is over.

    `what` follows the job's name in the message, for example `is not Running`. `why` follows at the end.
    """
    text = f"{what} after {round(timeout or 0, 2):.12g} s"
    if job is not None:
        state = job.state
        text += f": it is {state.word}" + (f" ({state.message})" if state.message else "")
    return WaitTimeout(namespace, name, text + why, job)
