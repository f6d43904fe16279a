"""A lease that several hold together: it stays theirs while one renews it, and nobody ever works beside another."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.clock import FakeClock
from tests.support.fake_api import Call, FakeApi, api_error
from tfoperator.kube.resources import LEASES
from tfoperator.leaderelection import LeaseLock
from tfoperator.leaderelection.candidate import Candidate, Seen
from tfoperator.leaderelection.lease import Lease, LeaseRecord
from tfoperator.leaderelection.shared import SharedCandidate, shared_since

DURATION = 15


def lease(holder: str, transitions: int = 0) -> Lease:
    return Lease(LeaseRecord(holder=holder, duration_seconds=DURATION, transitions=transitions), {})


class One:
    """Somebody who competes for a lease, and what was seen of it."""

    def __init__(
        self,
        api: FakeApi,
        clock: FakeClock,
        identity: str,
        name: str = "op",
        *,
        shared: bool = True,
        duration: float = DURATION,
    ) -> None:
        lock = LeaseLock(api, namespace="ns", name=name, identity=identity)
        self.clock = clock
        self.candidate = (SharedCandidate if shared else Candidate)(lock, lease_duration=duration, clock=clock)
        self.seen = Seen()
        self.held = False

    def attempt(self) -> bool:
        self.held, self.seen = self.candidate.attempt(self.seen)
        return self.held

    @property
    def valid(self) -> bool:
        """As an elector says it of a leader."""
        return self.candidate.holds(self.seen) and self.clock.monotonic() < self.seen.since + DURATION


# What a look at the record means.


def test_a_renewal_by_another_of_us_counts_from_the_look_before_it() -> None:
    assert shared_since(Seen(lease("us"), 3, 7), lease("us", 1).record, "us") == 7


@pytest.mark.parametrize(
    ("before", "record"),
    [
        (Seen(lease("us"), 3, 7), lease("us").record),
        (Seen(lease("us"), 3, 7), lease("them").record),
        (Seen(lease("us"), 3, 7), lease("").record),
        (Seen(), lease("us").record),
    ],
    ids=["unchanged", "another holds it", "nobody holds it", "never seen"],
)
def test_otherwise_it_must_be_renewed_or_is_not_ours(before: Seen, record: LeaseRecord) -> None:
    assert shared_since(before, record, "us") is None


# One after the other.


def test_all_of_one_identity_hold_it_and_only_one_of_them_writes(api: FakeApi, clock: FakeClock) -> None:
    members = [One(api, clock, "us") for _ in range(3)]
    assert all(member.attempt() for member in members)
    api.calls.clear()
    for _ in range(20):
        clock.advance(2)
        assert all(member.attempt() and member.valid for member in members)
    assert sum(call.verb == "replace" for call in api.calls) == 20
    assert sum(call.verb == "get" for call in api.calls) == 60


def test_another_identity_gets_it_when_the_last_has_been_silent_for_its_duration(
    api: FakeApi, clock: FakeClock
) -> None:
    first, second, other = (One(api, clock, name) for name in ("us", "us", "them"))
    assert first.attempt()
    assert second.attempt()
    for _ in range(30):  # the first has ended
        clock.advance(1)
        assert second.attempt()
        assert not other.attempt()
    clock.advance(DURATION - 1)
    assert not other.attempt()
    clock.advance(1)
    assert other.attempt()
    assert not second.valid
    assert not second.attempt()


def test_it_is_not_released_by_one_of_many(api: FakeApi, clock: FakeClock) -> None:
    first, other = One(api, clock, "us"), One(api, clock, "them")
    assert first.attempt()
    assert first.candidate.release()
    assert not other.attempt()


def test_a_renewal_that_another_of_us_was_faster_with_loses_nothing(api: FakeApi, clock: FakeClock) -> None:
    first, second = One(api, clock, "us"), One(api, clock, "us")
    assert first.attempt()
    assert second.attempt()
    clock.advance(5)
    api.fail("replace", "leases", api_error(409, "Conflict"))
    assert not first.attempt()
    assert first.valid
    clock.advance(1)
    assert second.attempt()
    assert first.attempt()
    assert first.seen.since == 5


def test_who_joins_while_others_renew_counts_from_its_own_look(api: FakeApi, clock: FakeClock) -> None:
    first, late = One(api, clock, "us"), One(api, clock, "us")
    assert first.attempt()
    clock.advance(5)
    api.fail("replace", "leases", api_error(409, "Conflict"))
    assert not late.attempt()
    assert not late.valid
    clock.advance(1)
    assert first.attempt()
    assert late.attempt()
    assert late.seen.since == 5


def test_who_was_paused_and_finds_it_lost_waits_as_long_as_anybody(api: FakeApi, clock: FakeClock) -> None:
    one, other = One(api, clock, "us"), One(api, clock, "them")
    assert one.attempt()
    assert not other.attempt()

    def pause(call: Call) -> None:
        """Before the server reads the lease: the other takes it over."""
        if call.verb == "get" and not other.held:
            clock.advance(DURATION)
            other.held = True
            assert other.attempt()

    api.react(pause)
    assert not one.attempt()
    clock.advance(DURATION - 1)
    assert not one.attempt()
    assert other.valid
    clock.advance(1)
    assert one.attempt()
    assert not other.valid


def test_a_lease_that_somebody_deleted_is_made_again(api: FakeApi, clock: FakeClock) -> None:
    one = One(api, clock, "us")
    assert one.attempt()
    api.remove(LEASES, "ns", "op")
    clock.advance(1)
    assert one.attempt()
    assert api.names(LEASES) == ["op"]


def test_it_is_good_for_as_long_as_the_most_patient_of_us_believes(api: FakeApi, clock: FakeClock) -> None:
    patient, hasty, other = One(api, clock, "us", duration=60), One(api, clock, "us"), One(api, clock, "them")
    assert patient.attempt()
    assert hasty.attempt()
    clock.advance(1)
    assert hasty.attempt()
    assert not other.attempt()
    clock.advance(59)
    assert not other.attempt()
    clock.advance(1)
    assert other.attempt()


def test_who_did_not_notice_that_others_had_it_meanwhile_has_lost_it(api: FakeApi, clock: FakeClock) -> None:
    asleep, other, later = One(api, clock, "us"), One(api, clock, "them"), One(api, clock, "us")
    assert asleep.attempt()
    for one in (other, later):
        assert not one.attempt()
        clock.advance(DURATION)
        assert one.attempt()
    # Its machine was suspended, and its clock with it.
    asleep.seen = msgspec.structs.replace(asleep.seen, since=clock.monotonic(), looked=clock.monotonic())
    assert not asleep.attempt()
    assert not asleep.valid


def test_no_answer_keeps_what_was_seen(api: FakeApi, clock: FakeClock) -> None:
    one = One(api, clock, "us")
    assert one.attempt()
    seen = one.seen
    api.fail("get", "leases", api_error(500))
    assert not one.attempt()
    assert one.seen == seen


# Layouts of shards, as the operator's election takes the two leases.


class Process:
    """A shard (`number` of `count`), or an operator without shards (`count` 0), which serves all namespaces."""

    def __init__(self, api: FakeApi, clock: FakeClock, count: int, number: int, identity: str) -> None:
        self.api, self.clock, self.count, self.number = api, clock, count, number
        self.busy = False
        self.start(identity)

    def start(self, identity: str) -> None:
        """Begin anew, as another process."""
        if self.count == 0:
            self.leases = [One(self.api, self.clock, identity, shared=False)]
            return
        own = One(self.api, self.clock, identity, f"op-{self.number}-of-{self.count}", shared=False)
        self.leases = [own, One(self.api, self.clock, f"shards-of-{self.count}")]

    def step(self) -> None:
        """Ask for the first lease, and for the second if the first is ours; nothing amid another step."""
        if self.busy:
            return
        self.busy = True
        for one in self.leases:
            one.attempt()
            if not one.valid:
                break
        self.busy = False

    @property
    def serves(self) -> bool:
        return all(one.valid for one in self.leases)

    def shares_a_namespace_with(self, other: Process) -> bool:
        return self.count != other.count or self.number == other.number


class World:
    """Processes of two layouts and one without shards, each on its own rhythm: they sleep, end and come again.

    Amid a request others act and time passes, as for a process that is paused, and some requests fail.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = FakeClock()
        self.api = FakeApi(now=self.clock.now)
        self.api.react(self.amid_a_request)
        self.names = itertools.count()
        self.depth = 0
        self.served: set[int] = set()
        self.processes = [
            Process(self.api, self.clock, count, number, f"process-{next(self.names)}")
            for count, number in ((2, 0), (2, 1), (2, 1), (3, 0), (0, 0))
        ]
        self.wakes = dict.fromkeys(range(len(self.processes)), 0.0)

    def amid_a_request(self, call: Call) -> None:
        if self.depth == 0 and self.rng.random() < 0.1:
            self.depth += 1
            for _ in range(self.rng.choice((1, 4, 20))):
                self.turn()
            self.depth -= 1
        if self.rng.random() < 0.05:
            raise api_error(500 if call.verb == "get" else self.rng.choice((409, 500)))

    def turn(self) -> None:
        """The process that wakes next does something."""
        number = min(self.wakes, key=lambda one: self.wakes[one])
        self.clock.advance(max(0.0, self.wakes[number] - self.clock.monotonic()))
        self.check()
        pause = self.rng.choice((5, 14, 15, 20, 40)) if self.rng.random() < 0.1 else self.rng.uniform(0.5, 2.2)
        self.wakes[number] = self.clock.monotonic() + pause
        process = self.processes[number]
        if self.rng.random() < 0.03 and not process.busy:
            if process.leases[0].valid and self.rng.random() < 0.5:
                process.leases[0].candidate.release()
            process.start(f"process-{next(self.names)}")
        process.step()
        self.check()

    def check(self) -> None:
        serving = [process for process in self.processes if process.serves]
        self.served |= {process.count for process in serving}
        for one, other in itertools.combinations(serving, 2):
            assert not one.shares_a_namespace_with(other), (one.count, one.number, other.count, other.number)


