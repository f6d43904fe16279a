from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.local.node.pods import container, manifest, view
from tfoperator.local.gpus.allocation import Gpu, asked_for, choose, links_between, needed, share, visible

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
    assert len(set(chosen)) == count
    assert set(chosen) <= free
    assert inside(chosen, links) == max(inside(other, links) for other in combinations(ordered, count))


def test_neighbours_are_left_together_for_whoever_comes_next_and_links_lead_straight_or_over_a_switch() -> None:
    links = {frozenset("ab"): 2, frozenset("cd"): 2}
    assert choose(1, "abcde", links) == ("e",)
    assert choose(2, "abcde", links) == ("a", "b")
    assert choose(2, "bcde", links) == ("c", "d")
    assert choose(2, "abc", {}) == ("a", "b")
    # A large machine takes no time.
    devices = [f"gpu-{number}" for number in range(64)]
    links = {frozenset(pair): 1 for pair in combinations(devices[40:48], 2)}
    assert choose(8, devices, links) == tuple(devices[40:48])
    gpus = [
        Gpu("a", 0, bus="1", peers=("2", "2", "9")),
        Gpu("b", 1, bus="2", peers=("1", "1")),
        Gpu("c", 2, bus="3", peers=("9", "9")),
        Gpu("d", 3, bus="4"),
    ]
    assert links_between(gpus) == {frozenset("ab"): 2, frozenset("ac"): 1}


def wants(name: str, number: Any, member: str = "limits") -> dict[str, Any]:
    return container(name, resources={member: {"nvidia.com/gpu": number}})


@pytest.mark.parametrize(("number", "asked"), [(2, 2), ("2", 2), ("1k", 1000), ("500m", 0), ("x", 0), (0, 0)])
def test_whole_devices_are_asked_for(number: Any, asked: int) -> None:
    assert asked_for(view(manifest("p", wants("c", number))).spec.containers[0]) == asked


def test_containers_have_devices_of_their_own_and_init_containers_those_of_later_ones() -> None:
    pod = view(manifest("p", wants("a", 1), container("b"), wants("c", 2), initContainers=[wants("i", 2)]))
    assert needed(pod) == 3
    shares = {spec.name: share(pod, spec, "xyz") for spec in (*pod.spec.containers, *(pod.spec.init_containers or ()))}
    assert shares == {"a": ("x",), "b": (), "c": ("y", "z"), "i": ("x", "y")}
    assert needed(view(manifest("p", wants("a", 1), initContainers=[wants("i", 4)]))) == 4, "a hungry one decides"
    assert needed(view(manifest("p", wants("c", 3, "requests")))) == 3, "a request alone counts as a limit"


A, B, C = (Gpu(f"GPU-{name}", index, bus=f"bus-{name}") for index, name in enumerate(("aaaa", "abbb", "cccc")))


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        (None, (A, B, C)),
        ("2,0", (C, A)),
        (" 1 , GPU-c", (B, C)),
        *((nothing, ()) for nothing in ("GPU-a", "", "7", "cccc", "²", "9" * 5000)),
        ("0,-1,2", (A,)),
        ("0,0", (A,)),
    ],
)
def test_what_the_shell_leaves_to_us(variable: str | None, expected: tuple[Gpu, ...]) -> None:
    assert visible((A, B, C), variable) == expected
