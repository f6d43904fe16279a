"""Waits for a job's condition, or for its deletion, by a watch."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing

from tfoperator.api.job_conditions import condition_of, final_condition, has_condition
from tfoperator.api.v1.types import TFJOBS, ConditionType, TFJob, decode_tfjob
from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube import by_name
from tfoperator.kube.following import Follower
from tfoperator.kube.verbs import ApiClient, WatchEventType
from tfoperator.sdk.errors import JobDeleted, JobEnded, JobFailed, JobNotFound, WaitTimeout, job_errors
from tfoperator.sdk.states import job_state

_PASSED_BY_SUCCESS = frozenset((ConditionType.CREATED, ConditionType.RUNNING))
"""Conditions that a succeeded job had before: a short job may have passed them before its first observed state."""


def checked_conditions(conditions: Collection[str]) -> frozenset[ConditionType]:
    """Return the conditions, or the one, given in any letter case, as types. Raises ValueError for an unknown one."""
    conditions = (conditions,) if isinstance(conditions, str) else conditions
    by_lower = {condition.lower(): condition for condition in ConditionType}
    unknown = [condition for condition in conditions if condition.lower() not in by_lower]
    if unknown or not conditions:
        what = f"{unknown[0]!r} is no condition" if unknown else "no condition to wait for"
        raise ValueError(f"{what}; there are {', '.join(ConditionType)}")
    return frozenset(by_lower[condition.lower()] for condition in conditions)


def wait_for_conditions(
    client: ApiClient,
    namespace: str,
    name: str,
    expected: frozenset[ConditionType],
    *,
    timeout: float | None,
    callback: Callable[[TFJob], object] | None = None,
    clock: Clock | None = None,
) -> TFJob:
    """Return the job when one of `expected` is true; `callback` gets every state of it, in this thread.

    Raises JobNotFound, JobDeleted, JobFailed (unless Failed is expected), JobEnded if it has ended so that none of them
    is possible any more, WaitTimeout, or the callback's errors.
    """
    last: TFJob | None = None
    with job_errors(namespace, name), closing(iter(_follow(client, namespace, name, timeout, clock))) as changes:
        for change in changes:
            if change.type is WatchEventType.DELETED:
                raise JobDeleted(namespace, name)
            if change.object is None:
                if last is None:
                    raise JobNotFound(namespace, name)
                continue
            last = change.object
            if callback is not None:
                callback(last)
            if _is_reached(last, expected):
                return last
    wanted = " or ".join(sorted(expected))
    raise WaitTimeout(namespace, name, _late(namespace, name, f"is not {wanted}", timeout, last), last)


def wait_for_deletion(
    client: ApiClient, namespace: str, name: str, *, timeout: float | None, clock: Clock | None = None
) -> None:
    """Return when no job of that name exists. Raises WaitTimeout."""
    last: TFJob | None = None
    with job_errors(namespace, name), closing(iter(_follow(client, namespace, name, timeout, clock))) as changes:
        for change in changes:
            if change.type is WatchEventType.DELETED or (change.object is None and last is None):
                return
            last = change.object or last
    raise WaitTimeout(namespace, name, _late(namespace, name, "is still there", timeout, last), last)


def _follow(
    client: ApiClient, namespace: str, name: str, timeout: float | None, clock: Clock | None
) -> Follower[TFJob]:
    clock = clock or SystemClock()
    deadline = None if timeout is None else clock.monotonic() + timeout
    return Follower(client, TFJOBS, namespace, decode_tfjob, by_name(name), deadline=deadline, clock=clock)


def _is_reached(job: TFJob, expected: frozenset[ConditionType]) -> bool:
    if any(has_condition(job, condition) for condition in expected):
        return True
    end = final_condition(job)
    if end is None:
        return False
    if end.type == ConditionType.FAILED:
        raise JobFailed(job, end)
    if expected & _PASSED_BY_SUCCESS:
        return True
    what = f"TFJob {job.metadata.name} in namespace {job.metadata.namespace}"
    raise JobEnded(job, f"{what} has succeeded, so it will not be {' or '.join(sorted(expected))}")


def _late(namespace: str, name: str, what: str, timeout: float | None, job: TFJob | None) -> str:
    text = f"TFJob {name} in namespace {namespace} {what} after {round(timeout or 0, 2):.12g} s"
    if job is None:
        return text
    state = job_state(job)
    said = condition_of(job, state)
    return f"{text}: it is {state}" + (f" ({said.message})" if said is not None and said.message else "")
