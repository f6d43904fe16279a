from __future__ import annotations

import logging

import pytest

from tests.support.clock import FakeClock
from tests.support.threads import run_at_once
from tfoperator.expectations import DEFAULT_TTL, ExpectationKey, Expectations

WORKERS = ExpectationKey("uid-1", "Worker", "pods")
WORKER_SERVICES = ExpectationKey("uid-1", "Worker", "services")
PS = ExpectationKey("uid-1", "PS", "pods")
OTHER_JOB = ExpectationKey("uid-2", "Worker", "pods")


def satisfied(expectations: Expectations, key: ExpectationKey) -> bool:
    return key not in expectations.outstanding(key.owner_uid)


def pending(expectations: Expectations, key: ExpectationKey) -> tuple[int, frozenset[str]] | None:
    """The creations (negative if over-observed) and deletions outstanding; None if not set or expired."""
    found = expectations._cache.get(key)
    return None if found is None else (found.creations, frozenset(found.deletions))


@pytest.fixture
def expectations(clock: FakeClock) -> Expectations:
    return Expectations(clock=clock)


def test_nothing_expected_is_satisfied(expectations: Expectations) -> None:
    assert satisfied(expectations, WORKERS)
    assert pending(expectations, WORKERS) is None


def test_creations_are_awaited_until_all_were_observed(expectations: Expectations) -> None:
    expectations.expect_creations(WORKERS, 2)
    expectations.creation_observed(WORKERS)
    assert not satisfied(expectations, WORKERS)
    assert pending(expectations, WORKERS) == (1, frozenset())
    expectations.creation_observed(WORKERS)
    assert satisfied(expectations, WORKERS)


def test_concurrent_over_observation_goes_below_zero_and_is_satisfied(expectations: Expectations) -> None:
    expectations.expect_creations(WORKERS, 20)
    run_at_once(*[lambda: expectations.creation_observed(WORKERS)] * 21)
    assert pending(expectations, WORKERS) == (-1, frozenset())
    assert satisfied(expectations, WORKERS)


def test_deletions_are_awaited_until_every_uid_was_seen(expectations: Expectations) -> None:
    expectations.expect_deletions(WORKERS, ["a", "b"])
    assert not expectations.deletion_observed(WORKERS, "a")
    assert not satisfied(expectations, WORKERS)
    assert expectations.deletion_observed(WORKERS, "b")
    assert satisfied(expectations, WORKERS)
    assert not expectations.deletion_observed(WORKERS, "b")


def test_only_uids_that_are_pending_count_as_deleted(expectations: Expectations) -> None:
    expectations.expect_deletions(WORKERS, ["a", "b"])
    for uid in ("a", "a", "stranger"):
        expectations.deletion_observed(WORKERS, uid)
    assert pending(expectations, WORKERS) == (0, frozenset({"b"}))


def test_one_sync_may_expect_both_creations_and_deletions(expectations: Expectations) -> None:
    expectations.expect_creations(WORKERS, 1)
    expectations.expect_deletions(WORKERS, ["a"])
    expectations.creation_observed(WORKERS)
    assert not satisfied(expectations, WORKERS)
    assert expectations.deletion_observed(WORKERS, "a")
    assert satisfied(expectations, WORKERS)
    expectations.expect_creations(WORKERS, 1)
    expectations.expect_deletions(WORKERS, ["b"])
    assert not expectations.deletion_observed(WORKERS, "b"), "a creation is still awaited"


def test_creations_are_set_and_deletions_add_up(expectations: Expectations) -> None:
    expectations.expect_creations(WORKERS, 5)
    expectations.expect_creations(WORKERS, 1)
    expectations.expect_deletions(WORKERS, ["a"])
    expectations.expect_deletions(WORKERS, ["b"])
    assert pending(expectations, WORKERS) == (1, frozenset({"a", "b"}))


def test_surplus_observations_do_not_count_for_what_is_expected_later(expectations: Expectations) -> None:
    expectations.expect_creations(WORKERS, 1)
    for _ in range(3):
        expectations.creation_observed(WORKERS)
    expectations.expect_deletions(WORKERS, ["a"])
    expectations.raise_creations(WORKERS, 1)
    assert pending(expectations, WORKERS) == (1, frozenset({"a"}))


def test_raising_adds_to_a_key_that_is_set_and_does_nothing_otherwise(expectations: Expectations) -> None:
    expectations.raise_creations(WORKERS, 1)
    expectations.creation_observed(WORKERS)
    expectations.deletion_observed(WORKERS, "a")
    assert pending(expectations, WORKERS) is None
    expectations.expect_creations(WORKERS, 1)
    expectations.raise_creations(WORKERS, 2)
    assert pending(expectations, WORKERS) == (3, frozenset())


