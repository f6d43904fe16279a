"""The properties of `plan()` in every world: it converges, repeats nothing, and keeps an honest account."""

import math
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hack import fuzz
from hack.random_jobs import random_case
from tests.support.plan_options import plan_options
from tests.unit.controller.builders import ReadablePlan, make_job
from tests.unit.controller.world import View, World
from tfoperator.api.pods.lost_nodes import node_is_lost
from tfoperator.api.replicas.names import replica_of
from tfoperator.api.replicas.replica_pods import outlives_training
from tfoperator.api.v1.choices import Network, RestartPolicy
from tfoperator.api.v1.condition_types import PEER_CONDITIONS, ConditionType
from tfoperator.api.v1.status import TFJobStatus, parse_indexes
from tfoperator.controller.plan.facts.progress import STACKS_TIMEOUT
from tfoperator.controller.plan.facts.proposal import MAX_REQUEUE
from tfoperator.controller.plan.pod_ends.restart import ending_of, is_permanent, job_restarts_before
from tfoperator.controller.plan.status.status import is_worth_writing, only_counts_rise
from tfoperator.controller.plan.values.actions import Create, Delete, DeleteReason
from tfoperator.controller.plan.values.conditions import is_finished
from tfoperator.controller.pods.manifests import restarts_together
from tfoperator.controller.pods.naming import NAMINGS, Naming

COUNTS_PERIOD = 1.0
POLICIES = st.sampled_from(["Never", "OnFailure", "Always", "ExitCode"])
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


