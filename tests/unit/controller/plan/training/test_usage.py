"""The phases of a job's time, seen by any operator: by one process, or by a new process for each change."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.controller.builders import OPTIONS, after, make_job, make_pod, with_status
from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.api.v1.status import JobUsage, ResourceUsage, TFJobStatus, UsagePhase
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.decide import plan
from tfoperator.controller.plan.replicas.held_resources import resources_until
from tfoperator.controller.plan.values.observed import Observed, QueueGate
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
)

REQUESTS = '{"containers":[{"resources":{"requests":{"cpu":"500m","memory":"2Gi"},"limits":{"nvidia.com/gpu":1}}}]}'
WORKERS = {"Worker": {"replicas": 2, "restartPolicy": "OnFailure"}}


def worker(index: int, *, bound: float | None = 0, began: float | None = None, ended: float | None = None,
           code: int = 1, last: float | None = None, **more: Any) -> Pod:  # fmt: skip
    """Return a worker's pod, by the seconds after NOW at which its kubelet reports that something happened."""
    state = ContainerState()
    if ended is not None:
        state = ContainerState(terminated=ContainerStateTerminated(code, "", "", after(ended), after(began or 0)))
    elif began is not None:
        state = ContainerState(running=ContainerStateRunning(after(began)))
    before = None if last is None else ContainerState(terminated=ContainerStateTerminated(1, "", "", after(last)))
    status = ContainerStatus("tensorflow", began is not None, int(last is not None), state, before)
    phase = "Pending" if began is None else "Running" if ended is None else "Failed" if code else "Succeeded"
    pod = make_pod(
        f"Worker-{index}",
        phase,
        containers=(status,) if began is not None else (),
        start=None if bound is None else after(bound),
        node="node-1" if bound is not None else "",
        **more,
    )
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, requests=REQUESTS))


def both(**times: Any) -> tuple[Pod, ...]:
    return (worker(0, **times), worker(1, **times))


class Life:
    """A job, and the operators that see it; `forgets`: each sync is by another process, which knows the status alone.

    The newest status is written if the plan asks for that, as an operator does.
    """

    def __init__(self, *, forgets: bool, job: TFJob | None = None) -> None:
        self.job = job or make_job(WORKERS)
        self.forgets = forgets
        self.usage: JobUsage | None = None
        self.progress: TrainingProgress | None = None

    def sync(self, at: float, *pods: Pod, gate: QueueGate | None = None, **spec: Any) -> None:
        if spec:
            policy = msgspec.structs.replace(self.job.spec, **spec)
            self.job = msgspec.structs.replace(self.job, spec=policy)
        status = self.job.status
        if self.progress is not None:
            self.job = with_status(self.job, msgspec.structs.replace(status, progress=self.progress))
        observed = Observed(self.job, pods, gate=gate, usage=None if self.forgets else self.usage)
        planned = plan(observed, after(at), OPTIONS)
        self.usage = planned.status.usage
        if planned.write_status or planned.write_status_first:
            self.job = with_status(self.job, planned.status)

    def report(self, at: float, step: int | None = None, percentage: int | None = None) -> None:
        """The program reports; what this process knows of the usage is written with the report before."""
        if self.progress is not None:
            self.job = with_status(self.job, msgspec.structs.replace(self.job.status, usage=self.usage))
        self.progress = TrainingProgress(step=step, percentage=percentage, last_updated_time=after(at))

    def seconds(self, at: float) -> dict[str, int]:
        return self.usage.until(after(at))


eyes = pytest.mark.parametrize("forgets", [False, True], ids=["one process", "a new one each time"])


