from __future__ import annotations

import pytest

from tfoperator.local.gpus.inventory import Gpu, links_between, visible

A, B, C = (Gpu(f"GPU-{name}", index, bus=f"bus-{name}") for index, name in enumerate(("aaaa", "abbb", "cccc")))


def test_links_lead_straight_to_a_device_or_over_a_switch() -> None:
    gpus = [
        Gpu("a", 0, bus="1", peers=("2", "2", "9")),
        Gpu("b", 1, bus="2", peers=("1", "1")),
        Gpu("c", 2, bus="3", peers=("9", "9")),
        Gpu("d", 3, bus="4"),
    ]
    assert links_between(gpus) == {frozenset("ab"): 2, frozenset("ac"): 1}


@pytest.mark.parametrize(
    ("variable", "seen"),
    [
        (None, (A, B, C)),
        ("2,0", (C, A)),
        (" 1 , GPU-c", (B, C)),
        ("GPU-a", ()),
        ("0,-1,2", (A,)),
        ("0,0", (A,)),
        ("", ()),
        ("7", ()),
        ("cccc", ()),
        ("²", ()),
        ("9" * 5000, ()),
    ],
)
def test_what_the_shell_leaves_to_us(variable: str | None, seen: tuple[Gpu, ...]) -> None:
    assert visible((A, B, C), variable) == seen
