from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import event

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.threads import InThread
from tests.unit.pipeline.samples import Place, home_of
from tfoperator.base.clock import SystemClock
from tfoperator.launcher import OwnershipLost
from tfoperator.pipeline import MetadataStore, RunInProgress, StoreError
from tfoperator.pipeline.lease import LEASE_SECONDS, RunLease
from tfoperator.pipeline.store.records import RecordedLease

NAME = "x"
DAY = 86400.0


@contextmanager
def store_at(world: FakeClock, folder: Path) -> Iterator[MetadataStore]:
    """A store whose time is a clock of the test."""
    store = MetadataStore(folder / "metadata.db")
    engine = store.database._engine
    engine.dispose()

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.create_function("julianday", 1, lambda _: 2440587.5 + world.now().timestamp() / DAY)

    with store:
        yield store


@pytest.fixture
def store(clock: FakeClock, tmp_path: Path) -> Iterator[MetadataStore]:
    with store_at(clock, tmp_path) as store:
        yield store


def held(store: MetadataStore, clock: FakeClock, when_lost: Callable[[], object] = lambda: None) -> RunLease:
    lease = RunLease(store, NAME, clock, when_lost=when_lost)
    lease.acquire(wait=False)
    return lease


def test_a_lease_that_nobody_holds_is_had_at_once_and_given_back(store: MetadataStore, clock: FakeClock) -> None:
    first = held(store, clock)
    assert (first.held(), first.term) == (True, 1)
    with pytest.raises(RunInProgress, match=r"x is under way: held by .* \(process \d+\), until 2026-01-01T00:00:31Z"):
        held(store, clock)
    first.release()
    second = held(store, clock)
    assert (first.held(), second.held(), second.term) == (False, True, 2)
    with pytest.raises(OwnershipLost):
        first.check()


def test_who_comes_after_a_dead_holder_waits_until_the_lease_has_run_out(
    store: MetadataStore, clock: FakeClock
) -> None:
    dead, successor, messages = held(store, clock), RunLease(store, NAME, clock), list[str]()
    call = InThread(lambda: successor.acquire(wait=True, tell=messages.append))
    passed = 0.0
    while call.running and passed < 60:
        assert not successor.held() or passed >= LEASE_SECONDS
        eventually(lambda: clock.at_rest() or not call.running)
        clock.advance(1)
        passed += 1
        call.join(0.05)
    call.result()
    assert LEASE_SECONDS < passed < LEASE_SECONDS * 1.2
    assert (dead.held(), successor.held(), successor.term) == (False, True, 2)
    assert (
        "waiting for 31 s until the lease has expired" in messages[0]
        or "waiting for 32 s until the lease has expired" in messages[0]
    )


def test_who_comes_late_or_after_a_new_start_of_the_machine_does_not_wait(
    store: MetadataStore, clock: FakeClock
) -> None:
    held(store, clock)
    clock.advance(60)
    assert held(store, clock).held()
    assert store.take_lease(NAME, RecordedLease(holder="other"), 30.0) == 0
    assert RunLease(store, "y", clock, kernel="k").take()
    assert store.take_lease("y", RecordedLease(holder="other", kernel="l"), 30.0) == 0
    assert store.take_lease("y", RecordedLease(holder="other", kernel="k"), 30.0) == 2


def test_who_waits_for_a_living_holder_is_told_so_at_its_first_renewal(store: MetadataStore, clock: FakeClock) -> None:
    living, other = held(store, clock), RunLease(store, NAME, clock)
    call = InThread(lambda: other.acquire(wait=True))
    clock.wait_for_waiters()
    clock.advance(1)
    living.renew()
    clock.advance(5)
    with pytest.raises(RunInProgress):
        call.result()
    assert living.held()


@pytest.mark.parametrize("passes", [FakeClock.advance, FakeClock.jump_wall], ids=["late", "it has slept"])
def test_a_late_holder_goes_on_if_nobody_took_over(store: MetadataStore, clock: FakeClock, passes: Any) -> None:
    lease = held(store, clock)
    passes(clock, 100)
    assert not lease.held()
    lease.check()
    assert lease.held()


