"""Determines whether a job makes progress, and the actions if it doesn't. Pure.

The time for `progressDeadlineSeconds` begins when all replicas run. After a restart, a suspension, or the loss of a
pod, it begins again when all replicas run again. From then on, the time begins again with each sign of progress. Signs
of progress are the reports of a job. If a job has never sent a report, the signs of progress are new lines in the logs
of the replicas that train (a parameter server writes no log lines for days).

*Logs* are not watched continuously: the last lines are read after half of the deadline and at its end, and only for
jobs with a deadline. A line's time is by its node's clock. So a line counts as new if it is new by that clock, or if it
differs from the line of the previous reading. Since there are two readings in a deadline, a wrong clock can't make a
job that makes progress look stalled. A reading may come late, because the number of readings in a second is limited
(`log_looks`). So a line that the previous reading did not find does not show a stall, however old it is: another
reading follows. The longer a job has written nothing, the less often its logs are read.

*A stall that the operator must end* (`onStall`) is first reported in a separate status write. If stacks are taken, the
operator waits for the stacks of all threads. Then the job fails (`onStall: Fail`), or the operator marks the stalled
replicas as restarting (`onStall: Restart`), and the usual rules for restarts apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

import msgspec

from tfoperator.api.v1.choices import OnStall, ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.job_conditions import condition_of
from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.api.v1.status import all_conditions
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import seconds_between, utc, whole_second
from tfoperator.base.durations import format_duration
from tfoperator.controller.plan.facts.facts import Facts
from tfoperator.controller.plan.facts.progress import STACKS_TIMEOUT, Stall, StallState, pods_to_look_into
from tfoperator.controller.plan.replicas.replicas import (
    Replica,
    ReplicaGroup,
    ReplicaState,
    restarted_at_once,
    restarted_for_one_cause,
)
from tfoperator.controller.pods.manifests import CHIEF_TYPES
from tfoperator.kube.views.objects import Pod

_TRAINING_TYPES = (*CHIEF_TYPES, ReplicaType.WORKER)
_Running = tuple[ReplicaGroup, Replica, Pod]
_MOVING_STATES = (
    ReplicaState.MISSING,
    ReplicaState.VANISHED,
    ReplicaState.PENDING,
    ReplicaState.RESTARTING,
    ReplicaState.LEAVING,
)
_MIN_GAP = 1.0
"""A replica counts as behind the others only if its last sign of progress is at least this number of seconds before
theirs: the log lines of different replicas about the same step differ by less.
"""
_MAX_BEHIND = 5
_END_DELAY = 1.0
"""After a stall was reported, the sync that ends the stall comes after this number of seconds, or earlier if the cache
shows the status with the report.
"""
_SHARE_OF_SILENCE, _MAX_LOOK_PERIOD = 0.25, 600.0
"""The logs of a stalled job are read again, because the job may have resumed. The time until then is this share
(`_SHARE_OF_SILENCE`) of the time without progress, but at least half of the deadline, and at most `_MAX_LOOK_PERIOD`
seconds.
"""


def with_stall(facts: Facts, deadline: float) -> Facts:
    """Return the facts with the job's progress; `deadline` is its progress deadline in seconds.

    If the stall must end now with a restart (`onStall: Restart`), the stalled replicas in the result restart, unless
    the job is suspended.
    """
    stall = judge_progress(facts, deadline)
    ends = stall.ends_as is OnStall.RESTART and not facts.suspended
    groups = _stalled_replicas(facts.groups, stall) if ends else facts.groups
    return msgspec.structs.replace(facts, stall=stall, groups=groups)


def judge_progress(facts: Facts, deadline: float) -> Stall:
    """Return the state of the job's progress; `deadline` is its progress deadline in seconds."""
    start = _clock_start(facts.job, facts.groups)
    if start is None:
        return Stall(state=StallState.NOT_RUNNING)
    clock, reported = _Clock(start, deadline, facts.now), facts.observed.reported
    return _by_logs(facts, clock) if reported is None else _by_reports(facts, clock, reported)


def _stalled_replicas(groups: Sequence[ReplicaGroup], stall: Stall) -> tuple[ReplicaGroup, ...]:
    """Return the groups in which the replicas that are behind restart.

    If no replica is known to be behind, all replicas that train restart. For `backoffLimit`, these restarts count as a
    single failure, because they have the same cause.
    """
    running = _running(groups)
    named = [entry for entry in running if entry[0].name_of(entry[1]) in stall.behind]
    lost = {(group.type, replica.index) for group, replica, _ in named or _training(running)}
    restarted = tuple(
        group.with_replicas(
            tuple(
                restarted_at_once(replica, "has stalled") if (group.type, replica.index) in lost else replica
                for replica in group.replicas
            )
        )
        for group in groups
    )
    return restarted_for_one_cause(restarted, lost)


