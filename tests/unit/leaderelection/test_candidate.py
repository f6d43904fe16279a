from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.fake_api import FakeApi, api_error
from tfoperator.kube.protocol.errors import TransportError
from tfoperator.kube.protocol.resources import LEASES
from tfoperator.leaderelection import LeaseLock
from tfoperator.leaderelection.candidate import Candidate, SeenLease


class One:
    """A candidate that remembers what it saw."""

    def __init__(self, api: FakeApi, clock: FakeClock, identity: str) -> None:
        lock = LeaseLock(api, namespace="kubeflow", name="tfoperator", identity=identity)
        self.candidate = Candidate(lock, lease_duration=15, clock=clock)
        self.seen = SeenLease()

    def attempt(self) -> bool:
        held, self.seen = self.candidate.attempt(self.seen)
        return held

    def release(self) -> bool:
        return self.candidate.release()


@pytest.fixture
def me(api: FakeApi, clock: FakeClock) -> One:
    return One(api, clock, "me")


@pytest.fixture
def other(api: FakeApi, clock: FakeClock) -> One:
    return One(api, clock, "other")


def spec(api: FakeApi) -> dict[str, Any]:
    [lease] = api.objects(LEASES)
    return lease["spec"]


def record(acquired: int, renewed: int, transitions: int) -> dict[str, Any]:
    """Return the content of our lease; times are in seconds since the clock began."""
    times = {"acquireTime": acquired, "renewTime": renewed}
    written = {name: f"2026-01-01T00:00:{seconds:02}.000000Z" for name, seconds in times.items()}
    return {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": transitions, **written}


def put(api: FakeApi, **fields: Any) -> None:
    api.put(LEASES, {"metadata": {"namespace": "kubeflow", "name": "tfoperator"}, "spec": fields})


def calls(api: FakeApi) -> list[str]:
    made = [call.verb for call in api.calls]
    api.calls.clear()
    return made


@pytest.mark.parametrize(
    ("before", "transitions"),
    [
        ({}, 1),
        *(({"holderIdentity": who, "leaseTransitions": 4}, then) for who, then in (("", 5), (None, 5), ("me", 4))),
    ],
    ids=["without_a_record", "held_by_nobody", "held_by_null", "its own, of an earlier process"],
)
def test_an_unheld_lease_is_taken_at_once(api: FakeApi, me: One, before: dict[str, Any], transitions: int) -> None:
    put(api, leaseDurationSeconds=3600, **before) if before else put(api)
    assert me.attempt()
    assert (spec(api)["holderIdentity"], spec(api)["leaseTransitions"]) == ("me", transitions)


def test_a_held_lease_lasts_until_its_time_is_over(api: FakeApi, me: One, other: One, clock: FakeClock) -> None:
    assert other.attempt()
    assert not me.attempt()
    clock.advance(14.9)
    assert not me.attempt()
    assert (me.seen.holder, spec(api)["holderIdentity"]) == ("other", "other")
    clock.advance(0.1)
    assert me.attempt()
    assert spec(api) == record(acquired=15, renewed=15, transitions=1)


@pytest.mark.parametrize(("written", "lasts"), [({"leaseDurationSeconds": 2}, 2), ({}, 15)])
def test_the_duration_that_the_holder_wrote_itself_counts_or_ours(
    api: FakeApi, me: One, clock: FakeClock, written: dict[str, int], lasts: int
) -> None:
    # An old time of another clock is no reason to take over.
    put(api, holderIdentity="other", renewTime="2001-01-01T00:00:00.000000Z", **written)
    assert not me.attempt()
    clock.jump_wall(3600)
    clock.advance(lasts - 1)
    assert not me.attempt()
    clock.advance(1)
    assert me.attempt()


def test_renewals_and_nothing_else_start_the_wait_anew(api: FakeApi, me: One, other: One, clock: FakeClock) -> None:
    for _ in range(5):
        assert other.attempt()
        assert not me.attempt()
        clock.advance(10)
    api.edit(LEASES, "kubeflow", "tfoperator", {"metadata": {"labels": {"a": "b"}}})
    clock.advance(5)
    assert me.attempt()


def test_a_renewal_is_one_request_but_for_conflicts_and_if_it_is_late(api: FakeApi, me: One, clock: FakeClock) -> None:
    put(api, holderIdentity="", leaseTransitions=6)
    assert me.attempt()
    calls(api)
    clock.advance(2)
    assert me.attempt()
    assert calls(api) == ["replace"]
    assert spec(api) == record(acquired=0, renewed=2, transitions=7)
    api.edit(LEASES, "kubeflow", "tfoperator", {"metadata": {"labels": {"a": "b"}}})
    calls(api)
    assert me.attempt()
    assert calls(api) == ["replace", "get", "replace"]
    clock.advance(40)  # the lease has run out, and is untouched
    assert me.attempt()
    assert calls(api) == ["get", "replace"]
    assert spec(api) == record(acquired=0, renewed=42, transitions=7)


def test_a_lease_of_ours_counts_from_before_a_slow_request(api: FakeApi, me: One, clock: FakeClock) -> None:
    # Others may see the write as soon as it was sent, so their time to wait runs from there.
    api.react(lambda _: clock.advance(3))
    for _ in ("created", "renewed"):
        began = clock.monotonic()
        assert me.attempt()
        assert me.seen.since == began < clock.monotonic()


def test_a_deleted_lease_is_its_holders_for_its_time(api: FakeApi, me: One, other: One, clock: FakeClock) -> None:
    assert other.attempt()
    assert not me.attempt()
    api.remove(LEASES, "kubeflow", "tfoperator")
    clock.advance(14)
    assert not me.attempt()
    clock.advance(1)
    assert me.attempt()
    api.remove(LEASES, "kubeflow", "tfoperator")
    assert me.attempt()
    assert spec(api)["holderIdentity"] == "me"


def test_of_two_candidates_that_race_for_a_free_lease_one_wins(api: FakeApi, me: One, other: One) -> None:
    put(api, holderIdentity="")
    raced = []

    def race(call) -> None:
        if call.verb == "replace" and not raced:
            raced.append(call)
            assert other.attempt()

    api.react(race)
    assert not me.attempt()
    assert spec(api)["holderIdentity"] == "other"


@pytest.mark.parametrize("verb", ["get", "create"])
@pytest.mark.parametrize("error", [TransportError("reset"), api_error(500), api_error(403)])
def test_a_failing_server_means_no_lease_and_no_exception(
    api: FakeApi, me: One, verb: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    api.fail(verb, "leases", error)
    assert not me.attempt()
    assert "kubeflow/tfoperator" in caplog.text
    assert me.attempt()


@pytest.mark.parametrize("arrived", [False, True], ids=["lost", "whose answer was lost"])
def test_a_failed_renewal_leaves_the_lease_where_it_was(api: FakeApi, me: One, clock: FakeClock, arrived: bool) -> None:
    assert me.attempt()
    since = me.seen.since
    clock.advance(5)
    if arrived:
        renewed = spec(api) | {"renewTime": "2026-01-01T00:00:04.000000Z"}
        api.edit(LEASES, "kubeflow", "tfoperator", {"spec": renewed})
    api.fail("replace", "leases", TransportError("reset"), times=2)
    assert not me.attempt()
    assert me.candidate.holds(me.seen)
    assert me.seen.since == since
    assert me.attempt()


def test_a_lease_that_cannot_be_read_is_left_alone(api: FakeApi, me: One, caplog: pytest.LogCaptureFixture) -> None:
    put(api, leaseDurationSeconds="much")
    assert not me.attempt()
    assert "can't be read" in caplog.text


def test_an_absent_lease_is_created_and_a_released_one_can_be_taken_at_once(api: FakeApi, me: One, other: One) -> None:
    assert me.attempt()
    assert spec(api) == record(acquired=0, renewed=0, transitions=0)
    assert not other.attempt()
    assert me.release()
    assert (spec(api)["holderIdentity"], spec(api)["leaseDurationSeconds"]) == ("", 1)
    assert spec(api)["leaseTransitions"] == 0
    assert other.attempt()
    assert spec(api)["leaseTransitions"] == 1


def test_a_release_never_takes_the_lease_from_a_new_leader_and_makes_none(api: FakeApi, me: One) -> None:
    assert me.attempt()
    put(api, holderIdentity="other", leaseDurationSeconds=15)
    calls(api)
    assert me.release()
    assert calls(api) == ["get"]
    assert spec(api)["holderIdentity"] == "other"
    api.remove(LEASES, "kubeflow", "tfoperator")
    assert me.release()
    assert api.objects(LEASES) == []


def test_a_release_that_meets_conflicts_ends_some_time(api: FakeApi, me: One, caplog: pytest.LogCaptureFixture) -> None:
    assert me.attempt()
    calls(api)
    api.fail("replace", "leases", api_error(409, "Conflict"), times=9)
    assert not me.release()
    assert calls(api) == ["get", "replace"] * 5
    assert "will expire" in caplog.text
    assert me.release()
    assert calls(api) == ["get", "replace"] * 5
    assert spec(api)["holderIdentity"] == ""


@pytest.mark.parametrize("verb", ["get", "replace"])
def test_a_release_that_the_server_does_not_answer_is_left_to_expiry(api: FakeApi, me: One, verb: str) -> None:
    assert me.attempt()
    api.fail(verb, "leases", TransportError("reset"))
    assert not me.release()
    assert spec(api)["holderIdentity"] == "me"
