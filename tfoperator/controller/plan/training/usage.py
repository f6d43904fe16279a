"""Computes how a job spends its time, and which resources it holds meanwhile. Pure.

`account` returns the job's usage. The usage changes only when the job's `UsagePhase` (queued, scheduling, starting,
training, lost, stalled or suspended) changes, or when the resources of its pods change: readers add the time since the
last change. So the usage is exact, even if the operator rarely writes a status. Between two writes the operator's
process remembers the usage. A new leader continues from the usage in the status, and reads the times of changes that it
has missed from the pods.

*Without reports* a job counts as training while the programs of all its replicas except evaluators run. With dynamic
workers it counts as training while any of these programs runs. From a restart until the programs run again, its time
counts as lost.

*With reports* a job counts as training from its first report on. Its time counts as lost from a restart on. If a report
shows an earlier step than the highest step, its time counts as lost from the report of the highest step on. In both
cases the lost time ends with the first report of a step that is higher than all steps before. Reports that replicas
sent before a restart don't count as training: they only show how far the training was. When a job reports for the first
time, the time from the start of its programs until this report counts as startup.

Times come from nodes' clocks. Numbers come from programs, and from any user who may write a status. So the operator
limits each time to the span from the last change until now, sums never decrease, and the stored data has a maximum
size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import msgspec

from tfoperator.api.kueue.queues import queue_name
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.api.v1.status import JobUsage, UsagePhase, UsageSource, seconds_since
from tfoperator.base.clock import utc, whole_second
from tfoperator.controller.plan.facts.facts import TRAINED, Facts, Stage
from tfoperator.controller.plan.facts.progress import StallState
from tfoperator.controller.plan.replicas.held_resources import (
    Span,
    begun_at,
    bound_at,
    held_by,
    program_of,
    resources_until,
    termination_of,
)
from tfoperator.controller.plan.replicas.replicas import Replica, ReplicaState
from tfoperator.controller.plan.values.actions import Plan

_LAST_WORDS = timedelta(seconds=10)
"""How long after a restart a report may still come from the training before the restart."""

_MAX_SECONDS = 2**53
_PHASES = tuple(map(str, UsagePhase))


def account(facts: Facts) -> JobUsage | None:
    """Return the job's usage until now."""
    stage = facts.verdict.stage
    if stage in (Stage.FINISHED, Stage.INVALID):
        return facts.job.status.usage
    before = _before(facts)
    if before.phase not in _PHASES:
        # An earlier plan recorded the job's end in memory, but the status with that end was never written. The recorded
        # usage counts only if this plan ends the job, too.
        return before if stage.is_end else facts.job.status.usage
    now = max(utc(whole_second(facts.now)), before.time)
    stalled = stage is Stage.ACTIVE and facts.stall.state is StallState.STALLED
    course = _course(facts, before, now, stalled=stalled).following(stage)
    source = UsageSource.REPORTS if course.is_reported else UsageSource.PODS
    end, pods = course.end(stage), facts.observed.pods
    until = now if end is None else end
    spans = _in_order(course.spans, until)
    step, time = course.step, course.step_time
    usage = msgspec.structs.replace(
        course.before, step=step, step_time=time, restarts=course.restarts, source=str(source)
    )
    held = held_by(pods, now) if end is None else {}
    if (
        len(spans) == 1
        and end is None
        and held == {name: resource.in_use for name, resource in before.resources.items()}
    ):
        return usage
    return msgspec.structs.replace(
        usage,
        phase=str(spans[-1][0]) if end is None else "",
        since=spans[-1][1] if end is None else end,
        seconds=_added(usage.seconds, spans if end is None else [*spans, ("", end)]),
        resources=resources_until(usage, spans, held, pods, until),
        resources_since=until,
    )


