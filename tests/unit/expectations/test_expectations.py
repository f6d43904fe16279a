import pytest

from tests.support.clock import FakeClock
from tests.support.threads import run_at_once
from tfoperator.expectations import ExpectationKey, Expectations, expectation_key
from tfoperator.expectations.expectations import DEFAULT_TTL

WORKERS = ExpectationKey("uid-1", "Worker", "pods")
PS = ExpectationKey("uid-1", "PS", "pods")
FULFILLED = ExpectationKey("uid-0", "Worker", "pods")
OTHER_JOB = ExpectationKey("uid-2", "Worker", "pods")


def satisfied(expectations: Expectations, key: ExpectationKey) -> bool:
    return key not in expectations.outstanding(key.owner_uid)


def pending(expectations: Expectations, key: ExpectationKey) -> tuple[int, frozenset[str]] | None:
    """The creations (negative if over-observed) and deletions outstanding; None if not set or expired."""
    entry = expectations._cache.get(key)
    return None if entry is None else (entry.creations, frozenset(entry.deletions))


@pytest.fixture
def expectations(clock: FakeClock) -> Expectations:
    return Expectations(clock=clock)


def test_concurrent_over_observation_goes_below_zero_and_is_satisfied(expectations: Expectations) -> None:
    expectations.expect_creations(WORKERS, 20)
    run_at_once(*[lambda: expectations.creation_observed(WORKERS)] * 21)
    assert pending(expectations, WORKERS) == (-1, frozenset())
    assert satisfied(expectations, WORKERS)


def test_expectations_expire_after_five_minutes_of_running(expectations: Expectations, clock: FakeClock) -> None:
    assert DEFAULT_TTL == 300
    expectations.expect_creations(WORKERS, 1)
    clock.advance(299)
    clock.jump_wall(86_400)
    assert not satisfied(expectations, WORKERS)
    clock.advance(1.5)
    assert satisfied(expectations, WORKERS)
    assert not expectations.outstanding("uid-1")
    assert pending(expectations, WORKERS) is None


def test_expired_owners_leave_nothing_behind(expectations: Expectations, clock: FakeClock) -> None:
    for number in range(100):
        expectations.expect_creations(ExpectationKey(f"uid-{number}", "Worker", "pods"), 1)
    clock.advance(301)
    expectations.expect_creations(WORKERS, 1)
    assert len(expectations._cache) == 1
    assert set(expectations._cache._keys_of) == {"uid-1"}


def test_at_the_bound_the_oldest_key_counts_as_satisfied_and_a_warning_says_so(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    expectations = Expectations(max_keys=2, clock=clock)
    expectations.expect_creations(FULFILLED, 1)
    expectations.creation_observed(FULFILLED)
    expectations.expect_creations(WORKERS, 3)
    expectations.expect_creations(PS, 1)
    assert caplog.records == [], "to drop a fulfilled key is not worth a word"
    expectations.expect_deletions(OTHER_JOB, ["a"])
    assert satisfied(expectations, WORKERS)
    assert not satisfied(expectations, PS)
    assert not satisfied(expectations, OTHER_JOB)
    assert len(expectations._cache) == 2
    [record] = caplog.records
    assert "3 creations" in record.message
    assert "uid-1/Worker/pods" in record.message


def test_a_bound_of_one_key_is_a_bound_and_dropped_deletions_are_in_the_warning(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    expectations = Expectations(max_keys=1, clock=clock)
    expectations.expect_deletions(WORKERS, ["a", "b"])
    expectations.expect_creations(PS, 1)
    assert satisfied(expectations, WORKERS)
    [record] = caplog.records
    assert (
        "more than 1 expectations are recorded: no longer waiting for 0 creations and 2 deletions of" in record.message
    )


def test_a_key_is_the_same_for_a_replica_type_in_any_case_and_there_is_one_for_objects_of_no_replica() -> None:
    assert expectation_key("u", "Worker", "pods") == expectation_key("u", "worker", "pods")
    assert expectation_key("u", "worker", "pods") == ExpectationKey("u", "worker", "pods")
    assert expectation_key("u", None, "pods") == expectation_key("u", "", "pods") == ExpectationKey("u", "", "pods")


@pytest.mark.parametrize(("ttl", "max_keys"), [(0, 1), (-1, 1), (1, 0)])
def test_a_nonsensical_bound_is_refused(ttl: float, max_keys: int) -> None:
    with pytest.raises(ValueError, match="ttl"):
        Expectations(ttl=ttl, max_keys=max_keys)
