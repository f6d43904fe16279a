from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.fake_api import Call, FakeApi, api_error
from tests.support.threads import InThread
from tfoperator.base.clock import StopSignal
from tfoperator.kube.protocol.errors import TransportError
from tfoperator.kube.protocol.resources import LEASES
from tfoperator.leaderelection import LeaderElector, LeaseLock


class Replica:
    """An operator replica that does nothing but lead, and notes what happened to it."""

    def __init__(self, api: FakeApi, clock: FakeClock, identity: str, **options: Any) -> None:
        self.clock = clock
        self.log: list[str] = []
        self.stop = StopSignal()
        self.may_end = threading.Event()
        self.may_end.set()
        self.work: Callable[[StopSignal], None] = self.wait_for_stop
        self.listen: Callable[[str], None] = lambda leader: self.log.append(f"leader {leader}")
        lock = LeaseLock(api, namespace="kubeflow", name="tfoperator", identity=identity)
        callbacks = {"on_new_leader": lambda leader: self.listen(leader)}
        self.elector = LeaderElector(lock, clock=clock, rng=random.Random(identity), **callbacks, **options)
        self.running: InThread | None = None
        self._leading: tuple[StopSignal, threading.Thread] | None = None

    def _lead(self, stop: StopSignal) -> None:
        self._leading = stop, threading.current_thread()
        self.work(stop)

    def wait_for_stop(self, stop: StopSignal) -> None:
        self.log.append("started")
        stop.wait(self.clock)
        assert self.may_end.wait(60)
        self.log.append("ended")

    def start(self) -> Replica:
        self.running = InThread(self._run)
        return self

    def _run(self) -> None:
        try:
            self.elector.run(self.stop, self._lead)
        finally:
            self.log.append("stopped")

    def end(self) -> None:
        """Stop it, and wait for its end."""
        self.stop.set()
        self.result()

    def result(self) -> None:
        assert self.running is not None
        self.running.result()

    @property
    def must_wake(self) -> bool:
        """Whether its work was stopped and could end, but has not got to it yet, or has not reported it."""
        if self._leading is None:
            return False
        stop, thread = self._leading
        return stop.is_set() and self.may_end.is_set() and thread.is_alive()


