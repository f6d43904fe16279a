from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.fake_api import Call, FakeApi, api_error
from tests.unit.workqueue.support import InThread
from tfoperator.clock import StopSignal
from tfoperator.kube.errors import TransportError
from tfoperator.kube.resources import LEASES
from tfoperator.leaderelection import LeaderElector, LeaseLock


class Replica:
    """An operator replica that does nothing but lead, and notes what happened to it."""

    def __init__(self, api: Any, clock: FakeClock, identity: str, **options: Any) -> None:
        self.clock = clock
        self.log: list[str] = []
        self.stop = StopSignal()
        self.may_end = threading.Event()
        self.may_end.set()
        self.work: Callable[[StopSignal], None] = self.wait_for_stop
        self.elector = LeaderElector(
            LeaseLock(api, namespace="kubeflow", name="tfoperator", identity=identity),
            on_started_leading=lambda stop: self.work(stop),
            on_stopped_leading=lambda: self.log.append("stopped"),
            on_new_leader=lambda leader: self.log.append(f"leader {leader}"),
            clock=clock,
            rng=random.Random(identity),
            **options,
        )
        self.running: InThread | None = None

    def wait_for_stop(self, stop: StopSignal) -> None:
        self.log.append("started")
        stop.wait(self.clock)
        assert self.may_end.wait(10)
        self.log.append("ended")

    def start(self) -> Replica:
        self.running = InThread(lambda: self.elector.run(self.stop))
        return self

    def result(self) -> None:
        assert self.running is not None
        self.running.result()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def api(clock: FakeClock) -> FakeApi:
    return FakeApi(clock.now)


@pytest.fixture
def replica(api: FakeApi, clock: FakeClock) -> Iterator[Callable[..., Replica]]:
    made: list[Replica] = []

    def make(identity: str, **options: Any) -> Replica:
        made.append(Replica(options.pop("api", api), clock, identity, **options))
        return made[-1]

    yield make
    for each in made:
        each.may_end.set()
        each.stop.set()
    for each in made:
        if each.running is not None:
            pass_time_until(clock, lambda each=each: not each.running.running)


def pass_time_until(clock: FakeClock, done: Callable[[], bool], step: float = 0.25, limit: float = 200) -> float:
    """Let virtual time pass, slowly enough for threads to follow; how much passed."""
    began = clock.monotonic()
    while not done():
        assert clock.monotonic() - began < limit, "it never happened"
        clock.advance(step)
        time.sleep(0.001)
    return clock.monotonic() - began


def holder(api: FakeApi) -> str:
    leases = api.objects(LEASES)
    return leases[0]["spec"]["holderIdentity"] if leases else ""


def test_a_replica_alone_leads_and_releases_the_lease_when_stopped(api: FakeApi, replica) -> None:
    one = replica("one").start()
    eventually(lambda: "started" in one.log)
    assert one.elector.is_leader
    assert one.elector.leader_identity == "one"
    one.stop.set()
    one.result()
    assert one.log == ["leader one", "started", "ended", "stopped"]
    assert not one.elector.is_leader
    assert holder(api) == ""


def test_the_lease_is_renewed_every_retry_period(api: FakeApi, clock: FakeClock, replica) -> None:
    one = replica("one").start()
    eventually(lambda: "started" in one.log)
    for renewals in range(1, 11):
        clock.wait_for_deadline(2 * renewals)
        assert api.count("replace") == renewals - 1
        clock.advance(2)
    eventually(lambda: api.count("replace") == 10)
    assert one.elector.is_leader


def test_a_second_replica_takes_over_as_soon_as_the_first_stops_cleanly(
    api: FakeApi, clock: FakeClock, replica
) -> None:
    one = replica("one").start()
    eventually(lambda: "started" in one.log)
    two = replica("two").start()
    eventually(lambda: two.log == ["leader one"])
    assert not two.elector.is_leader
    one.stop.set()
    one.result()
    assert pass_time_until(clock, lambda: two.elector.is_leader) <= 2 * 2.2 + 0.5
    eventually(lambda: two.log == ["leader one", "leader two", "started"])


