from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.clock import FakeClock
from tests.support.memory_objects import MemoryObjects
from tests.support.threads import InThread
from tfoperator.launcher import OwnershipLost
from tfoperator.pipeline import RunInProgress
from tfoperator.pipeline.lease import LEASE_SECONDS, RunLease, SeenRunLease, acquire
from tfoperator.pipeline.objects import ObjectStoreError

KEY = "runs/x/lease.json"


@pytest.fixture
def objects(clock: FakeClock) -> MemoryObjects:
    return MemoryObjects(clock)


def held(objects: MemoryObjects, clock: FakeClock) -> RunLease:
    lease = RunLease(objects, KEY, clock)
    acquire(lease, clock, "run x", wait=False)
    return lease


def test_a_lease_that_nobody_holds_is_had_at_once_and_given_back(objects: MemoryObjects, clock: FakeClock) -> None:
    first = held(objects, clock)
    assert (first.held(), first.term) == (True, 1)
    with pytest.raises(
        RunInProgress, match=r"run x is under way: held by .* \(process \d+\), until 2026-01-01T00:00:30Z"
    ):
        held(objects, clock)
    first.release()
    second = held(objects, clock)
    assert (first.held(), second.held(), second.term) == (False, True, 2)
    with pytest.raises(OwnershipLost):
        first.check()


def test_who_comes_after_a_dead_holder_waits_until_the_lease_has_run_out(
    objects: MemoryObjects, clock: FakeClock
) -> None:
    dead, successor, told = held(objects, clock), RunLease(objects, KEY, clock), list[str]()
    call = InThread(lambda: acquire(successor, clock, "run x", wait=True, tell=told.append))
    passed = 0.0
    while call.running and passed < 60:
        assert not successor.held() or passed >= LEASE_SECONDS
        clock.wait_for_waiters()
        clock.advance(1)
        passed += 1
        call.join(0.05)
    call.result()
    assert LEASE_SECONDS < passed < LEASE_SECONDS * 1.2
    assert (dead.held(), successor.held(), successor.term) == (False, True, 2)
    assert told == [f"run x was {told[0].split('was ')[1]}"]
    assert "waiting for 32 s until it has run out" in told[0]


def test_who_comes_long_after_it_does_not_wait(objects: MemoryObjects, clock: FakeClock) -> None:
    held(objects, clock)
    clock.advance(60)
    assert held(objects, clock).held()


def test_who_waits_for_a_holder_that_lives_is_told_so_at_its_first_renewal(
    objects: MemoryObjects, clock: FakeClock
) -> None:
    living, other = held(objects, clock), RunLease(objects, KEY, clock)
    call = InThread(lambda: acquire(other, clock, "run x", wait=True))
    clock.wait_for_waiters()
    living.renew()
    clock.advance(5)
    with pytest.raises(RunInProgress):
        call.result()
    assert living.held()


@pytest.mark.parametrize("passes", [FakeClock.advance, FakeClock.jump_wall], ids=["late", "it has slept"])
def test_who_could_not_renew_in_time_goes_on_if_nobody_has_taken_over(
    objects: MemoryObjects, clock: FakeClock, passes: Callable[..., None]
) -> None:
    lease = held(objects, clock)
    passes(clock, 100)
    assert not lease.held()
    lease.check()
    assert lease.held()


def test_a_renewal_whose_answer_was_lost_is_found_again(objects: MemoryObjects, clock: FakeClock) -> None:
    lease = held(objects, clock)
    objects.loses_answers = True
    with pytest.raises(ObjectStoreError):
        lease.renew()
    objects.loses_answers = False
    lease.renew()
    assert (lease.held(), lease.term) == (True, 1)


def test_two_threads_of_a_holder_may_renew_at_once(objects: MemoryObjects, clock: FakeClock) -> None:
    lease = held(objects, clock)
    both = threading.Barrier(2)

    def wait_once() -> None:
        objects.on_the_way = lambda: None
        both.wait(60)

    objects.on_the_way = wait_once
    call = InThread(lease.renew)
    both.wait(60)
    lease.renew()
    call.result()
    assert lease.held()


