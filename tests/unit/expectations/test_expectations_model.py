"""Random histories of expectations against a model without cache, index or lock."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.clock import FakeClock
from tests.unit.expectations.test_expectations import pending, satisfied
from tfoperator.expectations import ExpectationKey, Expectations

KEYS = [ExpectationKey(owner, kind, "pods") for owner in ("uid-1", "uid-2") for kind in ("PS", "Worker")]
TTL = 10


@dataclass
class Entry:
    since: int
    creations: int = 0
    deletions: set[str] = field(default_factory=set)

    @property
    def fulfilled(self) -> bool:
        return self.creations <= 0 and not self.deletions


keys = st.sampled_from(KEYS)
counts = st.integers(min_value=0, max_value=3)
uid = st.sampled_from("xyz")
uids = st.sets(uid)


class ExpectationsModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.expectations = Expectations(ttl=TTL, clock=self.clock)
        self.now = 0
        self.entries: dict[ExpectationKey, Entry] = {}

    def _set(self, key: ExpectationKey) -> Entry:
        entry = self.entries.get(key)
        if entry is None or entry.fulfilled:
            entry = self.entries[key] = Entry(self.now)
        entry.since = self.now
        return entry

    @rule(key=keys, count=counts)
    def expect_creations(self, key: ExpectationKey, count: int) -> None:
        self.expectations.expect_creations(key, count)
        self._set(key).creations = count

    @rule(key=keys, uids=uids)
    def expect_deletions(self, key: ExpectationKey, uids: set[str]) -> None:
        self.expectations.expect_deletions(key, uids)
        self._set(key).deletions |= uids

    @rule(key=keys)
    def observe_creation(self, key: ExpectationKey) -> None:
        self.expectations.creation_observed(key)
        if key in self.entries:
            self.entries[key].creations -= 1

    @rule(key=keys, uid=uid)
    def observe_deletion(self, key: ExpectationKey, uid: str) -> None:
        was_last = self.expectations.deletion_observed(key, uid)
        entry = self.entries.get(key)
        assert was_last == (entry is not None and entry.deletions == {uid} and entry.creations <= 0)
        if key in self.entries:
            self.entries[key].deletions.discard(uid)

    @rule(key=keys)
    def forget(self, key: ExpectationKey) -> None:
        self.expectations.forget(key)
        self.entries.pop(key, None)

    @rule(owner=st.sampled_from(["uid-1", "uid-2"]))
    def forget_owner(self, owner: str) -> None:
        self.expectations.forget_owner(owner)
        self.entries = {key: entry for key, entry in self.entries.items() if key.owner_uid != owner}

    @rule(seconds=st.integers(min_value=1, max_value=TTL + 1))
    def pass_time(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.now += seconds
        self.entries = {key: entry for key, entry in self.entries.items() if self.now - entry.since < TTL}

    @invariant()
    def agrees_with_the_model(self) -> None:
        for key in KEYS:
            entry = self.entries.get(key)
            expected = None if entry is None else (entry.creations, frozenset(entry.deletions))
            assert pending(self.expectations, key) == expected
            assert satisfied(self.expectations, key) == (entry is None or entry.fulfilled)
        for owner in ("uid-1", "uid-2"):
            mine = [entry for key, entry in self.entries.items() if key.owner_uid == owner]
            assert (not self.expectations.outstanding(owner)) == all(entry.fulfilled for entry in mine)
        assert len(self.expectations._cache) == len(self.entries)


TestExpectationsModel = ExpectationsModel.TestCase
TestExpectationsModel.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