@pytest.mark.parametrize("outage", [20.0, 40.0])
def test_an_outage_longer_than_its_lease_ends_a_holder(store: MetadataStore, clock: FakeClock, outage: float) -> None:
    way: Any = Way(store)
    ended, survives = list[str](), outage < LEASE_SECONDS
    lease = held(way, clock, when_lost=lambda: ended.append("lost"))
    with lease:
        for second in range(60):
            way.loses_answers = second < outage
            clock.wait_for_waiters()
            clock.advance(1)
        # Also now that the store is back, for its containers are not stopped.
        with nullcontext() if survives else pytest.raises(StoreError, match="no answer"):
            lease.check()
    assert ended == ["lost"] * (not survives)


@pytest.mark.usefixtures("place")
def test_a_lease_runs_out_in_the_time_of_the_database(tmp_path: Path, place: Place) -> None:
    clock = SystemClock()
    with home_of(tmp_path).store() as store:
        first, second = (RunLease(store, NAME, clock, seconds=2.0) for _ in range(2))
        assert (first.take(), second.take(), first.term) == (True, False, 1)
        assert 0 < store.lease(NAME).left <= 2.1
        second.acquire(wait=True)
        assert (second.term, store.lease(NAME).holder != "", first.held()) == (2, True, False)
        with pytest.raises(OwnershipLost):
            first.renew()


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


class Way:
    """The way to the database and back: it takes time, and answers get lost."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.forth = self.back = lambda: None
        self.loses_answers = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.forth()
            answer = getattr(self._store, name)(*arguments, **options)
            self.back()
            if self.loses_answers:
                raise StoreError("no answer")
            return answer

        return call


SECONDS = st.sampled_from([1.0, 28.5, 50.0])
DELAY = st.sampled_from([0.0, 0.0, 0.0, 0.0, 1.0, 29.0])
RARELY = st.sampled_from([False, False, False, False, True])
WHO = st.integers(0, 1)


class Runners(RuleBasedStateMachine):
    """Two runners of one run, whose clocks differ, on whose way anything may take any time, and answers get lost."""

    @initialize(rates=st.tuples(*[st.floats(0.98, 1.02)] * 2), offsets=st.tuples(*[st.floats(-1e6, 1e6)] * 2))
    def begin(self, rates: tuple[float, ...], offsets: tuple[float, ...]) -> None:
        self.folder = TemporaryDirectory(ignore_cleanup_errors=True)
        self.world = FakeClock()
        self.context = store_at(self.world, Path(self.folder.name))
        self.way: Any = Way(self.context.__enter__())
        clocks = [OwnClock(self.world, *both) for both in zip(rates, offsets, strict=True)]
        self.clocks, self.leases = clocks, [RunLease(self.way, NAME, clock) for clock in clocks]
        self.holders: dict[int, int] = {}
        self.tries(0, 0.0, 0.0, lost=False)

    def teardown(self) -> None:
        if hasattr(self, "context"):
            self.context.__exit__(None, None, None)
            self.folder.cleanup()

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule(who=WHO, seconds=SECONDS)
    def sleeps(self, who: int, seconds: float) -> None:
        self.clocks[who].slept += seconds * self.clocks[who].rate
        self.world.advance(seconds)

    @rule(who=WHO, delay=DELAY, back=DELAY, lost=RARELY)
    def tries(self, who: int, delay: float, back: float, lost: bool) -> None:
        if self.leases[who].held():
            return
        self.during(delay, back, lost, self.leases[who].take)
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

        self.way.forth, self.way.back = lambda: passes(delay), lambda: passes(back)
        self.way.loses_answers = lost
        try:
            call()
        except (OwnershipLost, StoreError):
            pass
        finally:
            self.way.forth = self.way.back = lambda: None
            self.way.loses_answers = False

    @invariant()
    def one_owner(self) -> None:
        owners = [number for number, lease in enumerate(getattr(self, "leases", ())) if lease.held()]
        assert len(owners) <= 1, owners


TestRunners = Runners.TestCase
TestRunners.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