def test_a_second_replica_takes_over_when_the_first_vanishes(api: FakeApi, clock: FakeClock, replica) -> None:
    api.put(
        LEASES,
        {
            "metadata": {"namespace": "kubeflow", "name": "tfoperator"},
            "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 15},
        },
    )
    two = replica("two").start()
    eventually(lambda: two.log == ["leader dead"])
    passed = pass_time_until(clock, lambda: two.elector.is_leader)
    assert 15 <= passed < 15 + 2 * 2.2 + 1


def test_work_ends_before_the_lease_is_released_and_keeps_it_meanwhile(api: FakeApi, clock: FakeClock, replica) -> None:
    one = replica("one").start()
    eventually(lambda: "started" in one.log)
    one.may_end.clear()
    one.stop.set()
    renewed = api.count("replace")
    pass_time_until(clock, lambda: api.count("replace") >= renewed + 15)
    assert holder(api) == "one"
    assert one.elector.is_leader
    one.may_end.set()
    pass_time_until(clock, lambda: holder(api) == "")
    one.result()
    assert one.log[-2:] == ["ended", "stopped"]


def test_a_lease_is_left_to_expire_when_it_shall_not_be_released(api: FakeApi, replica) -> None:
    one = replica("one", release_on_stop=False).start()
    eventually(lambda: "started" in one.log)
    one.stop.set()
    one.result()
    assert holder(api) == "one"


@pytest.mark.parametrize("error", [TransportError("reset"), api_error(500)])
def test_a_leader_that_cannot_renew_gives_up_before_others_may_take_over(
    api: FakeApi, clock: FakeClock, replica, error: Exception
) -> None:
    one = replica("one").start()
    eventually(lambda: "started" in one.log)
    api.fail("replace", "leases", error, times=1000)
    passed = pass_time_until(clock, lambda: "stopped" in one.log)
    one.result()
    assert 9.5 <= passed <= 10.5
    assert one.log == ["leader one", "started", "ended", "stopped"]
    assert not one.elector.is_leader


def test_a_leader_survives_failures_that_are_shorter_than_the_deadline(api: FakeApi, clock: FakeClock, replica) -> None:
    one = replica("one").start()
    eventually(lambda: "started" in one.log)
    for _ in range(3):
        made = api.count("replace")
        api.fail("replace", "leases", TransportError("reset"), times=3)
        pass_time_until(clock, lambda made=made: api.count("replace") >= made + 5)
    assert one.log == ["leader one", "started"]
    assert one.elector.is_leader


def test_a_leader_that_is_deposed_stops_at_once(api: FakeApi, clock: FakeClock, replica) -> None:
    one = replica("one").start()
    eventually(lambda: "started" in one.log)
    api.edit(LEASES, "kubeflow", "tfoperator", {"spec": {"holderIdentity": "usurper"}})
    assert pass_time_until(clock, lambda: "stopped" in one.log) <= 3
    one.result()
    assert "leader usurper" in one.log
    assert holder(api) == "usurper"


def test_a_hanging_server_costs_the_leader_its_lease_in_time(api: FakeApi, clock: FakeClock, replica) -> None:
    let_go = threading.Event()
    hanging = threading.Event()

    def hang(call: Call) -> None:
        if hanging.is_set():
            assert let_go.wait(10)

    api.react(hang)
    one = replica("one").start()
    eventually(lambda: "started" in one.log)
    hanging.set()
    passed = pass_time_until(clock, lambda: "stopped" in one.log)
    one.result()
    assert 9.5 <= passed <= 10.5
    let_go.set()


def test_work_that_does_not_end_after_a_lost_lease_holds_run_up_only_until_the_lease_has_run_out(
    api: FakeApi, clock: FakeClock, replica
) -> None:
    one = replica("one").start()
    eventually(lambda: "started" in one.log)
    one.may_end.clear()
    api.fail("replace", "leases", TransportError("reset"), times=1000)
    passed = pass_time_until(clock, lambda: "stopped" in one.log)
    one.result()
    assert 14.5 <= passed <= 15.5


def test_is_leader_turns_false_by_itself_when_the_lease_runs_out(api: FakeApi, clock: FakeClock, replica) -> None:
    one = replica("one").start()
    eventually(lambda: "started" in one.log)
    api.fail("replace", "leases", TransportError("reset"), times=1000)
    assert one.elector.is_leader
    # One leap, as after a suspended machine: no thread has had a chance to notice.
    clock.advance(15)
    assert not one.elector.is_leader


