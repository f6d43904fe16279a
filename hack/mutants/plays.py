"""Runs the plays of the enumerations for a change: `hack.enumeration.recorded` has them and their records."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any

from hack.mutants.changed import ROOT, Mutant, import_changed
from hack.mutants.results import RECORDED_OTHERWISE

PLAN = ("tfoperator/controller/plan", "tfoperator/api/pods/lost_nodes.py")
"""The code that decides about a job. The plays come to all of it, and only to parts of other code."""

SECONDS = 600.0
"""For all plays, with one change."""

_RECORDED = "hack.enumeration.recorded"
_NOT_OF_THE_PLAN = (
    "hack.enumeration.world.server",
    "hack.faults.oracle.judge",
    "hack.faults.simulation.cluster",
    "hack.enumeration.fields.changes",
    "tfoperator.informers",
    "tfoperator.expectations",
)
"""Modules that are imported once for all: they do not import the plan."""


def prepare() -> None:
    """Import what all plays need and no change is in."""
    for name in _NOT_OF_THE_PLAN:
        importlib.import_module(name)


def notice(mutant: Mutant, numbers: Sequence[int] = (), *, first: bool = False) -> str:
    """Make these plays with the change, all without `numbers`; for a process of its own.

    The result is the first thing that is wrong, or else the first play that differs from its record; with `first`,
    whichever comes first. It is "" if there is neither.
    """
    import_changed(mutant.path, mutant.number)
    try:
        return _play(numbers, first=first)
    except Exception as error:  # noqa: BLE001 -- that it fails is how it is noticed
        return f"{type(error).__name__}: {error}"


def _play(numbers: Sequence[int], *, first: bool) -> str:
    every, records = _plays(), importlib.import_module(f"{_RECORDED}.records")
    recorded, differs = records.RECORDS.read(), ""
    for number in numbers or range(len(every)):
        try:
            found = records.record_of(every[number])
        except records.RuleBroken as error:
            return f"play {number}: {error.wrong}"
        if not differs and found != recorded.get(every[number].name):
            differs = f"{RECORDED_OTHERWISE} {every[number].name}"
            if first:
                break
    return differs


def reached() -> list[set[str]]:
    """Return the lines of the plan to which each play comes. To what an import comes, all come."""
    roots = tuple(str(ROOT / path) for path in PLAN)
    found: set[tuple[CodeType, int]] = set()

    def of_line(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ARG001
        found.add((frame.f_code, frame.f_lineno))
        return of_line

    sys.settrace(lambda frame, *_: of_line if frame.f_code.co_filename.startswith(roots) else None)
    every, places = _plays(), list[set[tuple[CodeType, int]]]()
    imported = found.copy()
    for each in every:
        found.clear()
        assert not any(seen.wrong for seen in each.steps()), "something is violated without a change"
        places.append(found | imported)
    sys.settrace(None)
    return [{f"{code.co_filename.removeprefix(f'{ROOT}/')}:{line}" for code, line in lines} for lines in places]


def coming_to(mutant: Mutant, reached: Sequence[set[str]]) -> list[int]:
    """Return the numbers of the plays that come to one of its lines."""
    wanted = {f"{mutant.path}:{line}" for line in mutant.lines}
    return [number for number, places in enumerate(reached) if places & wanted]


def _plays() -> list[Any]:
    """Return the plays, whose import imports the plan."""
    logging.disable(logging.CRITICAL)
    every: list[Any] = importlib.import_module(f"{_RECORDED}.plays").plays()
    return every