def with_goodput(plan: Plan, now: datetime) -> Plan:
    """Return the plan. If the plan writes the status anyway, add the goodput, the share of time spent in training."""
    usage = plan.status.usage
    if usage is None or not (plan.write_status or plan.write_status_first):
        return plan
    return msgspec.structs.replace(plan, status=msgspec.structs.replace(plan.status, usage=usage.with_goodput(now)))


def _before(facts: Facts) -> JobUsage:
    """Return the newest known usage. A job without a usage counts as queued since its creation."""
    status, remembered = facts.job.status.usage, facts.observed.usage
    if status is None and remembered is None:
        created = whole_second(facts.job.metadata.creation_timestamp or facts.now)
        return JobUsage(UsagePhase.QUEUED, min(created, utc(whole_second(facts.now))), resources_since=created)
    if status is None or (remembered is not None and remembered.time >= status.time):
        status = remembered
    assert status is not None
    latest = whole_second(facts.now)
    # Limit these times to the present. If a time were in the future (a clock was wrong, or a user wrote it), the sums
    # would not grow until then.
    since = min(utc(status.since or latest), latest), min(utc(status.resources_since or latest), latest)
    return msgspec.structs.replace(status, since=since[0], resources_since=since[1])


def _course(facts: Facts, before: JobUsage, now: datetime, *, stalled: bool) -> _Course:
    """Return the course of the job (its phases since the last usage) with only the phase that this usage has recorded.

    The step and the number of restarts come from the last usage, too.
    """
    reported, since = facts.observed.reported, utc(before.since or now)
    return _Course(
        facts,
        before,
        now,
        stalled,
        reported,
        since,
        spans=((UsagePhase(before.phase), since),),
        step=before.step,
        step_time=before.step_time,
        restarts=before.restarts,
        is_reported=reported is not None or before.is_reported,
    )