def test_work_that_fails_gives_the_lease_up_and_its_error_leaves_run(api: FakeApi, clock: FakeClock, replica) -> None:
    one = replica("one")

    def fail(stop: StopSignal) -> None:
        raise LookupError("a bug")

    one.work = fail
    one.start()
    pass_time_until(clock, lambda: "stopped" in one.log)
    with pytest.raises(LookupError, match="a bug"):
        one.result()
    assert holder(api) == ""


def test_work_that_returns_early_does_not_end_the_leadership(api: FakeApi, clock: FakeClock, replica) -> None:
    one = replica("one")
    one.work = lambda stop: one.log.append("started")
    one.start()
    pass_time_until(clock, lambda: api.count("replace") >= 3)
    assert one.elector.is_leader
    one.stop.set()
    one.result()
    assert holder(api) == ""


def test_stopping_a_replica_that_waits_ends_it_at_once_and_still_says_so(api: FakeApi, replica) -> None:
    one = replica("one").start()
    eventually(lambda: "started" in one.log)
    two = replica("two").start()
    eventually(lambda: two.log == ["leader one"])
    two.stop.set()
    two.result()
    assert two.log == ["leader one", "stopped"]
    assert holder(api) == "one"


def test_a_replica_that_is_stopped_before_it_runs_asks_for_nothing(api: FakeApi, replica) -> None:
    one = replica("one")
    one.stop.set()
    one.start().result()
    assert one.log == ["stopped"]
    assert api.calls == []


def test_a_listener_that_fails_does_not_cost_the_lease(
    api: FakeApi, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    stop = StopSignal()

    def listen(leader: str) -> None:
        raise LookupError("a bug")

    elector = LeaderElector(
        LeaseLock(api, namespace="kubeflow", name="tfoperator", identity="one"),
        on_started_leading=lambda leading: None,
        on_stopped_leading=lambda: None,
        on_new_leader=listen,
        clock=clock,
    )
    running = InThread(lambda: elector.run(stop))
    pass_time_until(clock, lambda: api.count("replace") >= 2)
    assert elector.is_leader
    assert "listener" in caplog.text
    stop.set()
    running.result()


def test_never_two_leaders_among_replicas_that_come_and_go(clock: FakeClock, replica) -> None:
    api = FakeApi(clock.now)
    rng = random.Random(7)
    working: set[str] = set()
    clashes: list[set[str]] = []
    lock = threading.Lock()

    def work_as(identity: str) -> Callable[[StopSignal], None]:
        def work(stop: StopSignal) -> None:
            with lock:
                working.add(identity)
                if len(working) > 1:
                    clashes.append(set(working))
            stop.wait(clock)
            with lock:
                working.discard(identity)

        return work

    def new(number: int) -> Replica:
        one = replica(f"replica-{number}", api=api)
        one.work = work_as(f"replica-{number}")
        return one.start()

    def flaky(call: Call) -> None:
        if rng.random() < 0.2:
            raise TransportError("reset")

    api.react(flaky)
    replicas = [new(number) for number in range(3)]
    led: set[str] = set()
    for number in range(3, 8):
        pass_time_until(clock, lambda: any(one.elector.is_leader for one in replicas))
        leader = next((one for one in replicas if one.elector.is_leader), replicas[0])
        led.add(leader.elector.leader_identity)
        leader.stop.set()
        pass_time_until(clock, lambda leader=leader: "stopped" in leader.log)
        replicas.remove(leader)
        replicas.append(new(number))
    assert clashes == []
    assert len(led) >= 4


@pytest.mark.parametrize(
    ("durations", "complaint"),
    [
        ({"lease_duration": 10, "renew_deadline": 10}, "lease_duration must be .* more than renew_deadline"),
        ({"lease_duration": 0.9, "renew_deadline": 0.5, "retry_period": 0.1}, "lease_duration must be at least 1 s"),
        ({"renew_deadline": 2.4, "retry_period": 2}, "renew_deadline must be more than 1.2"),
        ({"retry_period": 0}, "retry_period must be more than 0"),
    ],
)
def test_durations_that_cannot_work_are_refused(
    api: FakeApi, clock: FakeClock, durations: dict[str, float], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        Replica(api, clock, "one", **durations)