def test_expectations_expire_after_five_minutes(expectations: Expectations, clock: FakeClock) -> None:
    assert DEFAULT_TTL == 300
    expectations.expect_creations(WORKERS, 1)
    clock.advance(299)
    assert not satisfied(expectations, WORKERS)
    clock.advance(1.5)
    assert satisfied(expectations, WORKERS)
    assert expectations.owner_satisfied("uid-1")
    assert pending(expectations, WORKERS) is None


def test_setting_restarts_the_time_to_live_and_raising_does_not(expectations: Expectations, clock: FakeClock) -> None:
    expectations.expect_creations(WORKERS, 1)
    expectations.expect_creations(PS, 1)
    clock.advance(200)
    expectations.expect_creations(WORKERS, 1)
    expectations.raise_creations(PS, 1)
    clock.advance(200)
    assert not satisfied(expectations, WORKERS)
    assert satisfied(expectations, PS)


def test_a_wall_clock_that_jumps_expires_nothing(expectations: Expectations, clock: FakeClock) -> None:
    expectations.expect_creations(WORKERS, 1)
    clock.jump_wall(86_400)
    assert not satisfied(expectations, WORKERS)


def test_an_owner_is_satisfied_when_all_its_keys_are(expectations: Expectations) -> None:
    expectations.expect_creations(WORKERS, 1)
    expectations.expect_creations(WORKER_SERVICES, 1)
    expectations.expect_deletions(PS, ["a"])
    expectations.expect_creations(OTHER_JOB, 1)
    expectations.creation_observed(WORKERS)
    expectations.creation_observed(WORKER_SERVICES)
    assert not expectations.owner_satisfied("uid-1")
    assert satisfied(expectations, WORKERS)
    expectations.deletion_observed(PS, "a")
    assert expectations.owner_satisfied("uid-1")
    assert not expectations.owner_satisfied("uid-2")
    assert expectations.owner_satisfied("never seen")


def test_forgetting_a_key_or_an_owner_forgets_only_that(expectations: Expectations) -> None:
    for key in (WORKERS, WORKER_SERVICES, PS, OTHER_JOB):
        expectations.expect_creations(key, 1)
    expectations.forget(WORKERS)
    assert pending(expectations, WORKERS) is None
    assert not expectations.owner_satisfied("uid-1")
    expectations.forget_owner("uid-1")
    expectations.forget_owner("never seen")
    assert expectations.owner_satisfied("uid-1")
    assert len(expectations) == 1
    assert pending(expectations, OTHER_JOB) == (1, frozenset())


def test_expired_owners_leave_nothing_behind(expectations: Expectations, clock: FakeClock) -> None:
    for number in range(100):
        expectations.expect_creations(ExpectationKey(f"uid-{number}", "Worker", "pods"), 1)
    clock.advance(301)
    expectations.expect_creations(WORKERS, 1)
    assert len(expectations) == 1
    assert set(expectations._cache._keys_of) == {"uid-1"}


def test_at_the_bound_the_oldest_key_counts_as_satisfied_and_a_warning_says_so(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    expectations = Expectations(max_keys=2, clock=clock)
    expectations.expect_creations(WORKERS, 3)
    expectations.expect_creations(PS, 1)
    with caplog.at_level(logging.WARNING):
        expectations.expect_deletions(OTHER_JOB, ["a"])
    assert satisfied(expectations, WORKERS)
    assert not satisfied(expectations, PS)
    assert not satisfied(expectations, OTHER_JOB)
    assert len(expectations) == 2
    [record] = caplog.records
    assert "3 creations" in record.message
    assert "uid-1/Worker/pods" in record.message


def test_dropping_a_fulfilled_key_at_the_bound_is_not_worth_a_word(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    expectations = Expectations(max_keys=1, clock=clock)
    expectations.expect_creations(WORKERS, 1)
    expectations.creation_observed(WORKERS)
    expectations.expect_creations(PS, 1)
    assert not satisfied(expectations, PS)
    assert caplog.records == []


@pytest.mark.parametrize(("ttl", "max_keys"), [(0, 1), (-1, 1), (1, 0)])
def test_a_nonsensical_bound_is_refused(ttl: float, max_keys: int) -> None:
    with pytest.raises(ValueError, match="ttl"):
        Expectations(ttl=ttl, max_keys=max_keys)