class _Course(msgspec.Struct, frozen=True):
    """The phases of the job since the last change of its usage (`since`).

    `spans` has these phases in order; the first item is the phase that began at `since`. A method that adds phases
    returns a changed copy.
    """

    facts: Facts
    before: JobUsage
    now: datetime
    stalled: bool
    reported: TrainingProgress | None
    since: datetime
    spans: tuple[Span, ...]
    step: int | None
    step_time: datetime | None
    restarts: int
    is_reported: bool

    def following(self, stage: Stage) -> _Course:
        """Return the course with the phases from `since` until now."""
        if stage is Stage.SUSPENDED:
            waits = queue_name(self.facts.job.metadata.labels) and self.spans[0][0] not in TRAINED
            waits = waits or (self.facts.observed.held and not self.facts.job.spec.suspended)
            course = self._then(UsagePhase.QUEUED if waits else UsagePhase.SUSPENDED, self.now)
            return course._reaching(self._step) if self.spans[0][0] in TRAINED else course
        if self.spans[0][0] not in TRAINED:
            return self._beginning(ended=stage is not Stage.ACTIVE)
        return self._going_on() if stage is Stage.ACTIVE else self

    def end(self, stage: Stage) -> datetime | None:
        """Return when the job ended, if it has ended.

        If all programs have ended, this is the end of the last program; otherwise it is the current time.
        """
        if not stage.is_end:
            return None
        ends = [termination_of(program_of(pod)) for pod in self.facts.observed.pods]
        times = [utc(end.finished_at) for end in ends if end is not None and end.finished_at is not None]
        if not times or len(times) < len(ends):
            return self.now
        return min(max(max(times), self.since), self.now)

    def _then(self, phase: UsagePhase, began: datetime) -> _Course:
        """Return the course with another phase."""
        return msgspec.structs.replace(self, spans=(*self.spans, (phase, began)))

    def _beginning(self, *, ended: bool) -> _Course:
        """Return the course of a job that has not trained since it was created, or resumed."""
        course = self
        made = (utc(pod.metadata.creation_timestamp or self.now) for pod in self.facts.observed.pods)
        created = min(made, default=self.now)
        if self.spans[0][0] not in (UsagePhase.SCHEDULING, UsagePhase.STARTING):
            course = course._then(UsagePhase.SCHEDULING, created)
        needed = self._needed()
        bound = [bound_at(replica.pod, self.now) for replica in needed]
        places = [place for place in bound if place is not None]
        if needed and len(places) == len(bound):
            course = course._then(UsagePhase.STARTING, max(places))
        elif course.spans[-1][0] is UsagePhase.STARTING and not ended:
            course = course._then(UsagePhase.SCHEDULING, self.now)
        if self.is_reported:
            # A report that is older than the pods was sent before a suspension.
            began = self._report_time if self._report_time >= created else None
        else:
            began = self._begun(needed)
        if began is None:
            return course
        again = self.is_reported and self._step is not None and self._step < (self.step or 0)
        course = course._then(UsagePhase.LOST if again else UsagePhase.TRAINING, began)
        return course._counting()._reaching(self._step)

    def _going_on(self) -> _Course:
        """Return the course of a job that has trained."""
        course = self
        if self.is_reported and not self.before.is_reported:
            course = course._with_start()
        phase = course.spans[-1][0]
        lost = self._restarts > self.restarts or (not self.is_reported and self._loses)
        if lost and not self._is_elastic:
            phase = UsagePhase.LOST
            course = course._then(phase, self._lost_at())
        course = course._counting()
        if self.stalled:
            return course._then(UsagePhase.STALLED, self._silent_since())
        if self.is_reported:
            return course._by_steps(phase)
        if phase is UsagePhase.STALLED:
            return course._then(UsagePhase.TRAINING, self.now)
        if phase is UsagePhase.LOST and (began := self._begun(self._needed())) is not None:
            return course._then(UsagePhase.TRAINING, began)
        return course

    def _with_start(self) -> _Course:
        """Return the course of a job that has reported for the first time.

        The time that counted as training until now becomes startup.
        """
        replace = msgspec.structs.replace
        spent = sum(max(self.before.seconds.get(phase, 0), 0) for phase in (UsagePhase.STARTING, *TRAINED))
        others = {phase: seconds for phase, seconds in self.before.seconds.items() if phase not in TRAINED}
        untrained = {name: replace(resource, trained_seconds=0.0) for name, resource in self.before.resources.items()}
        before = replace(self.before, seconds={**others, UsagePhase.STARTING: spent}, resources=untrained)
        spans = ((UsagePhase.STARTING, self.since), (UsagePhase.TRAINING, self._report_time))
        return replace(self, spans=spans, before=before)

    def _by_steps(self, phase: UsagePhase) -> _Course:
        step, mark, course = self._step, self.step, self
        if phase is UsagePhase.LOST:
            if self._report_time >= self.spans[-1][1] + _LAST_WORDS:
                if step is not None and mark is not None and step <= mark:
                    return self
                course = self._then(UsagePhase.TRAINING, self._report_time)
        elif step is not None and mark is not None and step < mark:
            return self._then(UsagePhase.LOST, utc(self.step_time or self._report_time))
        elif phase is UsagePhase.STALLED:
            course = self._then(UsagePhase.TRAINING, self._report_time)
        return course._reaching(step)

    def _counting(self) -> _Course:
        """Return the course with the current number of restarts, which never decreases."""
        restarts = max(self.restarts, self._restarts)
        return self if restarts == self.restarts else msgspec.structs.replace(self, restarts=restarts)

    def _reaching(self, step: int | None) -> _Course:
        """Return the course with the highest step that the job has reached."""
        if step is None or (self.step is not None and step <= self.step):
            return self
        return msgspec.structs.replace(self, step=step, step_time=self._report_time)

    @property
    def _step(self) -> int | None:
        """The step in the last report. If reports have no steps, the percentage."""
        reported = self.reported
        return None if reported is None else (reported.percentage if reported.step is None else reported.step)

    @property
    def _report_time(self) -> datetime:
        """The time of the last report. If there was no report, the earliest possible time."""
        reported = self.reported
        return utc(datetime.min if reported is None or not reported.last_updated_time else reported.last_updated_time)

    @property
    def _restarts(self) -> int:
        return self.facts.restart.number + sum(group.restarts for group in self.facts.groups)

    @property
    def _loses(self) -> bool:
        """Whether a replica has lost its pod, for example by an eviction, and waits for its restart.

        The counts of restarts possibly do not include this restart yet.
        """
        states = (ReplicaState.RESTARTING, ReplicaState.VANISHED, ReplicaState.LEAVING)
        return any(replica.state in states for group in self.facts.groups for replica in group.replicas)

    @property
    def _is_elastic(self) -> bool:
        """Whether the job has dynamic workers, and at least one of the programs that training needs runs."""
        return bool(self.facts.job.spec.enable_dynamic_worker) and self._begun(self._needed()) is not None

    def _needed(self) -> list[Replica]:
        """Return the replicas that training needs.

        Leave out replicas that have failed for good, and replicas that have succeeded and have no pod any more.
        """
        groups = self.facts.groups
        needed = [group for group in groups if group.type is not ReplicaType.EVALUATOR] or groups
        return [
            replica
            for group in needed
            for replica in group.replicas
            if replica.state is not ReplicaState.FAILED
            and (replica.state is not ReplicaState.SUCCEEDED or replica.pod is not None)
        ]

    def _begun(self, needed: Sequence[Replica]) -> datetime | None:
        """Return when the last program began; None if not all programs run.

        With dynamic workers, return when the first program began; None if no program runs.
        """
        begun = [begun_at(replica, self.now) for replica in needed]
        times = [moment for moment in begun if moment is not None]
        if self.facts.job.spec.enable_dynamic_worker:
            return min(times, default=None)
        return max(times) if times and len(times) == len(begun) else None

    def _lost_at(self) -> datetime:
        """Return the earliest time after `since` at which the program of a restarting or restarted replica ended.

        Return the current time if no such time is known.
        """
        lost = [
            termination_of(program_of(replica.pod), last=replica.state is ReplicaState.RUNNING)
            for group in self.facts.groups
            for replica in group.replicas
            if replica.pod is not None
            and replica.state in (ReplicaState.RESTARTING, ReplicaState.LEAVING, ReplicaState.RUNNING)
        ]
        times = [utc(end.finished_at) for end in lost if end is not None and end.finished_at is not None]
        return min((time for time in times if time > self.since), default=self.now)

    def _silent_since(self) -> datetime:
        """Return the time since which the job has made no progress.

        With reports, this is the time of the last report. Without reports, it is the current time minus the job's
        `progressDeadlineSeconds`.
        """
        if self.is_reported:
            return self._report_time
        deadline = self.facts.job.spec.policy.progress_deadline_seconds or 0
        return self.now - timedelta(seconds=min(max(deadline, 0), 10**9))


def _in_order(spans: Sequence[Span], now: datetime) -> list[Span]:
    """Return the spans with times that never decrease and are not in the future.

    Adjacent spans of the result have different phases.
    """
    ordered = [spans[0]]
    for phase, began in spans[1:]:
        if phase is not ordered[-1][0]:
            ordered.append((phase, min(max(began, ordered[-1][1]), now)))
    return ordered


def _added(seconds: Mapping[str, int], spans: Sequence[tuple[str, datetime]]) -> dict[str, int]:
    """Return the sums of `seconds` by phase, increased by all spans except the last span, which has not ended."""
    sums = {phase: min(max(seconds.get(phase, 0), 0), _MAX_SECONDS) for phase in _PHASES}
    for (phase, began), (_, ended) in pairwise(spans):
        sums[str(phase)] += seconds_since(began, ended)
    return {phase: number for phase, number in sums.items() if number}
