"""The state of a TFJob in words, the same in each view: commands, the page, Python and notebooks. Pure.

It is made from metadata and status alone: this module does not depend on `TFJob`, whose property `state` it makes.
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
"""Reasons of the condition Failed of a job that ended because its run (`tfoperator run`) did, and the state of both.

Only the records of runs have these reasons: in a cluster a job outlives the command that made it.
"""

CRASH_LOOP = "CrashLoopBackOff"
"""Kubernetes' word for a container that has failed several times and waits for its next start."""

_BY_PRIORITY = tuple(condition for condition in reversed(ConditionType) if condition.traits.is_peers)


class JobState(msgspec.Struct, frozen=True):
    """The state of a job: a word, and the message that explains it, which is empty if no condition does.

    The word is the first of these that applies: Terminating; how the job has ended (`end_word`); the trouble of a
    running job (one of `TROUBLES`, or `CRASH_LOOP`); the true condition that counts most; Pending.
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
    """Return `Running, 2/3 ready, 1 restart`."""
    restarts = restarts_text(status) if status.restarts else ""
    word = state_of(metadata, status).word
    return ", ".join(filter(None, (word, status.ready and f"{status.ready} ready", restarts)))


def restarts_text(status: TFJobStatus) -> str:
    """Return `3 restarts, 2 of them after disruptions`."""
    restarts = f"{status.restarts} restart{'s' if status.restarts != 1 else ''}"
    if not status.disruptions:
        return restarts
    if status.disruptions == status.restarts:
        return f"{restarts} after {'a disruption' if status.restarts == 1 else 'disruptions'}"
    disrupted = "a disruption" if status.disruptions == 1 else "disruptions"
    return f"{restarts}, {status.disruptions} of them after {disrupted}"


def end_word(end: JobCondition) -> str:
    """Return the outcome of a job in one word: Succeeded, Failed, or how its run ended before it (`RUN_ENDS`)."""
    return RUN_ENDS.get(end.reason, end.type) if end.type == ConditionType.FAILED else end.type


def _before_the_end(
    conditions: Sequence[JobCondition], waiting: Sequence[WaitingReplicas]
) -> tuple[str, JobCondition | None]:
    """Return the state of a job that has not ended, "" if no condition shows it, and the condition that explains it."""
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