class _Clock(msgspec.Struct, frozen=True):
    """The deadline (in seconds) of a job whose time began at `start`."""

    start: datetime
    deadline: float
    now: datetime

    def left(self, last: datetime, part: float = 1.0) -> float:
        """Return the seconds until `part` (a fraction) of the deadline has passed since the last sign of progress."""
        return self.deadline * part - seconds_between(last, self.now)


def _clock_start(job: TFJob, groups: Sequence[ReplicaGroup]) -> datetime | None:
    """Return when all replicas last began to run; None if they don't all run, or if no chief or worker runs.

    If a user has scaled the chiefs and workers to zero, the job does not train until it has a chief or worker again.
    In a job with dynamic workers (`enableDynamicWorker`), the replicas that don't run are ignored, because the job's
    other workers continue to train without them.
    """
    true = [condition for condition in all_conditions(job.status) if condition.status == "True"]
    since = {
        condition.type: condition.last_transition_time
        for condition in true
        if condition.last_transition_time is not None
    }
    if ConditionType.RUNNING not in since or not _trains(job, groups):
        return None
    if not job.spec.enable_dynamic_worker and any(
        replica.state in _MOVING_STATES for group in groups for replica in group.replicas
    ):
        return None
    return max((since[kind] for kind in (ConditionType.RUNNING, ConditionType.READY) if kind in since), key=utc)


def _trains(job: TFJob, groups: Sequence[ReplicaGroup]) -> bool:
    """Return whether a chief or worker runs; a job whose spec has no such types trains with any replicas."""
    trained = [group for group in groups if group.type in _TRAINING_TYPES and group.type in job.spec.tf_replica_specs]
    return not trained or any(r.state is ReplicaState.RUNNING for group in trained for r in group.replicas)


# By reports.


def _by_reports(facts: Facts, clock: _Clock, reported: TrainingProgress) -> Stall:
    time = utc(reported.last_updated_time or clock.start)
    last = max(utc(clock.start), min(time, utc(clock.now)))
    left = clock.left(last)
    if left > 0:
        return Stall(state=StallState.GOES_ON, look_again=left)
    at = f" at {reported.percentage} %" if reported.percentage is not None else ""
    step = f" (step {reported.step})" if reported.step is not None else ""
    what = f"the last report{at}{step} came at {_time(time)}"
    return _stalled(facts, clock, what, _behind_by_reports(reported), look_again=None)


def _behind_by_reports(reported: TrainingProgress) -> tuple[str, ...]:
    """Return the replicas with the lowest step if other replicas have a higher step.

    Otherwise return the replicas that stopped reporting first.
    """
    steps = {replica.name: replica.step for replica in reported.behind if replica.step is not None}
    highest = max([*steps.values(), *([reported.step] if reported.step is not None else [])], default=0)
    lowest = min(steps.values(), default=highest)
    if lowest < highest:
        return tuple(name for name, step in steps.items() if step == lowest)[:_MAX_BEHIND]
    return _silent_first(
        {replica.name: utc(replica.last_updated_time) for replica in reported.behind if replica.last_updated_time}
    )


# By logs.


def _by_logs(facts: Facts, clock: _Clock) -> Stall:
    job, lines = facts.job, facts.observed.log_lines
    if lines is None:
        message = (
            "its replicas report no progress, and this operator does not read logs: report the progress from the "
            "program with tfoperator.progress"
        )
        return Stall(state=StallState.UNKNOWN, message=_unknown(job, message))
    training = sorted(_training(_running(facts.groups)), key=lambda entry: entry[0].type not in CHIEF_TYPES)
    pods = {group.name_of(replica): pod for group, replica, pod in training}
    newest = {name: lines.newest[pod.metadata.uid] for name, pod in pods.items() if pod.metadata.uid in lines.newest}
    times = {name: min(utc(line.time), utc(clock.now)) for name, line in newest.items()}
    last = max([utc(clock.start), *times.values()])
    looked = None if lines.looked is None else utc(lines.looked)
    left = clock.left(last)
    all_pods = tuple(pods.values())
    if left > 0:
        half = clock.left(last, 0.5)
        seen_since_half = looked is not None and seconds_between(last, looked) >= clock.deadline / 2
        if half > 0 or seen_since_half:
            return Stall(state=StallState.GOES_ON, look_again=half if half > 0 else left)
        return Stall(state=StallState.GOES_ON, look_again=left, look_at=all_pods, newer_than=last)
    half = clock.deadline / 2
    if looked is None or seconds_between(last, looked) < clock.deadline:
        return _as_before(job, look_again=half, look_at=all_pods, newer_than=last)
    since = seconds_between(looked, clock.now)
    if not lines.problem and any(line.is_new for line in newest.values()):
        if since < half:
            return _as_before(job, look_again=half - since)
        return _as_before(job, look_again=half, look_at=all_pods, newer_than=last)
    again = min(max(half, seconds_between(last, looked) * _SHARE_OF_SILENCE), _MAX_LOOK_PERIOD)
    look_at = all_pods if since >= again else ()
    if lines.problem:
        message = _unknown(job, f"its replicas report no progress, and their logs can't be read: {lines.problem}")
        return Stall(
            state=StallState.UNKNOWN,
            message=message,
            look_again=again if look_at else again - since,
            look_at=look_at,
            newer_than=last,
        )
    what = f"the last line of a log was written at {_time(max(times.values()))}" if times else "nothing was logged"
    stopped = tuple(name for name, line in newest.items() if line.stopped)[:_MAX_BEHIND]
    stall = _stalled(facts, clock, what, stopped or _silent_first(times), look_again=again - since)
    if look_at and stall.ends_as is OnStall.REPORT:
        stall = msgspec.structs.replace(stall, look_at=look_at, newer_than=last, look_again=again)
    return stall