@eyes
def test_without_reports_the_lives_of_pods_tell(forgets: bool) -> None:
    life = Life(forgets=forgets)
    life.sync(2)
    life.sync(4, *both(bound=None))
    life.sync(21, *both(bound=12))
    life.sync(40, worker(0, bound=12, began=30), worker(1, bound=12))
    life.sync(60, worker(0, bound=12, began=30), worker(1, bound=12, began=42))
    assert life.seconds(100) == {"queued": 2, "scheduling": 10, "starting": 30, "training": 58} or forgets
    life.sync(130, worker(0, bound=12, began=30), worker(1, bound=12, began=42, ended=122))
    assert life.job.status.usage == life.usage
    life.sync(140, worker(0, bound=12, began=30), worker(1, bound=135, began=138, restarts_before=1))
    life.sync(238, worker(0, bound=12, began=30, ended=238, code=0), worker(1, bound=135, began=138, restarts_before=1))
    seconds = {"queued": 2, "scheduling": 10, "starting": 30, "training": 180, "lost": 16}
    assert (life.seconds(9999), life.job.status.usage.source) == (seconds, "Pods")
    assert life.job.status.usage.goodput == f"{100 * 180 // 238}%"


@eyes
def test_with_reports_training_is_what_comes_further_than_before(forgets: bool) -> None:
    life = Life(forgets=forgets)
    life.sync(0)
    life.sync(10, *both(bound=5, began=8))
    life.report(30, step=0)
    life.sync(31, *both(bound=5, began=8))
    life.report(100, step=70)
    life.sync(101, *both(bound=5, began=8))
    assert life.seconds(101) == {"scheduling": 5, "starting": 25, "training": 71}
    # Worker 1 is lost; the last words of worker 0 come after that.
    life.sync(110, worker(0, bound=5, began=8), worker(1, bound=5, began=8, ended=108))
    life.report(112, step=78)
    again = (worker(0, bound=5, began=8), worker(1, bound=111, began=115, restarts_before=1))
    life.sync(116, *again)
    life.report(130, step=50)
    life.sync(131, *again)
    life.report(158, step=78)
    life.sync(159, *again)
    assert life.seconds(159) == {"scheduling": 5, "starting": 25, "training": 78, "lost": 51}
    life.report(160, step=80)
    life.sync(161, *again)
    assert life.seconds(200) == {"scheduling": 5, "starting": 25, "training": 118, "lost": 52}
    # The program goes back without a reported loss: the steps since its furthest step are done again.
    life.report(210, step=60)
    life.sync(211, *again)
    assert life.seconds(220)["lost"] == 52 + 60


@pytest.mark.parametrize(
    ("pods", "left"),
    [(both(bound=5, began=8, ended=50, code=0), {"training": 42}), (both(bound=5, began=8), {"training": 92})],
    ids=["and comes again", "of an older state of the job, which goes on"],
)
def test_an_end_that_the_server_has_refused(pods: tuple[Pod, ...], left: dict[str, int]) -> None:
    life = Life(forgets=False)
    life.sync(10, *both(bound=5, began=8))
    before = life.job
    life.sync(51, *both(bound=5, began=8, ended=50, code=0))
    life.job = before
    life.sync(53, *pods)
    assert life.job.status.usage.until(after(100)) == life.seconds(100)
    assert life.seconds(100) == {"scheduling": 5, "starting": 3, **left}


def test_percent_tell_where_no_steps_do() -> None:
    life = Life(forgets=False)
    life.report(5, percentage=10)  # in the second in which their pods were made
    life.sync(20, *both(bound=5, began=5, created=after(5)))
    life.sync(50, worker(0, bound=5, began=8), worker(1, bound=40, began=45, restarts_before=1))
    life.report(70, percentage=10)
    life.sync(70, *both(bound=5, began=8))
    life.report(80, percentage=11)
    life.sync(80, *both(bound=5, began=8))
    assert life.seconds(80) == {"queued": 5, "training": 45, "lost": 30}