def test_a_lease_that_can_not_be_read_is_said_and_not_taken(objects: MemoryObjects, clock: FakeClock) -> None:
    objects.put(KEY, b"\xff")
    with pytest.raises(ObjectStoreError, match="a lease can't be read"):
        held(objects, clock)


class OwnClock(FakeClock):
    """A machine's clocks: they run faster or slower than the world's, and one of them stands still in its sleep."""

    def __init__(self, world: FakeClock, rate: float, offset: float) -> None:
        super().__init__()
        self._world, self.rate, self._offset, self.slept = world, rate, offset, 0.0

    def monotonic(self) -> float:
        return self._world.monotonic() * self.rate - self.slept

    def now(self) -> datetime:
        passed = self._world.monotonic() * self.rate + self._offset
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=passed)


SECONDS = st.sampled_from([1.0, 28.5, 50.0])
DELAY = st.sampled_from([0.0, 0.0, 0.0, 0.0, 1.0, 29.0])
RARELY = st.sampled_from([False, False, False, False, True])
WHO = st.integers(0, 1)


class Runners(RuleBasedStateMachine):
    """Two runners of one run, whose clocks differ, on whose way anything may take any time, and answers get lost."""

    @initialize(rates=st.tuples(*[st.floats(0.98, 1.02)] * 2), offsets=st.tuples(*[st.floats(-1e6, 1e6)] * 2))
    def begin(self, rates: tuple[float, ...], offsets: tuple[float, ...]) -> None:
        self.world = FakeClock()
        self.objects = MemoryObjects(self.world)
        self.clocks = [OwnClock(self.world, *both) for both in zip(rates, offsets, strict=True)]
        self.leases = [RunLease(self.objects, KEY, clock) for clock in self.clocks]
        self.seen: list[SeenRunLease | None] = [None] * 2
        self.holders: dict[int, int] = {}
        self.tries(0, 0.0, 0.0, 0.0, lost=False)

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule(who=WHO, seconds=SECONDS)
    def sleeps(self, who: int, seconds: float) -> None:
        self.clocks[who].slept += seconds * self.clocks[who].rate
        self.world.advance(seconds)

    @rule(who=WHO, between=DELAY, delay=DELAY, back=DELAY, lost=RARELY)
    def tries(self, who: int, between: float, delay: float, back: float, lost: bool) -> None:
        """As `acquire` does, with a pause between looking and taking."""
        if self.leases[who].held():
            return
        self.seen[who] = seen = self.leases[who].look(self.seen[who])
        self.world.advance(between)
        self.during(delay, back, lost, lambda: self.leases[who].take(seen))
        if self.leases[who].held():
            assert self.holders.setdefault(self.leases[who].term, who) == who

    @rule(who=WHO, delay=DELAY, back=DELAY, lost=RARELY)
    def renews(self, who: int, delay: float, back: float, lost: bool) -> None:
        if self.leases[who].term:
            self.during(delay, back, lost, self.leases[who].renew)

    @rule(who=WHO, delay=DELAY, back=DELAY)
    def releases(self, who: int, delay: float, back: float) -> None:
        self.during(delay, back, False, self.leases[who].release)

    def during(self, delay: float, back: float, lost: bool, call: Callable[[], object]) -> None:
        def passes(seconds: float) -> None:
            self.world.advance(seconds)
            self.one_owner()

        self.objects.on_the_way, self.objects.on_the_way_back = lambda: passes(delay), lambda: passes(back)
        self.objects.loses_answers = lost
        try:
            call()
        except (OwnershipLost, ObjectStoreError):
            pass
        finally:
            self.objects.on_the_way = self.objects.on_the_way_back = lambda: None
            self.objects.loses_answers = False

    @invariant()
    def one_owner(self) -> None:
        owners = [number for number, lease in enumerate(getattr(self, "leases", ())) if lease.held()]
        assert len(owners) <= 1, owners


TestRunners = Runners.TestCase
TestRunners.settings = settings(max_examples=100, stateful_step_count=20, deadline=None)