def _as_before(job: TFJob, **looks: Any) -> Stall:
    """Return the state that the condition Stalled shows: the logs must be read again before the state can change.

    `looks` are the members of `Stall` that request this reading.
    """
    before = condition_of(job, ConditionType.STALLED)
    if before is not None and before.status == "True":
        return Stall(state=StallState.STALLED, message=before.message, **looks)
    return Stall(state=StallState.GOES_ON, **looks)


# Both.


def _running(groups: Sequence[ReplicaGroup]) -> list[_Running]:
    return [
        (group, replica, replica.pod)
        for group in groups
        for replica in group.replicas
        if replica.state is ReplicaState.RUNNING and replica.pod is not None
    ]


def _training(running: list[_Running]) -> list[_Running]:
    """Return the chiefs and workers, because only their logs show progress; if there are none, return all replicas."""
    return [entry for entry in running if entry[0].type in _TRAINING_TYPES] or running


def _silent_first(times: Mapping[str, datetime]) -> tuple[str, ...]:
    """Return the replicas that stopped first: their last signs of progress come before the widest gap in `times`.

    If even the widest gap is short, return (): then it is unknown which replicas stopped first.
    """
    if len(times) < 2:
        return ()
    order = sorted(times, key=lambda name: times[name])
    gaps = [seconds_between(times[earlier], times[later]) for earlier, later in pairwise(order)]
    widest = max(gaps)
    if widest < _MIN_GAP:
        return ()
    return tuple(order[: gaps.index(widest) + 1][:_MAX_BEHIND])


def _stalled(facts: Facts, clock: _Clock, what: str, behind: tuple[str, ...], *, look_again: float | None) -> Stall:
    job, taken = facts.job, facts.observed.stacks_taken
    policy = job.spec.policy
    names = f" Behind: {', '.join(behind)}." if behind else ""
    message = f"TFJob {job.metadata.key} has made no progress for {format_duration(clock.deadline)}: {what}.{names}"
    before = condition_of(job, ConditionType.STALLED)
    is_new = before is None or before.status != "True"
    ends_as = OnStall(policy.on_stall) if policy.on_stall in set(OnStall) else OnStall.REPORT
    stall = Stall(state=StallState.STALLED, message=message, behind=behind, look_again=look_again, ends_as=ends_as)
    if is_new and ends_as is not OnStall.REPORT:
        # The condition Stalled is written first, and a later sync ends the stall. Otherwise, if that end made the job
        # fail, its status would never show the stall.
        stall = msgspec.structs.replace(stall, ends_as=OnStall.REPORT, look_again=_END_DELAY)
    if taken is None:
        return stall
    pods = pods_to_look_into(facts.groups, behind)
    if is_new:
        return msgspec.structs.replace(stall, stacks_of=pods, look_again=STACKS_TIMEOUT)
    began = clock.now if before is None or before.last_transition_time is None else before.last_transition_time
    waited = seconds_between(began, clock.now)
    if ends_as is not OnStall.REPORT and taken < utc(whole_second(began)) and waited < STACKS_TIMEOUT:
        left = STACKS_TIMEOUT - waited
        return msgspec.structs.replace(stall, stacks_of=pods, ends_as=OnStall.REPORT, look_again=left)
    return stall


def _unknown(job: TFJob, why: str) -> str:
    return f"Whether TFJob {job.metadata.key} makes progress is unknown: {why}."


def _time(moment: datetime) -> str:
    return (whole_second(moment)).strftime("%Y-%m-%dT%H:%M:%SZ")
