from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tfoperator.local.gpus.allocation import Allocations, choose

DEVICES = tuple("abcdefgh")
PAIRS = [frozenset(pair) for pair in combinations(DEVICES, 2)]
LINKS = st.dictionaries(st.sampled_from(PAIRS), st.integers(1, 4))


def inside(chosen: tuple[str, ...], links: Mapping[frozenset[str], int]) -> int:
    return sum(links.get(frozenset(pair), 0) for pair in combinations(chosen, 2))


@settings(max_examples=60)
@given(st.integers(1, 9), st.sets(st.sampled_from(DEVICES)), LINKS)
def test_no_other_choice_has_more_links(count: int, free: set[str], links: dict[frozenset[str], int]) -> None:
    ordered = sorted(free)
    chosen = choose(count, ordered, links)
    if count > len(free):
        assert chosen is None
        return
    assert chosen is not None
    assert len(set(chosen)) == count
    assert set(chosen) <= free
    assert inside(chosen, links) == max(inside(other, links) for other in combinations(ordered, count))


def test_neighbours_are_left_together_for_whoever_comes_next() -> None:
    links = {frozenset("ab"): 2, frozenset("cd"): 2}
    assert choose(1, "abcde", links) == ("e",)
    assert choose(2, "abcde", links) == ("a", "b")
    assert choose(2, "bcde", links) == ("c", "d")


def test_without_links_the_first_ones_are_taken() -> None:
    assert choose(2, "abc", {}) == ("a", "b")


def test_a_large_machine_takes_no_time() -> None:
    devices = [f"gpu-{number}" for number in range(64)]
    links = {frozenset(pair): 1 for pair in combinations(devices[40:48], 2)}
    assert choose(8, devices, links) == tuple(devices[40:48])


class Sharing(RuleBasedStateMachine):
    """Pods come, ask again, and go, while other programs of the machine hold devices, too."""

    def __init__(self) -> None:
        super().__init__()
        self.links = {frozenset("ab"): 4, frozenset("cd"): 2, frozenset("bc"): 1}
        self.allocations = Allocations(DEVICES, self.links)
        self.expected: dict[str, tuple[str, ...]] = {}

    @rule(owner=st.sampled_from("123456"), count=st.integers(1, 9), elsewhere=st.sets(st.sampled_from(DEVICES)))
    def ask(self, owner: str, count: int, elsewhere: set[str]) -> None:
        available = set(DEVICES) - elsewhere
        taken = {device for devices in self.expected.values() for device in devices}
        given_now = self.allocations.allocate(owner, count, available=available)
        if owner in self.expected:
            assert given_now == self.expected[owner]
        elif count > len(available - taken):
            assert given_now is None
        else:
            assert given_now is not None
            assert len(given_now) == count
            assert not taken & set(given_now)
            assert set(given_now) <= available
            self.expected[owner] = given_now

    @rule(owner=st.sampled_from("123456"))
    def go(self, owner: str) -> None:
        assert self.allocations.release(owner) == self.expected.pop(owner, ())
        assert self.allocations.release(owner) == ()

    @invariant()
    def each_device_is_free_or_has_one_owner(self) -> None:
        held = [device for devices in self.expected.values() for device in devices]
        assert sorted([*held, *self.allocations.free()]) == list(DEVICES)
        assert all(self.allocations.held_by(owner) == devices for owner, devices in self.expected.items())


TestSharing = Sharing.TestCase
TestSharing.settings = settings(max_examples=30, stateful_step_count=20)
