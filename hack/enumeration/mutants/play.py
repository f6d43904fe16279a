"""A fixed selection of what the enumerations play, in the order of what notices most in the least time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

from hack.enumeration.fields.changes import Edit, Json, changes
from hack.enumeration.fields.lives import Life, change
from hack.enumeration.fields.table import GOOD
from hack.enumeration.sieve.runner import EVERY, play, record
from hack.enumeration.states.living import LivingWorld, Setting
from hack.enumeration.states.settings import SETTINGS
from hack.enumeration.world.fault import NO_FAULT
from hack.enumeration.world.world import Scenario

_FIELDS_SHARE = 29
"""One in this many changes of fields; prime to the number of states, so that each state has others."""

_WALKS, _LONGEST_WALK = 5, 12
_SHARE, _OLD_LISTS = 40, 600

Play = Callable[[], Iterator[str]]
"""What is wrong after each step of it; empty if nothing is."""


def plays() -> list[Play]:
    """All of them; each is the same each time, whichever were played before."""
    points = [partial(_points, scenario, fault) for scenario in EVERY for fault in (False, True)]
    every = [(field, how, spec, life) for field, how, spec in changes() for life in Life]
    fields = [partial(_field, *one) for one in every[::_FIELDS_SHARE]]
    walks = [partial(_walk, setting, number) for setting in SETTINGS for number in range(_WALKS)]
    return [*points[::2], *fields, *walks, *points[1::2]]


def _points(scenario: Scenario, faults: bool) -> Iterator[str]:
    if not faults:
        yield "; ".join(play(scenario, NO_FAULT).violations)
        return
    there, _ = record(scenario, share=_SHARE, old_lists=_OLD_LISTS)
    for fault in there.chosen:
        yield "; ".join(play(scenario, fault).violations)


def _field(field: str, how: Edit, spec: Json, life: Life) -> Iterator[str]:
    changed = change(field, spec, life)
    yield f"{life}: {field}, {how}: {changed.outcome}" if changed.outcome not in GOOD else ""


def _walk(setting: Setting, number: int) -> Iterator[str]:
    """A path through the states of a job, as a generator with a fixed seed chooses it, and rest at its end."""
    rng = random.Random(f"{setting.name} {number}")
    world = LivingWorld(setting)
    for _ in range(rng.randrange(1, _LONGEST_WALK)):
        if moves := world.moves():
            yield "; ".join(map(str, world.do(rng.choice(moves))))
    yield "; ".join(map(str, world.come_to_rest()[0]))