@eyes
def test_a_suspended_job_begins_again_and_what_it_did_before_and_does_again_is_lost(forgets: bool) -> None:
    life = Life(forgets=forgets)
    life.sync(0)
    life.report(20, step=1)
    life.sync(20, *both(bound=5, began=8))
    life.report(50, step=31)
    life.sync(50, *both(bound=5, began=8))
    for at, suspend in ((60, True), (90, False)):
        life.sync(at, run_policy=msgspec.structs.replace(life.job.spec.run_policy, suspend=suspend))
    life.sync(95, *both(bound=92, began=94, created=after(90)))
    life.report(100, step=20)
    life.sync(100, *both(bound=92, began=94, created=after(90)))
    life.report(112, step=32)
    life.sync(112, *both(bound=92, began=94, created=after(90)))
    assert life.seconds(120) == {
        "scheduling": 7, "starting": 15 + 8, "training": 48, "lost": 12, "suspended": 30
    }  # fmt: skip


def test_a_job_that_waits_in_a_queue_is_queued_and_one_that_its_user_suspends_is_suspended() -> None:
    waiting = QueueGate("Pending", "no quota")
    queued = Life(forgets=False)
    queued.sync(10, gate=waiting)
    assert queued.seconds(60) == {"queued": 60}
    queued.sync(60, gate=QueueGate("Admitted", "cluster-queue", admitted=True))
    assert queued.seconds(61) == {"queued": 60, "scheduling": 1}
    suspended = Life(forgets=False, job=make_job(WORKERS, runPolicy={"suspend": True}))
    suspended.sync(10)
    assert suspended.seconds(60) == {"queued": 10, "suspended": 50}


def test_a_stall_begins_with_the_silence() -> None:
    life = Life(forgets=False, job=make_job(WORKERS, runPolicy={"progressDeadlineSeconds": 30}))
    life.sync(0)
    life.report(20, step=1)
    for at in (20, 22):
        life.sync(at, *both(bound=5, began=8))
    life.report(50, step=2)
    life.sync(51, *both(bound=5, began=8))
    life.sync(81, *both(bound=5, began=8))
    assert life.seconds(90) == {"scheduling": 5, "starting": 15, "training": 30, "stalled": 40}
    life.report(95, step=3)
    life.sync(95, *both(bound=5, began=8))
    assert life.seconds(100)["stalled"] == 45


def test_workers_that_come_and_go_lose_nothing_and_more_workers_are_no_new_start() -> None:
    elastic = Life(forgets=False, job=make_job(WORKERS, enableDynamicWorker=True))
    elastic.sync(0)
    elastic.sync(10, worker(0, bound=5, began=8), worker(1, bound=5))
    elastic.sync(60, worker(0, bound=5, began=8), worker(1, bound=5, began=9, ended=60))
    assert elastic.seconds(100) == {"scheduling": 5, "starting": 3, "training": 92}
    grown = Life(forgets=False, job=make_job({"Worker": 3}))
    grown.sync(0)
    grown.sync(10, *both(bound=5, began=8), worker(2, bound=5, began=8))
    grown.sync(20, *both(bound=5, began=8), worker(2, bound=5, began=8), worker(3, bound=None))
    assert grown.seconds(30)["training"] == 22


@eyes
def test_resources_are_held_from_the_node_to_the_end(forgets: bool) -> None:
    life = Life(forgets=forgets)
    life.sync(0)
    life.sync(30, worker(0, bound=10, began=20), worker(1, bound=15, began=25))
    life.sync(130, worker(0, bound=10, began=20), worker(1, bound=15, began=25, ended=125))
    life.sync(150, worker(0, bound=10, began=20), worker(1, bound=140, began=145, restarts_before=1))
    resources = life.usage.resources_until(after(200))
    on_nodes, trained = 190 + 110 + 60, 2 * (100 + 55)
    if not forgets:
        assert resources["cpu"] == ResourceUsage(1.0, on_nodes / 2, trained / 2)
        assert resources["memory"] == ResourceUsage(4.0 * 2**30, on_nodes * 2.0**31, trained * 2.0**31)
    assert resources["nvidia.com/gpu"] == ResourceUsage(2.0, on_nodes, trained)
    ends = (worker(0, bound=10, began=20, ended=200, code=0), worker(1, bound=140, began=145, restarts_before=1))
    life.sync(200, *ends)
    assert life.usage.resources_until(after(5000))["nvidia.com/gpu"] == ResourceUsage(0.0, on_nodes, trained)


