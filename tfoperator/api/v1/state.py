"""The state of a TFJob in words, which is the same in the commands, on the page, in Python and in notebooks. Pure.

This module needs only metadata and status: it does not import `TFJob`, which has the property `state` from this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tfoperator.api.v1.condition_types import TROUBLES, ConditionType
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.status import (
    JobCondition,
    TFJobStatus,
    WaitingReplicas,
    all_conditions,
    final_of,
    find_condition,
    status_of,
)
from tfoperator.kube.views.objects import ObjectMeta

RUN_ENDS: Mapping[str, str] = {
    JobReason.RUN_TIMED_OUT: "TimedOut",
    JobReason.RUN_INTERRUPTED: "Interrupted",
    JobReason.RUN_DIED: "Died",
}
"""If a job ends because its run (`tfoperator run`) ends, its condition Failed has one of these reasons. The value is
the word for the state of the job and the run.

Only the records of runs have these reasons: in a cluster, a job continues after the command that created it has ended.
"""

CRASH_LOOP = "CrashLoopBackOff"
"""Kubernetes' word for a container that has failed several times and waits for its next start."""

_BY_PRIORITY = tuple(condition for condition in reversed(ConditionType) if condition.traits.is_peers)


class JobState(msgspec.Struct, frozen=True):
    """The state of a job: a word, and the message of the condition that explains it.

    The message is empty without such a condition. The word is the first of these that applies: Terminating; the outcome
    of the job (`end_word`); the problem of a running job (one of `TROUBLES`, or `CRASH_LOOP`); the true condition with
    the highest priority; Pending.
    """

    word: str
    message: str = ""


def state_of(metadata: ObjectMeta, status: TFJobStatus) -> JobState:
    """Return the state of the job that has this metadata and this status."""
    end, conditions = final_of(status), all_conditions(status)
    word, reason = (end_word(end), end) if end is not None else _before_the_end(conditions, status.waiting)
    if metadata.deletion_timestamp is not None:
        word = "Terminating"
    return JobState(word or status.phase or "Pending", "" if reason is None else reason.message)


def in_short(metadata: ObjectMeta, status: TFJobStatus) -> str:
    """Return a job's state in a few words, such as `Running, 2/3 ready, 1 restart`."""
    restarts = restarts_text(status) if status.restarts else ""
    word = state_of(metadata, status).word
    return ", ".join(filter(None, (word, status.ready and f"{status.ready} ready", restarts)))


def restarts_text(status: TFJobStatus) -> str:
    """Return a text such as `3 restarts, 2 of them after disruptions`."""
    restarts = f"{status.restarts} restart{'s' if status.restarts != 1 else ''}"
    if not status.disruptions:
        return restarts
    if status.disruptions == status.restarts:
        return f"{restarts} after {'a disruption' if status.restarts == 1 else 'disruptions'}"
    disrupted = "a disruption" if status.disruptions == 1 else "disruptions"
    return f"{restarts}, {status.disruptions} of them after {disrupted}"


def end_word(end: JobCondition) -> str:
    """Return a job's outcome in one word: Succeeded, Failed, or a word of `RUN_ENDS`.

    The word is from `RUN_ENDS` if the job ended only because its `tfoperator run` ended.
    """
    return RUN_ENDS.get(end.reason, end.type) if end.type == ConditionType.FAILED else end.type


def _before_the_end(
    conditions: Sequence[JobCondition], waiting: Sequence[WaitingReplicas]
) -> tuple[str, JobCondition | None]:
    """Return the state of a job that has not ended, and the condition that explains the state.

    The state is "" if no condition shows it.
    """
    state = next((condition for condition in _BY_PRIORITY if status_of(conditions, condition) == "True"), None)
    running = find_condition(conditions, ConditionType.RUNNING)
    if state is None or state is ConditionType.CREATED:
        # The condition Created explains nothing; the message of Running explains why the job doesn't run yet.
        return str(state or ""), running or find_condition(conditions, ConditionType.CREATED)
    if state is not ConditionType.RUNNING or running is None:
        return str(state), find_condition(conditions, state)
    trouble = next((condition for condition in TROUBLES if status_of(conditions, condition) == "True"), None)
    if trouble is not None:
        return str(trouble), find_condition(conditions, trouble)
    crashes = any(entry.reason == CRASH_LOOP for entry in waiting)
    return CRASH_LOOP if crashes else str(state), running
