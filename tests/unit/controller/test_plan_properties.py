"""What holds for `plan()` in every world: it converges, repeats nothing, and keeps an honest account."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.controller.builders import acts, make_job, make_pod, planned, services_of, started
from tests.unit.controller.world import View, World
from tfoperator.api.defaults import default
from tfoperator.api.indexes import parse_indexes
from tfoperator.api.names import ANNOTATION_RESTARTS, LABEL_REPLICA_INDEX, LABEL_REPLICA_TYPE, replica_of
from tfoperator.api.v1.types import ConditionType, RestartPolicy, decode_tfjob
from tfoperator.controller.conditions import is_finished
from tfoperator.controller.draft import MAX_REQUEUE
from tfoperator.controller.naming import NAMINGS
from tfoperator.controller.plan import DeleteReason, Observed, Plan, PlanOptions, plan
from tfoperator.controller.restart import ending_of, is_permanent
from tfoperator.controller.status_patch import status_patch
from tfoperator.kube.objects import Pod

POLICIES = st.sampled_from(["Never", "OnFailure", "Always", "ExitCode"])
RETRYING = st.sampled_from(["OnFailure", "Always", "ExitCode"])
PICK = st.integers(0, 1000)
LAG = st.integers(0, 6)

SHAPES = st.fixed_dictionaries(
    {},
    optional={
        "Chief": st.integers(0, 1),
        "PS": st.integers(0, 2),
        "Worker": st.integers(0, 3),
        "Evaluator": st.integers(0, 1),
    },
)


SHARES = st.integers(1, 4) | st.sampled_from(["1%", "34%", "50%", "67%", "100%"])
THRESHOLDS = st.just({}) | st.fixed_dictionaries(
    {}, optional={"minSucceededWorkers": SHARES, "maxFailedWorkers": SHARES | st.sampled_from([0, "0%"])}
)


@st.composite
def worlds(draw: st.DrawFn, policies: st.SearchStrategy[str] = POLICIES) -> World:
    replicas = {key: {"replicas": count, "restartPolicy": draw(policies)} for key, count in draw(SHAPES).items()}
    run_policy: dict[str, Any] = {"cleanPodPolicy": draw(st.sampled_from(["All", "Running", "None"]))}
    if draw(st.booleans()):
        run_policy["backoffLimit"] = draw(st.integers(0, 6))
    if draw(st.integers(0, 3)) == 0:
        run_policy["activeDeadlineSeconds"] = draw(st.integers(0, 600))
    if draw(st.integers(0, 3)) == 0:
        run_policy["ttlSecondsAfterFinished"] = draw(st.integers(0, 600))
    thresholds = draw(THRESHOLDS)
    job = make_job(
        replicas or {"Worker": 2},
        **thresholds,
        runPolicy=run_policy,
        successPolicy=draw(st.sampled_from(["", "AllWorkers"])),
        enableDynamicWorker=draw(st.booleans()),
    )
    naming = draw(st.sampled_from(NAMINGS))
    return World(job, PlanOptions(restart_delay_base=draw(st.sampled_from([0.0, 1.0, 30.0])), object_name=naming))


def check_plan(result: Plan, view: View) -> None:
    """What must be true of any single plan, however old the view that it was made from."""
    creates = Counter((create.replica_type, create.index) for create in result.create_pods)
    assert all(count == 1 for count in creates.values()), "two pods of one index"
    present = {replica_of(pod.metadata.labels) for pod in view.pods}
    assert not present & creates.keys(), "a pod for an index that has one"
    done = {
        (key, index)
        for key, status in view.job.status.replica_statuses.items()
        for index in parse_indexes(status.completed_indexes)
    }
    assert not done & creates.keys(), "a completed replica runs again"
    assert len({d.uid for d in result.delete_pods}) == len(result.delete_pods)
    assert result.requeue_after is None or 0 <= result.requeue_after <= MAX_REQUEUE

    check_memory(result, view)
    check_thresholds(result, view)
    conditions = {c.type: c for c in result.status.conditions}
    assert len(conditions) == len(result.status.conditions), "a condition twice"
    both = {"Succeeded", "Failed"} <= {kind for kind, c in conditions.items() if c.status == "True"}
    assert not both, "succeeded and failed"
    if conditions:
        last = result.status.conditions[-1]
        assert last.status == "True", last
        assert last.type != "Ready"

    before = view.job.status
    if is_finished(before.conditions):
        assert not result.create_pods
        assert not result.create_services
        assert result.status == before, "a finished job never changes"
    if result.write_status_first:
        assert result.write_status
    restarted = {d.uid for d in result.delete_pods if d.reason is DeleteReason.RESTART}
    for pod in view.pods:
        spec = view.job.spec.tf_replica_specs.get(replica_of(pod.metadata.labels)[0])
        if pod.status.phase == "Failed" and spec is not None and pod.metadata.uid in restarted:
            assert not is_permanent(ending_of(pod), RestartPolicy(spec.restart_policy)), "a permanent failure restarted"


def check_memory(result: Plan, view: View) -> None:
    """What has ended is not forgotten: completed indexes never, failed ones not as long as the type has them."""
    creates = {(create.replica_type, create.index) for create in result.create_pods}
    for key, before in view.job.status.replica_statuses.items():
        spec, after = view.job.spec.tf_replica_specs.get(key), result.status.replica_statuses.get(key)
        if spec is None or after is None:
            continue
        assert parse_indexes(before.completed_indexes) <= parse_indexes(after.completed_indexes)
        failed = {index for index in parse_indexes(before.failed_indexes) if index < (spec.replicas or 0)}
        assert failed <= parse_indexes(after.failed_indexes)
        assert not {(key, index) for index in failed} & creates, "a replica that failed for good runs again"


def check_thresholds(result: Plan, view: View) -> None:
    """So many workers as must have succeeded have, if and only if the job has; and no more have failed than may."""
    spec = view.job.spec
    worker, status = spec.tf_replica_specs.get("Worker"), result.status.replica_statuses.get("Worker")
    if worker is None or not worker.replicas or status is None or is_finished(view.job.status.conditions):
        return
    size = worker.replicas
    ends = {c.type for c in result.status.conditions if c.status == "True"} & {"Succeeded", "Failed"}
    succeeded = sum(index < size for index in parse_indexes(status.completed_indexes))
    failed = len(parse_indexes(status.failed_indexes))
    if spec.min_succeeded_workers is not None:
        needed = min(of(spec.min_succeeded_workers, size, math.ceil), size)
        assert (succeeded >= needed) == ("Succeeded" in ends)
        assert ends or size - failed >= needed, "success is out of reach"
    if spec.max_failed_workers is not None:
        assert ends or failed <= of(spec.max_failed_workers, size, math.floor)
    elif not spec.enable_dynamic_worker:
        assert ends or not failed


def of(share: int | str, total: int, rounded: Callable[[Fraction], int]) -> int:
    return share if isinstance(share, int) else rounded(Fraction(int(share.rstrip("%")) * total, 100))


def settle(world: World, *, finish: bool = False) -> None:
    """Let the world calm down: nothing gets lost any more, time passes, pods do as they are told."""
    world.drop.clear()
    for _ in range(120):
        for name in list(world.pods):
            if world.pods[name].metadata.deletion_timestamp is not None:
                world.gone(name)
            else:
                world.run(name)
                if finish and world.pods[name].status.phase == "Running":
                    world.succeed(name)
        result = quiesce(world)
        pending = any(
            p.metadata.deletion_timestamp is not None or p.status.phase == "Pending" for p in world.pods.values()
        )
        if world.job_deleted or (not pending and result.requeue_after is None):
            return
        world.tick(min(result.requeue_after or 1.0, 400.0) + 0.001)
        if not pending and (result.requeue_after or 0) > 400:
            return
    raise AssertionError("the world does not come to rest")


def quiesce(world: World) -> Plan:
    """Sync without anything else happening until there is nothing to do; that must be soon."""
    for _ in range(12):
        view = world.look()
        result = world.sync()
        check_plan(result, view)
        if world.job_deleted or not acts(result):
            return result
    raise AssertionError(f"the operator keeps acting on a world that stands still: {result}")


class Worlds(RuleBasedStateMachine):
    """Random lives of a job under an unkind API server."""

    world: World

    @initialize(world=worlds())
    def begin(self, world: World) -> None:
        self.world = world

    def pod(self, pick: int) -> str:
        names = sorted(self.world.pods)
        return names[pick % len(names)]

    def has_pods(self) -> bool:
        return bool(self.world.pods)

    @rule(lag=LAG, drop=st.sets(st.sampled_from(["status", "create", "delete"]), max_size=2))
    def sync(self, lag: int, drop: set[str]) -> None:
        if self.world.job_deleted:
            return
        view = self.world.look(lag)
        was_finished, before = self.world.finished, self.world.job.status
        self.world.drop = drop
        check_plan(self.world.sync(lag), view)
        self.world.drop = set()
        if was_finished:
            assert self.world.job.status == before

    @rule()
    def sync_twice(self) -> None:
        if not self.world.job_deleted:
            quiesce(self.world)

    @rule(pick=PICK)
    @precondition(has_pods)
    def run(self, pick: int) -> None:
        self.world.run(self.pod(pick))

    @rule()
    def run_all(self) -> None:
        for name in list(self.world.pods):
            self.world.run(name)

    @rule(pick=PICK, code=st.sampled_from([0, 0, 1, 127, 128, 137, 255]))
    @precondition(has_pods)
    def exit(self, pick: int, code: int) -> None:
        self.world.exit(self.pod(pick), code)

    @rule(pick=PICK, how=st.sampled_from(["kill", "vanish", "evict", "lose_node", "gone", "gone", "duplicate"]))
    @precondition(has_pods)
    def happen(self, pick: int, how: str) -> None:
        getattr(self.world, how)(self.pod(pick))

    @rule(pick=PICK)
    def lose_service(self, pick: int) -> None:
        names = sorted(self.world.services)
        if names:
            self.world.delete_service(names[pick % len(names)])

    @rule(kind=st.sampled_from(["Worker", "PS"]), replicas=st.integers(0, 4))
    def scale(self, kind: str, replicas: int) -> None:
        if kind in self.world.job.spec.tf_replica_specs:
            self.world.scale(kind, replicas)

    @rule(on=st.booleans())
    def suspend(self, on: bool) -> None:
        self.world.suspend(on)

    @rule(seconds=st.sampled_from([0.3, 1.0, 7.0, 60.0, 700.0]))
    def wait(self, seconds: float) -> None:
        self.world.tick(seconds)

    @rule(seconds=st.integers(-4000, 4000))
    def clock_jumps(self, seconds: int) -> None:
        self.world.tick(seconds)

    @invariant()
    def never_counts_more_restarts_than_there_were(self) -> None:
        if hasattr(self, "world"):
            for replica, count in self.world.counted().items():
                assert count <= self.world.losses[replica], (replica, count, self.world.losses)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        world.suspend(False)
        settle(world)
        assert_settled(world)


def assert_settled(world: World) -> None:
    """A world at rest is what the spec asks for, or the job is over."""
    if world.job_deleted:
        return
    if world.finished:
        assert world.job.status.completion_time is not None
        assert not (world.holds(ConditionType.SUCCEEDED) and world.holds(ConditionType.FAILED))
        if world.holds(ConditionType.FAILED):
            active = [p for p in world.pods.values() if p.status.phase in ("Pending", "Running")]
            assert not active, "a failed job stops the others"
        return
    wanted = {
        (key, index)
        for key, spec in world.job.spec.tf_replica_specs.items()
        for index in range(spec.replicas)
        if index not in world.completed(key)
    }
    alive = Counter(world.replica(pod) for pod in world.pods.values() if pod.status.phase == "Running")
    wanted -= {("Worker", index) for index in world.failed("Worker")}
    assert set(alive) >= wanted, (wanted, alive)
    assert all(count == 1 for count in alive.values())
    services = {replica_of(service.metadata.labels) for service in world.services.values()}
    assert services >= wanted
    assert world.job.status.restarts == sum(world.counted().values())


Worlds.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestWorlds = Worlds.TestCase


EVENTS = st.lists(
    st.tuples(PICK, st.sampled_from(["kill", "vanish", "evict", "lose_node", "exit-1", "exit-137", "exit-137"])),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(policy=RETRYING, replicas=st.integers(1, 3), events=EVENTS)
def test_restarts_are_counted_exactly_once_when_the_operator_sees_each_loss(
    policy: str, replicas: int, events: list[tuple[int, str]]
) -> None:
    job = make_job({"Worker": {"replicas": replicas, "restartPolicy": policy}, "PS": 1})
    world = World(job)
    settle(world)
    for pick, event in events:
        names = sorted(name for name in world.pods if "worker" in name)
        name = names[pick % len(names)]
        if event.startswith("exit"):
            code = int(event.removeprefix("exit-"))
            if policy == "ExitCode" and code < 128:
                continue
            world.exit(name, code)
        else:
            getattr(world, event)(name)
        quiesce(world)
        settle(world)
    assert not world.finished
    assert world.counted() == world.losses
    assert world.job.status.restarts == world.losses.total()


@settings(max_examples=60, deadline=None)
@given(world=worlds(RETRYING), lags=st.lists(LAG, max_size=10))
def test_a_job_whose_pods_all_succeed_succeeds(world: World, lags: list[int]) -> None:
    policy = world.job.spec.run_policy
    assert policy is not None
    endless = msgspec.structs.replace(policy, active_deadline_seconds=None, ttl_seconds_after_finished=None)
    world.edit(run_policy=endless)
    for lag in lags:
        world.sync(lag)
    settle(world, finish=True)
    replicas = sum(spec.replicas for spec in world.job.spec.tf_replica_specs.values())
    decisive = [spec.replicas for key, spec in world.job.spec.tf_replica_specs.items() if key in ("Chief", "Worker")]
    if replicas and (any(decisive) or not decisive):
        assert world.holds(ConditionType.SUCCEEDED), world.job.status
        assert not world.holds(ConditionType.FAILED)


@settings(max_examples=300, deadline=None)
@given(
    phases=st.lists(st.sampled_from(["Succeeded", "Succeeded", "Failed", "Running"]), min_size=1, max_size=7),
    chief=st.sampled_from(["", "Running", "Failed"]),
    thresholds=THRESHOLDS,
    dynamic=st.booleans(),
)
def test_a_glance_at_the_workers_is_enough_for_the_thresholds(
    phases: list[str], chief: str, thresholds: dict[str, Any], dynamic: bool
) -> None:
    replicas = {"Worker": len(phases), "Chief": 1} if chief else {"Worker": len(phases)}
    job = started(make_job(replicas, enableDynamicWorker=dynamic, **thresholds))
    pods = [make_pod(f"Worker-{i}", phase, exit_code=int(phase == "Failed")) for i, phase in enumerate(phases)]
    pods += [make_pod("Chief-0", chief, exit_code=1)] if chief else []
    view = View(job, tuple(pods), services_of(job))
    check_plan(planned(job, *pods), view)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
REPLICA = JUNK | st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(-3, 10**12) | st.integers(0, 3),
        "restartPolicy": st.sampled_from(["", "Never", "ExitCode", "nonsense"]),
        "template": JUNK
        | st.fixed_dictionaries(
            {},
            optional={
                "metadata": JUNK,
                "spec": st.fixed_dictionaries(
                    {"containers": JUNK | st.just([{"name": "tensorflow"}, {}]) | st.lists(JUNK, max_size=2)},
                    optional={"restartPolicy": JUNK},
                ),
            },
        ),
    },
)
REPLICA_STATUS = st.fixed_dictionaries(
    {},
    optional={
        "restartCounts": st.dictionaries(st.text("0123456789-x", max_size=4), st.integers(-5, 10**9), max_size=3),
        "completedIndexes": st.text("0123456789-,", max_size=9),
        "failedIndexes": st.text("0123456789-,", max_size=9),
        "startedIndexes": st.text("0123456789-,", max_size=9),
    },
)
WHEN = st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat) | st.datetimes().map(datetime.isoformat)
JOBS = st.fixed_dictionaries(
    {
        "metadata": st.just({"name": "mnist", "namespace": "ns", "uid": "job-uid"}),
        "spec": JUNK
        | st.fixed_dictionaries(
            {"tfReplicaSpecs": st.dictionaries(st.sampled_from(["PS", "Worker", "chief", "Chief", "x"]), REPLICA)},
            optional={
                "minSucceededWorkers": JUNK | SHARES,
                "maxFailedWorkers": JUNK | SHARES,
                "runPolicy": st.fixed_dictionaries(
                    {},
                    optional={
                        "backoffLimit": st.integers(-5, 10**30),
                        "activeDeadlineSeconds": st.integers(-(10**25), 10**25),
                        "ttlSecondsAfterFinished": st.integers(-(10**25), 10**25),
                        "cleanPodPolicy": st.text(max_size=4),
                        "suspend": st.booleans(),
                        "managedBy": st.sampled_from(["", "kubeflow.org/training-operator", "someone"]),
                    },
                ),
            },
        ),
    },
    optional={
        "status": st.fixed_dictionaries(
            {},
            optional={
                "startTime": WHEN,
                "completionTime": WHEN,
                "replicaStatuses": st.dictionaries(st.sampled_from(["PS", "Worker", "x"]), REPLICA_STATUS, max_size=2),
                "conditions": st.lists(
                    st.fixed_dictionaries(
                        {
                            "type": st.sampled_from([*ConditionType, "Odd"]),
                            "status": st.sampled_from(["True", "False", "Unknown", ""]),
                        }
                    ),
                    max_size=4,
                ),
            },
        )
    },
)
LABELS = st.fixed_dictionaries(
    {},
    optional={
        LABEL_REPLICA_TYPE: st.sampled_from(["worker", "ps", "WORKER", "junk", ""]),
        LABEL_REPLICA_INDEX: st.sampled_from(["0", "1", "-1", "01", "x", "", "2147483646", "9" * 30]),
    },
)
PODS = st.lists(
    st.builds(
        lambda labels, phase, restarts, deleted, code, name: {
            "metadata": {
                "name": name,
                "uid": name,
                "labels": labels,
                "annotations": {ANNOTATION_RESTARTS: restarts},
                **({"deletionTimestamp": deleted} if deleted else {}),
            },
            "status": {
                "phase": phase,
                "containerStatuses": [{"name": "c", "restartCount": code, "state": {"terminated": {"exitCode": code}}}],
            },
        },
        LABELS,
        st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed", "Unknown", "odd"]),
        st.sampled_from(["", "3", "-3", "x", "9" * 40, "٣"]),
        st.none() | WHEN,
        st.integers(-(10**12), 10**12),
        st.text("abc", min_size=1, max_size=2),
    ),
    max_size=4,
)


@settings(max_examples=400, deadline=None)
@given(
    manifest=JOBS,
    pods=PODS,
    problems=st.lists(st.text(max_size=9), max_size=1),
    now=st.datetimes(timezones=st.just(UTC)),
)
def test_no_job_and_no_pod_makes_it_raise_or_loop(
    manifest: dict[str, Any], pods: list[dict[str, Any]], problems: list[str], now: datetime
) -> None:
    job = default(decode_tfjob(msgspec.json.encode(manifest)))
    views = tuple(msgspec.convert(pod, Pod) for pod in pods)
    result = plan(Observed(job, views, (), tuple(problems)), now, PlanOptions())
    assert result.requeue_after is None or 0 <= result.requeue_after <= MAX_REQUEUE
    status_patch(job.status, result.status)
    for creation in (*result.create_pods, *result.create_services):
        msgspec.json.encode(creation.body)
    again = msgspec.structs.replace(job, status=result.status)
    if not (result.create_pods or result.create_services or result.delete_pods):
        repeated = plan(Observed(again, views, (), tuple(problems)), now, PlanOptions())
        assert not repeated.write_status
        assert not repeated.events