def test_what_an_older_operator_held_without_a_record_is_not_added_up() -> None:
    usage, pods = JobUsage(resources_since=after(100)), [worker(0, bound=5, began=10)]
    resources = resources_until(usage, [(UsagePhase.TRAINING, after(10))], {"cpu": 0.5}, pods, after(200))
    assert resources == {"cpu": ResourceUsage(0.5, 0.0, 0.0)}


times = st.none() | st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1)).map(lambda time: time.replace(tzinfo=UTC))
numbers = st.integers(-(2**62), 2**62)
amounts = st.floats(allow_nan=False, allow_infinity=False)
hostile = st.builds(
    JobUsage,
    phase=st.sampled_from([*map(str, UsagePhase), "", "x"]),
    since=times,
    seconds=st.dictionaries(st.sampled_from([*map(str, UsagePhase), "x"]), numbers, max_size=4),
    source=st.sampled_from(["", "Reports", "Pods"]),
    step=st.none() | numbers,
    restarts=numbers,
    resources=st.dictionaries(st.text(max_size=3), st.builds(ResourceUsage, amounts, amounts, amounts), max_size=20),
    resources_since=times,
)
reports = st.none() | st.builds(
    TrainingProgress, step=st.none() | st.integers(0, 2**53), percentage=st.none() | st.integers(0, 100),
    last_updated_time=times,
)  # fmt: skip
pods = st.lists(
    st.builds(
        worker,
        st.integers(0, 3),
        bound=st.none() | st.integers(-(10**9), 10**9),
        began=st.none() | st.integers(-(10**9), 10**9),
        ended=st.none() | st.integers(-(10**9), 10**9),
        code=st.integers(0, 1),
        last=st.none() | st.integers(-(10**9), 10**9),
    ),
    max_size=3,
)


@given(hostile, reports, pods, st.integers(0, 10**6))
def test_whatever_was_written_or_reported_sums_are_finite_and_grow(
    before: JobUsage, progress: TrainingProgress | None, pods: list[Pod], at: int
) -> None:
    status = TFJobStatus(usage=before, progress=progress)
    planned = plan(Observed(make_job(WORKERS, status=status), tuple(pods)), after(at), OPTIONS)
    usage = planned.status.usage
    text = msgspec.json.encode(usage)
    assert b"null" not in text.replace(b'"since":null', b"")
    assert msgspec.json.decode(text, type=JobUsage) == usage
    assert all(0 <= seconds < 2**63 for seconds in usage.until(after(at + 10**6)).values())
    percent = usage.goodput_at(after(at))
    assert percent is None or 0 <= percent <= 100
    assert len(usage.resources) <= 20


@given(st.lists(st.tuples(st.integers(0, 100), pods, reports), max_size=6))
def test_the_sums_are_all_of_the_time(changes: list[tuple[int, list[Pod], TrainingProgress | None]]) -> None:
    life, at = Life(forgets=False, job=make_job(WORKERS, runPolicy={"backoffLimit": 1000})), 0
    sums: dict[str, float] = {}
    for passed, current_pods, progress in changes:
        at += passed
        life.progress = progress
        life.sync(at, *current_pods)
        if life.usage is None or not life.usage.phase:
            return
        assert sum(life.seconds(at).values()) == at
        now = {name: resource.requested_seconds for name, resource in life.usage.resources.items()}
        assert all(now[name] >= amount for name, amount in sums.items())
        assert all(
            resource.trained_seconds <= resource.requested_seconds + 1 for resource in life.usage.resources.values()
        )
        sums = now


def test_a_clock_that_goes_back_takes_nothing_back() -> None:
    life = Life(forgets=False)
    life.sync(0)
    life.sync(100, *both(bound=5, began=8))
    life.sync(-7200, *both(bound=5, began=8))
    life.sync(150, *both(bound=5, began=8))
    assert life.seconds(150) == {"scheduling": 5, "starting": 3, "training": 142}