@given(st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_no_namespace_is_ever_served_twice(seed: int) -> None:
    world = World(seed)
    for _ in range(400):
        world.turn()
    assert world.served


def test_a_rollout_from_two_shards_to_three_ends_with_all_three(api: FakeApi, clock: FakeClock) -> None:
    """The pods of a StatefulSet, replaced from the last to the first: the new layout waits for the last of the old."""
    before = [Process(api, clock, 2, number, f"old-{number}") for number in range(2)]
    after = [Process(api, clock, 3, number, f"new-{number}") for number in range(3)]
    pods: list[Process] = list(before)

    def pass_time(seconds: int) -> None:
        for _ in range(seconds):
            clock.advance(1)
            for pod in pods:
                pod.step()

    pass_time(3)
    assert all(pod.serves for pod in before)
    pods.append(after[2])
    for number in (1, 0):
        pass_time(20)
        assert [pod.serves for pod in before[: number + 1]] == [True] * (number + 1)
        assert not any(pod.serves for pod in after)
        pods[number] = after[number]
    pass_time(DURATION + 1)
    assert all(pod.serves for pod in after)


def test_who_goes_back_to_one_process_waits_for_the_last_shard(api: FakeApi, clock: FakeClock) -> None:
    shards = [Process(api, clock, 2, number, f"shard-{number}") for number in range(2)]
    single = Process(api, clock, 0, 0, "single")
    for alive in (shards, shards[:1], []):
        for _ in range(20):
            clock.advance(1)
            for process in (*alive, single):
                process.step()
        assert single.serves == (not alive)