NETWORKS = st.sampled_from([None, *Network])
SHARES = st.integers(1, 4) | st.sampled_from(["1%", "34%", "50%", "67%", "100%"])
THRESHOLDS = st.just({}) | st.fixed_dictionaries(
    {}, optional={"minSucceededWorkers": SHARES, "maxFailedWorkers": SHARES | st.sampled_from([0, "0%"])}
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    replicas = {key: {"replicas": count, "restartPolicy": draw(POLICIES)} for key, count in draw(SHAPES).items()}
    run_policy: dict[str, Any] = {"cleanPodPolicy": draw(st.sampled_from(["All", "Running", "None", ""]))}
    match draw(st.integers(0, 3)):
        case 0:
            run_policy["restartScope"] = "Job"
        case 1:
            run_policy["restartMode"] = "InPlace"
    if draw(st.booleans()):
        run_policy["backoffLimit"] = draw(st.integers(0, 6))
    if draw(st.integers(0, 3)) == 0:
        run_policy["activeDeadlineSeconds"] = draw(st.integers(0, 600))
    if draw(st.integers(0, 2)) == 0:
        run_policy["progressDeadlineSeconds"] = draw(st.integers(1, 600))
        run_policy["onStall"] = draw(st.sampled_from(["Report", "Restart", "Restart", "Fail"]))
    if draw(st.integers(0, 3)) == 0:
        run_policy["ttlSecondsAfterFinished"] = draw(st.integers(0, 600))
    thresholds = draw(THRESHOLDS)
    job = make_job(
        replicas or {"Worker": 2},
        **thresholds,
        network=draw(NETWORKS),
        runPolicy=run_policy,
        successPolicy=draw(st.sampled_from(["", "AllWorkers"])),
        enableDynamicWorker=draw(st.booleans()),
    )
    naming = draw(st.sampled_from(NAMINGS))
    delay = draw(st.sampled_from([0.0, 1.0, 30.0]))
    network = draw(st.sampled_from(Network))
    options = plan_options(restart_delay_base=delay, naming=naming, network=network, counts_period=COUNTS_PERIOD)
    stacks = draw(st.sampled_from(["", "prompt", "deaf"]))
    backs_off = draw(st.booleans())
    return World(job, options=options, sidecar=draw(st.integers(0, 2)) == 0, backs_off=backs_off, stacks=stacks)


def failed_in(status: TFJobStatus) -> set[tuple[str, int]]:
    """The replicas that have failed for good."""
    return {
        (key, index)
        for key, replicas in status.replica_statuses.items()
        for index in parse_indexes(replicas.failed_indexes)
    }


def check_plan(result: ReadablePlan, view: View) -> None:
    """Check what must be true of any single plan, however old its view is."""
    creates = Counter(create.replica for create in result.creations("pods"))
    assert all(count == 1 for count in creates.values()), "two pods of one index"
    replaced = check_replacements(result, view)
    present = {replica_of(pod.metadata.labels) for pod in view.pods if pod.metadata.uid not in replaced}
    assert not present & creates.keys(), "a pod for an index that has one"
    done = {
        (key, index)
        for key, status in view.job.status.replica_statuses.items()
        for index in parse_indexes(status.completed_indexes)
    }
    all_restart = result.status.job_restarts > view.job.status.job_restarts
    assert all_restart or not done & creates.keys(), "a completed replica runs again"
    if creates:
        # A replica that has failed for good is not started again with the others, and keeps its pod.
        failed = failed_in(result.status)
        numbers = {job_restarts_before(pod) for pod in view.pods if replica_of(pod.metadata.labels) not in failed}
        assert numbers <= {result.status.job_restarts}, "a new pod beside an old one"
    assert len({d.uid for d in result.deletions("pods")}) == len(result.deletions("pods"))
    assert result.requeue_after is None or 0 <= result.requeue_after <= MAX_REQUEUE

    check_clean_up(result, view)
    check_memory(result, view)
    check_thresholds(result, view)
    check_writes(result, view)
    conditions = {c.type: c for c in result.status.conditions}
    assert len(conditions) == len(result.status.conditions), "a condition twice"
    both = {"Succeeded", "Failed"} <= {kind for kind, c in conditions.items() if c.status == "True"}
    assert not both, "succeeded and failed"
    if conditions:
        last = result.status.conditions[-1]
        assert last.status == "True", last
        assert {c.type for c in result.status.conditions} <= PEER_CONDITIONS

    before = view.job.status
    if is_finished(before.conditions):
        assert not [*result.creations("pods"), *result.creations("services")]
        assert same_but_for_generation(result.status, before), "a finished job never changes"
    if result.write_status_first:
        assert result.write_status
    restarted = {d.uid for d in result.deletions("pods") if d.reason is DeleteReason.RESTART}
    for pod in view.pods:
        spec = view.job.spec.tf_replica_specs.get(replica_of(pod.metadata.labels)[0])
        old = job_restarts_before(pod) < result.status.job_restarts
        if pod.status.phase == "Failed" and spec is not None and pod.metadata.uid in restarted and not old:
            assert not is_permanent(ending_of(pod), RestartPolicy(spec.restart_policy)), "a permanent failure restarted"


def check_replacements(result: ReadablePlan, view: View) -> set[str]:
    """The UIDs of pods whose successors are made in the same chain: such a pod is gone as soon as it is deleted."""
    pods = {pod.metadata.uid: pod for pod in view.pods}
    replaced = set()
    for phase in result.phases:
        for chain in phase.chains:
            if not isinstance(chain[0], Delete) or len(chain) == 1:
                continue
            deletion, creation = chain
            assert isinstance(creation, Create)
            assert (deletion.kind, deletion.name, deletion.replica) == (creation.kind, creation.name, creation.replica)
            assert pods[deletion.uid].status.phase == "Failed"
            assert not pods[deletion.uid].metadata.finalizers
            replaced.add(deletion.uid)
    return replaced


LIMITS = ("ProgressDeadlineExceeded", "backoff limit", "active longer")


def check_clean_up(result: ReadablePlan, view: View) -> None:
    """Check that only the job's end stops running pods, and once, and that ended pods are deleted by choice."""
    policy = view.job.spec.run_policy
    deleted = {d.uid for d in result.deletions("pods") if d.reason is not DeleteReason.NODE_LOST}
    finished = is_finished(result.status.conditions)
    failed = next((c for c in result.status.conditions if c.type == ConditionType.FAILED and c.status == "True"), None)
    limited = failed is not None and any(limit in f"{failed.reason} {failed.message}" for limit in LIMITS)
    stops = finished and (policy.clean_pod_policy is None or (policy.clean_pod_policy == "None" and limited))
    pods = {pod.metadata.uid: pod for pod in view.pods}
    for stop in result.stops:
        pod = pods[stop.uid]
        assert not stop.required
        assert stop.uid not in deleted
        assert pod.spec.active_deadline_seconds is None, "stopped twice"
        assert pod.metadata.deletion_timestamp is None
        if outlives_training(pod):
            continue
        assert stops
        assert pod.status.phase not in ("Succeeded", "Failed")
        if pod.status.phase == "Running" and any(
            c.type == ConditionType.SUCCEEDED and c.status == "True" for c in result.status.conditions
        ):
            others = (p for p in view.pods if stop.replica is None or replica_of(p.metadata.labels)[0] != "PS")
            running = [p for p in others if p.status.phase == "Running" and not node_is_lost(p)]
            assert not running, "somebody else runs"
    if finished and policy.clean_pod_policy in (None, "None"):
        assert not result.deletions("services")
        begun = {uid for uid, pod in pods.items() if pod.spec.node_name}
        assert not deleted & begun, "a log is lost"
        assert stops or not deleted


def check_memory(result: ReadablePlan, view: View) -> None:
    """Check that ends are not forgotten: failed indexes as long as the type has them, completed indexes never.

    But where all replicas restart together they do so after a suspension, too, even replicas that had succeeded.
    """
    suspended = any(c.type == ConditionType.SUSPENDED and c.status == "True" for c in result.status.conditions)
    all_again = suspended and restarts_together(view.job)
    creates = {create.replica for create in result.creations("pods")}
    for key, before in view.job.status.replica_statuses.items():
        spec, after = view.job.spec.tf_replica_specs.get(key), result.status.replica_statuses.get(key)
        if spec is None or after is None:
            continue
        if result.status.job_restarts == view.job.status.job_restarts and not all_again:
            assert parse_indexes(before.completed_indexes) <= parse_indexes(after.completed_indexes)
        failed = {index for index in parse_indexes(before.failed_indexes) if index < (spec.replicas or 0)}
        assert failed <= parse_indexes(after.failed_indexes)
        assert not {(key, index) for index in failed} & creates, "a replica that failed for good runs again"


def check_thresholds(result: ReadablePlan, view: View) -> None:
    """Check that the job has succeeded if and only if enough workers have, and that no more have failed than may."""
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


def check_writes(result: ReadablePlan, view: View) -> None:
    """Check that the only changes that are not written yet are counts that rise, and that they are written soon."""
    old, new = view.job.status, result.status
    if result.write_status or not is_worth_writing(old, new):
        return
    assert only_counts_rise(old, new, view.job.spec), (old, new)
    assert not result.acts
    assert result.requeue_after is not None
    assert result.requeue_after <= COUNTS_PERIOD, "it is late"


def of(share: int | str, total: int, rounded: Callable[[Fraction], int]) -> int:
    return share if isinstance(share, int) else rounded(Fraction(int(share.rstrip("%")) * total, 100))


def settle(world: World, *, finish: bool = False) -> None:
    """Let the world calm down: requests are no longer lost, time passes, pods do what is asked of them."""
    world.drop.clear()
    for _ in range(120):
        for name in list(world.pods):
            if world.pods[name].metadata.deletion_timestamp is not None:
                world.gone(name)
            else:
                world.run(name)
                world.expire(name)
                if finish and world.pods[name].status.phase == "Running":
                    world.succeed(name)
        result = quiesce(world)
        pending = any(
            p.metadata.deletion_timestamp is not None
            or p.status.phase == "Pending"
            or (p.status.phase == "Running" and p.spec.active_deadline_seconds is not None)
            for p in world.pods.values()
        )
        if world.job_deleted or (not pending and result.requeue_after is None):
            return
        world.tick(min(result.requeue_after or 1.0, 400.0) + 0.001)
        if not pending and (result.requeue_after or 0) > 400:
            return
    raise AssertionError("the world does not come to rest")


def quiesce(world: World) -> ReadablePlan:
    """Sync without anything else happening until there is nothing to do; that must be soon."""
    for _ in range(12):
        view = world.look()
        result = world.sync()
        check_plan(result, view)
        if world.job_deleted or not result.acts:
            return result
    raise AssertionError(f"the operator keeps acting on a world that stands still: {result}")


def same_but_for_generation(status: TFJobStatus, before: TFJobStatus) -> bool:
    """Whether nothing is different, or only that an edit of the spec was observed."""
    return msgspec.structs.replace(status, observed_generation=before.observed_generation) == before


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
            assert same_but_for_generation(self.world.job.status, before)

    @rule()
    def sync_twice(self) -> None:
        if not self.world.job_deleted:
            quiesce(self.world)

    @rule(pick=PICK)
    @precondition(has_pods)
    def run(self, pick: int) -> None:
        self.world.run(self.pod(pick))

    @rule(pick=PICK)
    @precondition(has_pods)
    def schedule(self, pick: int) -> None:
        self.world.schedule(self.pod(pick))

    @rule(pick=PICK)
    @precondition(has_pods)
    def expire(self, pick: int) -> None:
        self.world.expire(self.pod(pick))

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

    @rule(network=st.sampled_from(Network), naming=st.sampled_from(NAMINGS))
    def start_the_operator_anew(self, network: Network, naming: Naming) -> None:
        """With other defaults for new jobs."""
        self.world.options = msgspec.structs.replace(self.world.options, network=network, naming=naming)

    @rule(behind=st.sampled_from(["", "worker-0", "worker-1", "ps-0"]))
    def report(self, behind: str) -> None:
        if not self.world.finished:
            self.world.report(behind)

    @rule(seconds=st.sampled_from([0.3, 1.0, 7.0, 60.0, 700.0]))
    def wait(self, seconds: float) -> None:
        self.world.tick(seconds)

    @rule(seconds=st.integers(-4000, 4000))
    def clock_jumps(self, seconds: int) -> None:
        self.world.tick(seconds)

    @invariant()
    def never_counts_more_restarts_than_there_were(self) -> None:
        for replica, count in self.world.counted().items():
            assert count <= self.world.losses[replica], (replica, count, self.world.losses)
        assert set(range(self.world.job.status.job_restarts)) <= self.world.lost_numbers

    @invariant()
    def all_pods_find_each_other_in_one_way(self) -> None:
        assert len({pod.spec.subdomain for pod in self.world.pods.values()}) <= 1

    def teardown(self) -> None:
        world = self.world
        world.suspend(False)
        world.edit_policy(progress_deadline_seconds=None)  # nobody minds any more whether there is progress
        settle(world)
        assert_settled(world)


def assert_settled(world: World) -> None:
    """A world at rest is what the spec asks for, or the job is over."""
    if world.job_deleted:
        return
    if world.finished:
        assert world.job.status.completion_time is not None
        assert not (world.holds(ConditionType.SUCCEEDED) and world.holds(ConditionType.FAILED))
        policy = world.job.spec.run_policy
        active = {world.replica(p)[0] for p in world.pods.values() if p.status.phase in ("Pending", "Running")}
        if policy.clean_pod_policy in ("All", "Running"):
            assert not active
        elif policy.clean_pod_policy is None:
            assert not active or world.holds(ConditionType.SUCCEEDED), "a failed job stops the others"
            assert active != {"PS"}, "parameter servers serve nobody"
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
    counted = {key: replicas.active for key, replicas in world.job.status.replica_statuses.items() if replicas.active}
    # A second pod of a replica that has failed for good does not make it active.
    active_kinds = Counter(str(kind) for kind, index in alive if (kind, index) not in failed_in(world.job.status))
    assert counted == active_kinds, "what was written late was written"
    services = {replica_of(service.metadata.labels) for service in world.services.values()}
    if world.job.status.network == Network.PER_JOB:
        assert services <= {None}, "no replica's"
        assert services or not wanted
        assert {pod.spec.subdomain for pod in world.pods.values()} <= {*world.services}
    else:
        assert services >= wanted
    assert world.job.status.restarts == sum(world.counted().values()) + world.job.status.job_restarts
    assert {job_restarts_before(pod) for pod in world.pods.values()} <= {world.job.status.job_restarts} or world.failed(
        "Worker"
    )


Worlds.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestWorlds = Worlds.TestCase


EVENTS = st.lists(
    st.tuples(PICK, st.sampled_from(["kill", "vanish", "evict", "lose_node", "stall", "exit-1", "exit-137"])),
    max_size=12,
)


@settings(max_examples=100, deadline=None)
@given(
    policy=POLICIES,
    scope=st.sampled_from(["Replica", "Job", "InPlace"]),
    replicas=st.integers(1, 3),
    events=EVENTS,
    backs_off=st.booleans(),
    stacks=st.sampled_from(["", "prompt", "deaf"]),
)
def test_restarts_are_counted_exactly_once_when_the_operator_sees_each_loss(
    policy: str, scope: str, replicas: int, events: list[tuple[int, str]], stacks: str, backs_off: bool
) -> None:
    workers = {"replicas": replicas, "restartPolicy": policy}
    stalls = {"progressDeadlineSeconds": 450, "onStall": "Restart"}  # longer than a world takes to settle
    restarts = {"restartMode" if scope == "InPlace" else "restartScope": scope}
    job = make_job({"Worker": workers, "PS": 1}, runPolicy={**restarts, **stalls})
    world = World(job, options=plan_options(counts_period=COUNTS_PERIOD), stacks=stacks, backs_off=backs_off)
    settle(world)
    for pick, event in events:
        names = sorted(name for name in world.pods if "worker" in name)
        name = names[pick % len(names)]
        if event == "stall":
            before = world.losses.total()
            world.report("" if pick % 2 else f"worker-{pick % replicas}")
            world.tick(451)
            quiesce(world)
            world.tick(STACKS_TIMEOUT)
            quiesce(world)
            assert world.losses.total() > before, "it has stalled, and nobody has done anything about it"
        elif event.startswith("exit"):
            code = int(event.removeprefix("exit-"))
            if policy == "Never" or (policy == "ExitCode" and code < 128):
                continue
            world.exit(name, code)
            if pick % 3 == 0:
                quiesce(world)  # and it is deleted while it waits for its restart, which is one loss
                if name in world.pods:
                    world.kill(name)
        else:
            getattr(world, event)(name)
        quiesce(world)
        settle(world)
    assert not world.finished
    assert world.job.status.restarts == world.losses.total()
    if scope != "Job":
        assert world.counted() == world.losses
    else:
        assert world.job.status.job_restarts == world.losses.total()


@settings(max_examples=60, deadline=None)
@given(world=worlds(), lags=st.lists(LAG, max_size=10))
def test_a_job_whose_pods_all_succeed_succeeds(world: World, lags: list[int]) -> None:
    no_end = ("active_deadline_seconds", "ttl_seconds_after_finished", "progress_deadline_seconds")
    world.edit_policy(**dict.fromkeys(no_end))
    for lag in lags:
        world.sync(lag)
    settle(world, finish=True)
    replicas = sum(spec.replicas for spec in world.job.spec.tf_replica_specs.values())
    decisive = [spec.replicas for key, spec in world.job.spec.tf_replica_specs.items() if key in ("Chief", "Worker")]
    if replicas and (any(decisive) or not decisive):
        assert world.holds(ConditionType.SUCCEEDED), world.job.status
        assert not world.holds(ConditionType.FAILED)


@settings(max_examples=400)
@given(rng=st.randoms(use_true_random=False))
def test_no_job_and_no_pod_makes_it_raise_or_loop(rng: random.Random) -> None:
    fuzz.check(random_case(rng))
