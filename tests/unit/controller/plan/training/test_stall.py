"""A job without progress: when it counts as stalled, who is behind, and what is done about it."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.controller.builders import (
    ReadablePlan,
    after,
    make_job,
    make_pod,
    plan_for,
    planned,
    services_of,
    with_status,
)
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.parts.progress import ReplicaProgress, TrainingProgress
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.facts.progress import STACKS_TIMEOUT
from tfoperator.controller.plan.values.observed import LogLines, NewestLine, Observed
from tfoperator.kube.views.objects import Pod
from tfoperator.operator.witnesses.log_looks import new_line

C = ConditionType
WORKERS = (make_pod("Worker-0"), make_pod("Worker-1"))
NEVER = datetime(1970, 1, 1, tzinfo=UTC)
BEHIND = (ReplicaProgress("worker-1", 7, after(20)), ReplicaProgress("worker-0", 8, after(50)))


def job(deadline: int | None = 60, replicas: Any = 2, **policy: Any) -> TFJob:
    """A job whose replicas have begun to run NOW."""
    wanted = {"progressDeadlineSeconds": deadline, **policy}
    spec = make_job({"Worker": {"replicas": replicas, "restartPolicy": "OnFailure"}}, runPolicy=wanted)
    pods = [make_pod(f"Worker-{index}") for index in range(replicas)]
    return with_status(spec, planned(spec, *pods).status)


def reporting(of: TFJob, seconds: float, *behind: ReplicaProgress, **more: Any) -> TFJob:
    progress = TrainingProgress(last_updated_time=after(seconds), behind=behind, **more)
    return with_status(of, msgspec.structs.replace(of.status, progress=progress))


def lines(looked: float | None, **pods: float) -> LogLines:
    """Return the result of a look so many seconds after NOW: by pod, when its newest line was written."""
    newest = {
        f"mnist-{name.replace('_', '-')}-uid": NewestLine(time=after(at), stamp=after(at)) for name, at in pods.items()
    }
    return LogLines(newest=newest, looked=None if looked is None else after(looked))


def plan_at(of: TFJob, seconds: float, *pods: Pod, **more: Any) -> ReadablePlan:
    return plan_for(Observed(of, pods or WORKERS, services_of(of), **more), after(seconds))


def looked_at(plan: ReadablePlan) -> list[str]:
    return [pod.metadata.name for pod in plan.looks.read]


def taken_of(plan: ReadablePlan) -> list[str]:
    return [pod.metadata.name for pod in plan.looks.stacks]


# By reports.


def test_a_report_moves_the_deadline_and_a_job_that_waits_for_a_replica_has_none() -> None:
    plan = plan_at(reporting(job(), 50), 100)
    assert (plan.acts, plan.requeue_after) == (False, 10)
    plan = plan_at(reporting(job(), 0), 10**4, make_pod("Worker-0"), make_pod("Worker-1", "Pending"))
    assert (plan.has_condition(C.STALLED), plan.requeue_after) == (False, None)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("on_stall", ["Restart", "Fail"])
def test_a_job_whose_workers_are_scaled_to_zero_waits_and_does_not_stall(on_stall: str, dynamic: bool) -> None:
    policy = {"progressDeadlineSeconds": 60, "onStall": on_stall}
    spec = make_job({"PS": 1, "Worker": 1}, runPolicy=policy, enableDynamicWorker=dynamic)
    ps, worker = make_pod("PS-0"), make_pod("Worker-0")
    of = reporting(with_status(spec, planned(spec, ps, worker).status), 5)
    specs = {**of.spec.tf_replica_specs}
    specs["Worker"] = msgspec.structs.replace(specs["Worker"], replicas=0)
    none = msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, tf_replica_specs=specs))
    for seconds in (10, 100, 102):
        plan = plan_at(none, seconds, ps)
        assert not plan.changes_objects
        assert not plan.has_condition(C.STALLED)
        none = with_status(none, plan.status)
    back = plan_at(with_status(of, plan.status), 110, ps, make_pod("Worker-0", "Pending"))
    assert "Stalled" not in back.reasons, "the time starts when a worker runs again"
    runs = plan_at(with_status(of, back.status), 120, ps, worker)
    again = plan_at(with_status(of, runs.status), 121, ps, worker)
    assert again.requeue_after == 59


def test_without_a_report_for_the_deadline_it_has_stalled_and_who_fell_silent_first_is_behind() -> None:
    plan = plan_at(reporting(job(), 50, *BEHIND, percentage=45, step=8), 110, stacks_taken=NEVER)
    stalled = plan.condition(C.STALLED)
    assert (stalled.status, stalled.reason) == ("True", "ProgressDeadlineExceeded")
    assert "has made no progress for 1m: the last report at 45 % (step 8) came at " in stalled.message
    assert stalled.message.endswith("2026-01-01T12:00:50Z. Behind: worker-1.")
    assert taken_of(plan) == ["mnist-worker-1", "mnist-worker-0"], "those that are behind are looked into first"
    assert plan.reasons == ["Stalled"]
    assert not plan.changes_objects
    assert not plan_at(with_status(job(), plan.status), 200).acts
    assert not plan_at(with_status(job(None), plan.status), 120).has_condition(C.STALLED), "nobody minds any more"
    behind = [ReplicaProgress(f"worker-{n}", 8, after(at)) for n, at in enumerate((50, 20, 49))]
    plan = plan_at(reporting(job(), 50, *behind, step=8), 110)
    assert plan.condition(C.STALLED).message.endswith("Behind: worker-1.")
    pods = tuple(make_pod(f"Worker-{index}") for index in range(3))
    at = {"worker_0": 9.5, "worker_1": 3.0, "worker_2": 9.0}
    plan = plan_at(job(replicas=3), 71, *pods, log_lines=lines(70, **at))
    assert plan.condition(C.STALLED).message.endswith("Behind: worker-1.")


# Time that does not count as time without progress.


def test_after_a_suspension_the_clock_starts_anew() -> None:
    of = reporting(job(), 0)
    asleep = with_status(make_job({"Worker": 2}, runPolicy={"suspend": True, "progressDeadlineSeconds": 60}), of.status)
    suspended = plan_at(asleep, 50)
    assert not suspended.has_condition(C.STALLED)
    awake = with_status(of, planned(with_status(of, suspended.status), services=(), now=after(999)).status)
    resumed = plan_for(Observed(awake, WORKERS, services_of(awake)), after(1000))
    assert resumed.is_true(C.RUNNING)
    running = with_status(awake, resumed.status)
    assert not plan_at(running, 1059).has_condition(C.STALLED)
    assert plan_at(running, 1060).is_true(C.STALLED)


# By logs.


def test_logs_are_looked_at_after_half_of_the_deadline_and_at_its_end() -> None:
    of = job()
    early = plan_at(of, 10, log_lines=lines(None))
    assert (looked_at(early), early.requeue_after) == ([], 20)
    half = plan_at(of, 30, log_lines=lines(None))
    assert (looked_at(half), half.requeue_after) == (["mnist-worker-0", "mnist-worker-1"], 30)
    done = plan_at(of, 31, log_lines=lines(30, worker_0=-5, worker_1=-5))
    assert (looked_at(done), done.requeue_after) == ([], 29)
    end = plan_at(of, 60, log_lines=lines(30, worker_0=-5, worker_1=-5))
    assert looked_at(end) == ["mnist-worker-0", "mnist-worker-1"]
    assert not end.has_condition(C.STALLED)
    stalled = plan_at(of, 61, log_lines=lines(60, worker_0=-5, worker_1=-5))
    assert stalled.is_true(C.STALLED)
    assert "the last line of a log was written at 2026-01-01T11:59:55Z" in stalled.condition(C.STALLED).message


def test_a_stalled_job_is_looked_at_again_and_goes_on_and_a_new_leader_keeps_what_was_said_until_then() -> None:
    stalled = plan_at(job(), 61, log_lines=lines(60, worker_0=0, worker_1=0))
    of = with_status(job(), stalled.status)
    assert looked_at(plan_at(of, 62, log_lines=lines(60, worker_0=0, worker_1=0))) == []
    assert looked_at(plan_at(of, 91, log_lines=lines(60, worker_0=0, worker_1=0))) == [
        "mnist-worker-0",
        "mnist-worker-1",
    ]
    assert plan_at(of, 92, log_lines=lines(91, worker_0=80, worker_1=0)).reasons == ["ProgressResumed"]
    led = plan_at(of, 500, log_lines=LogLines())
    assert (led.is_true(C.STALLED), led.acts) == (True, False)
    assert looked_at(led) == ["mnist-worker-0", "mnist-worker-1"]


def test_parameter_servers_and_evaluators_tell_nothing_of_progress() -> None:
    spec = make_job({"PS": 1, "Chief": 1, "Worker": 1, "Evaluator": 1}, runPolicy={"progressDeadlineSeconds": 60})
    pods = tuple(make_pod(f"{kind}-0") for kind in ("PS", "Chief", "Worker", "Evaluator"))
    of = with_status(spec, planned(spec, *pods).status)
    assert looked_at(plan_at(of, 30, *pods, log_lines=lines(None))) == ["mnist-chief-0", "mnist-worker-0"]


def test_who_can_not_read_logs_says_so_once() -> None:
    of = job()
    blind = plan_at(of, 61, log_lines=None)
    assert (blind.condition(C.STALLED).status, blind.reasons) == ("Unknown", ["ProgressUnknown"])
    refused = LogLines(looked=after(60), problem="pods/log is forbidden")
    plan = plan_at(of, 61, log_lines=refused)
    assert plan.condition(C.STALLED).status == "Unknown"
    assert "pods/log is forbidden" in plan.condition(C.STALLED).message
    assert not plan_at(with_status(of, plan.status), 62, log_lines=refused).acts


def looks_at(of: TFJob, silent: float, **more: Any) -> list[float]:
    """After how many seconds of silence the logs of a job are looked at, if each look finds nothing: of 10,000."""
    at, looked, times = 0.0, None, []
    while at < silent:
        plan = plan_at(of, at, log_lines=LogLines(looked=None if looked is None else after(looked), **more))
        of = with_status(of, plan.status)
        if looked_at(plan):
            looked = at
            times.append(at)
            # A look that is over leads to a plan at once.
            plan = plan_at(of, at, log_lines=LogLines(looked=after(looked), **more))
            of = with_status(of, plan.status)
        assert plan.requeue_after is not None
        assert plan.requeue_after > 0, "it would be planned again and again"
        at += plan.requeue_after
    return times


@pytest.mark.parametrize("problem", ["", "pods/log is forbidden"])
def test_the_longer_a_job_has_been_silent_the_rarer_are_the_looks_at_its_logs(problem: str) -> None:
    times = looks_at(job(30), 36_000, problem=problem)
    assert times[:4] == [15, 30, 45, 60]
    assert len([time for time in times if time <= 3600]) <= 25, "one each 5 s would be 720"
    gaps = [round(later - earlier, 6) for earlier, later in pairwise(times)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == 600
    assert all(gap <= max(15, at / 4) + 1e-3 for gap, at in zip(gaps, times, strict=False)), "news are seen in time"
    assert max(round(b - a, 6) for a, b in pairwise(looks_at(job(86_400), 200_000)[1:])) == 600


def test_a_smaller_deadline_of_a_stored_job_counts_as_thirty_seconds() -> None:
    assert looks_at(job(1), 100) == looks_at(job(30), 100) == [15, 30, 45, 60, 75, 93.75]


def test_a_line_that_a_late_look_finds_is_no_stall_whatever_its_time() -> None:
    """Looks may come late, for their number in a second is bounded; and the clock of the node is wrong."""
    of, old = job(), after(-5_000)
    first = LogLines({"mnist-worker-0-uid": new_line(None, old, after(200), None)}, after(200))
    plan = plan_at(of, 200, log_lines=first)
    assert (plan.has_condition(C.STALLED), looked_at(plan), plan.requeue_after) == (False, [], 30)
    assert looked_at(plan_at(of, 230, log_lines=first))
    line = new_line(first.newest["mnist-worker-0-uid"], after(-4_900), after(400), after(200))
    late = LogLines({"mnist-worker-0-uid": line}, after(400))
    assert not plan_at(of, 400, log_lines=late).has_condition(C.STALLED)
    silent = LogLines({"mnist-worker-0-uid": new_line(line, after(-4_900), after(430), after(400))}, after(430))
    assert plan_at(of, 430, log_lines=silent).is_true(C.STALLED)


@given(skew=st.floats(-1000, 1000), period=st.floats(1, 29))
def test_no_clock_makes_a_stall_of_a_job_that_logs_within_half_of_its_deadline(skew: float, period: float) -> None:
    of, log_lines, now = job(replicas=1), LogLines(), 0.0
    pod = make_pod("Worker-0")
    for _ in range(12):
        plan = plan_at(of, now, pod, log_lines=log_lines)
        assert not plan.has_condition(C.STALLED)
        if looked_at(plan):
            stamp = after(now // period * period + skew)
            uid = pod.metadata.uid
            newest = {uid: new_line(log_lines.newest.get(uid), stamp, after(now), log_lines.looked)}
            log_lines = LogLines(newest=newest, looked=after(now))
        else:
            now += plan.requeue_after


@given(skew=st.floats(-1000, 0), silent_from=st.floats(0, 100))
def test_a_job_that_falls_silent_has_stalled_within_one_and_a_half_deadlines(skew: float, silent_from: float) -> None:
    of, log_lines, now = job(replicas=1), LogLines(), 0.0
    pod = make_pod("Worker-0")
    while now <= silent_from + 91:
        plan = plan_at(of, now, pod, log_lines=log_lines)
        if plan.has_condition(C.STALLED):
            break
        if looked_at(plan):
            uid = pod.metadata.uid
            line = new_line(
                log_lines.newest.get(uid), after(min(now, silent_from) + skew), after(now), log_lines.looked
            )
            log_lines = LogLines(newest={uid: line}, looked=after(now))
        else:
            now += max(plan.requeue_after, 0.001)
    assert plan.is_true(C.STALLED)
    assert now >= silent_from - 60


# The reaction to a stall.


def stalled_job(of: TFJob, seconds: float, *pods: Pod) -> TFJob:
    """Return the job after its status has shown the stall, which comes before any reaction."""
    plan = plan_at(of, seconds, *pods)
    assert plan.is_true(C.STALLED)
    assert plan.reasons == ["Stalled"]
    assert not plan.changes_objects
    assert not plan.has_condition(C.FAILED)
    assert plan.requeue_after == 1
    return with_status(of, plan.status)


def test_restart_starts_those_that_are_behind_again_and_counts() -> None:
    plan = plan_at(stalled_job(reporting(job(onStall="Restart"), 50, *BEHIND, step=8), 110), 110)
    assert plan.deleted_pods == ["Worker-1"]
    assert plan.write_status_first
    assert plan.status.restarts == 1
    assert plan.status.replica_statuses["Worker"].restart_counts == {"1": 1}
    assert plan.is_true(C.STALLED)
    assert plan.is_true(C.RESTARTING)


def test_after_a_restart_the_clock_starts_anew() -> None:
    of = stalled_job(reporting(job(onStall="Restart"), 50, ReplicaProgress("worker-1", 7, after(20)), step=8), 110)
    of = with_status(of, plan_at(of, 110).status)
    back = plan_at(of, 120, make_pod("Worker-0"), make_pod("Worker-1", restarts_before=1, uid="new"))
    assert back.condition(C.STALLED).status == "False"
    pods = (make_pod("Worker-0"), make_pod("Worker-1", restarts_before=1, uid="new"))
    of = with_status(of, back.status)
    running = with_status(of, plan_at(of, 121, *pods).status)
    assert running.status.conditions[-1].last_transition_time >= after(120)
    assert not plan_at(running, 179, *pods).deleted_pods
    assert plan_at(stalled_job(running, 181, *pods), 181, *pods).deleted_pods == ["Worker-1"]


def test_without_anybody_behind_all_that_train_start_again() -> None:
    spec = make_job({"PS": 1, "Worker": 2}, runPolicy={"progressDeadlineSeconds": 60, "onStall": "Restart"})
    pods = (make_pod("PS-0"), *WORKERS)
    of = reporting(with_status(spec, planned(spec, *pods).status), 50)
    assert plan_at(stalled_job(of, 110, *pods), 110, *pods).deleted_pods == ["Worker-0", "Worker-1"]


def test_one_stall_of_several_replicas_counts_once_for_the_backoff_limit_and_the_next_one_counts_again() -> None:
    of = stalled_job(reporting(job(onStall="Restart", backoffLimit=1), 50), 110)
    first = plan_at(of, 110)
    assert first.deleted_pods == ["Worker-0", "Worker-1"]
    assert first.write_status_first
    status = first.status
    assert (status.restarts, status.shared_restarts, status.disruptions) == (2, 1, 0)
    assert status.replica_statuses["Worker"].restart_counts == {"0": 1, "1": 1}
    of = with_status(of, status)
    again = plan_at(of, 111)
    assert (again.deleted_pods, again.status.shared_restarts) == (["Worker-0", "Worker-1"], 1), "looked at twice"
    pods = tuple(make_pod(f"Worker-{index}", restarts_before=1, uid=f"new-{index}") for index in range(2))
    for at in (120, 121):
        of = with_status(of, plan_at(of, at, *pods).status)
    failed = plan_at(stalled_job(of, 181, *pods), 181, *pods)
    assert failed.is_true(C.FAILED)
    assert (failed.status.restarts, failed.status.shared_restarts) == (2, 1), "the second stall restarts nothing"


def test_a_failure_beside_a_stall_counts_for_itself() -> None:
    spec = {"enableDynamicWorker": True}
    wanted = {"progressDeadlineSeconds": 60, "onStall": "Restart", "backoffLimit": 1}
    of = make_job({"Worker": {"replicas": 3, "restartPolicy": "OnFailure"}}, runPolicy=wanted, **spec)
    pods = tuple(make_pod(f"Worker-{index}") for index in range(3))
    of = reporting(with_status(of, planned(of, *pods).status), 50)
    of = stalled_job(of, 110, *pods)
    ended = (*pods[:2], make_pod("Worker-2", "Failed", exit_code=137))
    assert plan_at(of, 110, *ended).is_true(C.FAILED), "a stall and a failure"
    assert not plan_at(of, 110, *pods).is_true(C.FAILED)


@pytest.mark.parametrize("scope", ["Replica", "Job"])
def test_restarts_of_stalls_are_bounded_by_the_backoff_limit(scope: str) -> None:
    of = reporting(job(onStall="Restart", restartScope=scope, backoffLimit=0), 50)
    plan = plan_at(stalled_job(of, 110), 110)
    assert plan.is_true(C.FAILED)
    failed = plan.condition(C.FAILED)
    assert failed.reason == "ProgressDeadlineExceeded"
    assert "it has reached the specified backoff limit. TFJob ns/mnist has made no progress for 1m" in failed.message


@pytest.mark.parametrize("on_stall", ["Restart", "Fail"])
def test_stacks_are_taken_before_a_stall_is_ended_but_not_waited_for_for_ever(on_stall: str) -> None:
    of = reporting(job(onStall=on_stall), 50)
    first = plan_at(of, 110, stacks_taken=NEVER)
    assert taken_of(first) == ["mnist-worker-0", "mnist-worker-1"]
    assert first.is_true(C.STALLED)
    assert not first.changes_objects
    of = with_status(of, first.status)
    waits = plan_at(of, 112, stacks_taken=NEVER)
    assert not waits.changes_objects
    assert waits.requeue_after == STACKS_TIMEOUT - 2
    assert plan_at(of, 112, stacks_taken=after(111)).changes_objects
    assert plan_at(of, 140, stacks_taken=NEVER).changes_objects


def test_a_job_whose_time_is_over_ends_when_its_stacks_are_taken() -> None:
    of = job(None, activeDeadlineSeconds=100)
    assert taken_of(plan_at(of, 99, stacks_taken=NEVER)) == []
    first = plan_at(of, 101, stacks_taken=NEVER)
    assert taken_of(first) == ["mnist-worker-0", "mnist-worker-1"]
    assert first.requeue_after == 29
    assert not first.changes_objects
    assert not first.has_condition(C.FAILED)
    for stacks_taken, seconds in ((after(100), 102), (NEVER, 130), (None, 101)):
        ended = plan_at(of, seconds, stacks_taken=stacks_taken)
        assert ended.is_true(C.FAILED)
        assert "active longer than specified deadline" in ended.condition(C.FAILED).message
        assert taken_of(ended) == []
    waiting = make_pod("Worker-0", "Pending"), make_pod("Worker-1", "Pending")
    plan = plan_at(of, 101, *waiting, stacks_taken=NEVER)
    assert (plan.is_true(C.FAILED), taken_of(plan)) == (True, []), "it does not run"