class World:
    """A clock, an API server and the replicas that compete for its lease."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.api = FakeApi(self.clock.now)
        self.replicas: list[Replica] = []

    def replica(self, identity: str, **options: Any) -> Replica:
        self.replicas.append(Replica(self.api, self.clock, identity, **options))
        return self.replicas[-1]

    def leader(self, identity: str, **options: Any) -> Replica:
        """A replica that has begun to lead."""
        replica = self.replica(identity, **options).start()
        eventually(lambda: "started" in replica.log)
        return replica

    def pass_time_until(self, done: Callable[[], bool], *, hanging: bool = False) -> float:
        """Let virtual time pass, never faster than the threads can follow; how much passed in the end."""
        began = self.clock.monotonic()
        while True:
            eventually(lambda: done() or self._at_rest(hanging), every=0.0005)
            if done():
                return self.clock.monotonic() - began
            assert self.clock.monotonic() - began < 200, "it never happened"
            self.clock.advance(0.25)

    def _at_rest(self, hanging: bool) -> bool:
        """Return whether all replicas wait for time to pass, without open requests (but they may hang on purpose)."""
        running = [replica for replica in self.replicas if replica.running is not None and replica.running.running]
        requests = len(self.api.calls)
        if any(replica.must_wake for replica in running) or (self._asking() and not hanging):
            return False
        try:
            self.clock.wait_for_waiters(len(running), limit=0)
        except AssertionError:
            return False
        # The threads may have been waiting for the end of a request that has come and gone meanwhile.
        return hanging or (not self._asking() and requests == len(self.api.calls))

    @staticmethod
    def _asking() -> bool:
        return any(thread.name.startswith("lease ") for thread in threading.enumerate())

    @property
    def holder(self) -> str:
        leases = self.api.objects(LEASES)
        return leases[0]["spec"]["holderIdentity"] if leases else ""

    def close(self) -> None:
        for replica in self.replicas:
            replica.may_end.set()
            replica.stop.set()
        self.pass_time_until(lambda: not any(replica.running and replica.running.running for replica in self.replicas))


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def test_a_replica_alone_leads_renews_its_lease_every_retry_period_and_releases_it_when_stopped(world: World) -> None:
    leader = world.leader("one")
    for renewals in range(1, 11):
        assert leader.elector.is_leader
        world.clock.wait_for_deadline(2 * renewals)
        assert world.api.count("replace") == renewals - 1
        world.clock.advance(2)
    eventually(lambda: world.api.count("replace") == 10)
    assert leader.elector.is_leader
    leader.end()
    assert leader.log == ["leader one", "started", "ended", "stopped"]
    assert not leader.elector.is_leader
    assert world.holder == ""


def test_a_second_replica_takes_over_as_soon_as_the_first_stops_cleanly(world: World) -> None:
    leader = world.leader("one")
    two = world.replica("two").start()
    eventually(lambda: two.log == ["leader one"])
    assert not two.elector.is_leader
    leader.end()
    assert world.pass_time_until(lambda: two.elector.is_leader) <= 2 * 2.2 + 0.5
    eventually(lambda: two.log == ["leader one", "leader two", "started"])


def test_a_second_replica_takes_over_when_the_first_vanishes(world: World) -> None:
    names = {"namespace": "kubeflow", "name": "tfoperator"}
    world.api.put(LEASES, {"metadata": names, "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 15}})
    two = world.replica("two").start()
    eventually(lambda: two.log == ["leader dead"])
    passed = world.pass_time_until(lambda: two.elector.is_leader)
    assert 15 <= passed < 15 + 2 * 2.2 + 1


def test_work_ends_before_the_lease_is_released_and_keeps_it_meanwhile(world: World) -> None:
    leader = world.leader("one")
    leader.may_end.clear()
    leader.stop.set()
    renewed = world.api.count("replace")
    world.pass_time_until(lambda: world.api.count("replace") >= renewed + 15)
    assert world.holder == "one"
    assert leader.elector.is_leader
    leader.may_end.set()
    world.pass_time_until(lambda: world.holder == "")
    leader.result()
    assert leader.log[-2:] == ["ended", "stopped"]


@pytest.mark.parametrize("error", [TransportError("reset"), api_error(500)])
def test_a_leader_that_cannot_renew_gives_up_before_others_may_take_over(world: World, error: Exception) -> None:
    leader = world.leader("one")
    world.api.fail("replace", "leases", error, times=1000)
    passed = world.pass_time_until(lambda: "stopped" in leader.log)
    leader.result()
    assert 9.5 <= passed <= 10.5
    assert leader.log == ["leader one", "started", "ended", "stopped"]
    assert not leader.elector.is_leader


def test_a_leader_survives_failures_that_are_shorter_than_the_deadline(world: World) -> None:
    leader = world.leader("one")
    for _ in range(3):
        made = world.api.count("replace")
        world.api.fail("replace", "leases", TransportError("reset"), times=3)
        world.pass_time_until(lambda made=made: world.api.count("replace") >= made + 5)
    assert leader.log == ["leader one", "started"]
    assert leader.elector.is_leader


def test_a_leader_that_is_deposed_stops_at_once(world: World) -> None:
    leader = world.leader("one")
    world.api.edit(LEASES, "kubeflow", "tfoperator", {"spec": {"holderIdentity": "usurper"}})
    assert world.pass_time_until(lambda: "stopped" in leader.log) <= 3
    leader.result()
    assert "leader usurper" in leader.log
    assert world.holder == "usurper"


def test_a_hanging_server_costs_the_leader_its_lease_in_time(world: World) -> None:
    let_go = threading.Event()
    hanging = threading.Event()

    def hang(call: Call) -> None:
        if hanging.is_set():
            assert let_go.wait(60)

    world.api.react(hang)
    leader = world.leader("one")
    hanging.set()
    passed = world.pass_time_until(lambda: "stopped" in leader.log, hanging=True)
    leader.result()
    assert 9.5 <= passed <= 10.5
    let_go.set()


def test_work_that_does_not_end_after_a_lost_lease_holds_run_up_only_until_the_lease_has_run_out(world: World) -> None:
    leader = world.leader("one")
    leader.may_end.clear()
    world.api.fail("replace", "leases", TransportError("reset"), times=1000)
    passed = world.pass_time_until(lambda: "stopped" in leader.log)
    leader.result()
    assert 14.5 <= passed <= 15.5


def test_is_leader_turns_false_by_itself_when_the_lease_runs_out(world: World) -> None:
    leader = world.leader("one")
    world.api.fail("replace", "leases", TransportError("reset"), times=1000)
    assert leader.elector.is_leader
    # One leap, as after a suspended machine: the threads have had no chance to notice.
    world.clock.advance(15)
    assert not leader.elector.is_leader


def test_work_that_fails_gives_the_lease_up_and_its_error_leaves_run(world: World) -> None:
    replica = world.replica("one")
    replica.work = Mock(side_effect=LookupError("a bug"))
    replica.start()
    world.pass_time_until(lambda: "stopped" in replica.log)
    with pytest.raises(LookupError, match="a bug"):
        replica.result()
    assert world.holder == ""


def test_returning_work_and_failing_listeners_end_no_leadership(world: World, caplog: pytest.LogCaptureFixture) -> None:
    replica = world.replica("one")
    replica.work = lambda stop: replica.log.append("started")
    replica.listen = Mock(side_effect=LookupError("a bug"))
    replica.start()
    world.pass_time_until(lambda: world.api.count("replace") >= 3)
    assert replica.elector.is_leader
    assert "the callback for a new leader has failed" in caplog.text
    replica.end()
    assert world.holder == ""


def test_stopping_a_replica_that_waits_ends_it_at_once_and_one_that_has_not_begun_too(world: World) -> None:
    two = world.replica("two")
    two.stop.set()
    two.start().result()
    assert two.log == ["stopped"]
    assert world.api.calls == []
    world.leader("one")
    three = world.replica("three").start()
    eventually(lambda: three.log == ["leader one"])
    three.end()
    assert three.log == ["leader one", "stopped"]
    assert world.holder == "one"
