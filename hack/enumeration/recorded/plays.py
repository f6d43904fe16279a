"""A selection of the enumerations' plays, first the plays that notice most changes in the least time."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from hack.enumeration.fields.changes import ELASTIC, V1, Edit, Json, Subject, changes
from hack.enumeration.fields.lives import Life, change
from hack.enumeration.fields.table import GOOD
from hack.enumeration.recorded.journal import journal
from hack.enumeration.recorded.random_lives import random_life
from hack.enumeration.seeds import SeededWorld
from hack.enumeration.sieve.runner import EVERY, record
from hack.enumeration.states.living import LivingWorld, Setting
from hack.enumeration.states.settings import SETTINGS
from hack.enumeration.world.fault import NO_FAULT, Fault
from hack.enumeration.world.world import Scenario, World
from hack.faults.oracle.history import Violation

_FIELDS_SHARE = 29
"""About one of this many changes of fields is played. The hash of its name decides, so that a new field does not change
the choice of other fields.
"""

_WALKS, _LONGEST_WALK = 20, 12
_SEEDS = 100
_LIVES, _LIVES_TOGETHER = 200, 50
_SHARE, _OLD_LISTS, _DELETIONS = 40, 600, 200


class Seen(NamedTuple):
    """A step of a play: the violations as text ("" if there are none), the journal, and each version of each job."""

    wrong: str
    journal: Sequence[str]
    jobs: Sequence[Json] = ()


class Play(NamedTuple):
    """A play. Its result does not depend on earlier plays."""

    name: str
    steps: Callable[[], Iterator[Seen]]


def plays() -> list[Play]:
    """Return all plays."""
    calm = [Play(scenario.name, partial(_points, scenario, faults=False)) for scenario in EVERY]
    faulty = [Play(f"{scenario.name}, with faults", partial(_points, scenario, faults=True)) for scenario in EVERY]
    every = (
        Play(f"{life}, {field}: {how}", partial(_field, field, how, spec, life, subject))
        for subject in (V1, ELASTIC)
        for field, how, spec in changes(subject)
        for life in Life
    )
    fields = [play for play in every if is_chosen(play.name, _FIELDS_SHARE)]
    walks = [
        Play(f"{setting.name}, path {number}", partial(_walk, setting, number))
        for setting in SETTINGS
        for number in range(_WALKS)
    ]
    seeds = [Play(f"seed {seed}", partial(_seed, seed)) for seed in range(_SEEDS)]
    lives = [Play(f"random lives {number}", partial(_lives, number)) for number in range(_LIVES)]
    return [*calm, *lives[:10], *fields, *walks, *lives[10:], *seeds, *faulty]


def is_chosen(name: str, share: int) -> bool:
    """Return whether this name belongs to the chosen part, about one of `share` names. The hash of the name decides."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % share == 0


def _points(scenario: Scenario, *, faults: bool) -> Iterator[Seen]:
    if not faults:
        yield _point(scenario, NO_FAULT)
        return
    points, _ = record(scenario, share=_SHARE, old_lists=_OLD_LISTS, deletions=_DELETIONS)
    for fault in points.chosen:
        yield _point(scenario, fault)


def _point(scenario: Scenario, fault: Fault) -> Seen:
    world = World(scenario, fault)
    return _seen(world, world.play().violations)


def _field(field: str, how: Edit, spec: Json, life: Life, subject: Subject) -> Iterator[Seen]:
    changed = change(field, spec, life, subject)
    wrong = f"{life}: {field}, {how}: {changed.outcome}" if changed.outcome not in GOOD else ""
    yield Seen(wrong, [changed.outcome, *changed.said, *changed.differs, *changed.left])


def _lives(number: int) -> Iterator[Seen]:
    for life in range(_LIVES_TOGETHER):
        yield Seen("", list(random_life(random.Random(f"life {number} {life}"))))


def _seed(seed: int) -> Iterator[Seen]:
    world = SeededWorld(seed)
    yield _seen(world, world.play().violations)


def _walk(setting: Setting, number: int) -> Iterator[Seen]:
    """Play a random path through the states of a job (with a fixed seed), and then wait until the world is at rest."""
    rng = random.Random(f"{setting.name} {number}")
    world = LivingWorld(setting)
    for _ in range(rng.randrange(1, _LONGEST_WALK)):
        if moves := world.moves():
            yield Seen("; ".join(map(str, world.do(rng.choice(moves)))), ())
    yield _seen(world, world.come_to_rest()[0])


def _seen(world: World, violations: Sequence[Violation]) -> Seen:
    jobs = [entry.obj for entry in world.recorder.entries() if entry.kind == "TFJob" and entry.what != "DELETED"]
    return Seen("; ".join(map(str, violations)), list(journal(world)), jobs)
