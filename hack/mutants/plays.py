"""Runs the plays of the enumerations for a change: `hack.enumeration.recorded` has them and their records."""

from __future__ import annotations

import gc
import importlib
import logging
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import msgspec

from hack.mutants.changed import ROOT, Mutant, files_of, functions_around, hash_of, import_changed
from hack.mutants.in_place import Functions, has_own_function
from hack.mutants.results import RECORDED_OTHERWISE

PLAN = ("tfoperator/controller/plan", "tfoperator/api/pods/lost_nodes.py")
"""The code that decides about a job. The plays come to all of it, and only to parts of other code."""

SECONDS = 600.0
"""For all plays, with one change."""

_RECORDED = "hack.enumeration.recorded"
_REACH = "plays.json"
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


class Reach(msgspec.Struct, frozen=True):
    """The lines of the plan that the import runs, and that each play runs, as indexes of `lines`.

    `lines` has `FILE:LINE`. `source` is a hash of the code.
    """

    source: str
    lines: tuple[str, ...]
    at_import: tuple[int, ...]
    by_play: tuple[tuple[int, ...], ...]


def kept(folder: Path) -> Reach | None:
    """Return the lines that the plays run, if they were recorded with the present code."""
    try:
        reach = msgspec.json.decode((folder / _REACH).read_bytes(), type=Reach)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return reach if reach.source == _source() else None


def trace(part: int, parts: int) -> Reach:
    """Play one of so many parts of all plays, and return which lines of the plan run. For a process of its own.

    All plays together take about ten minutes of a core.
    """
    roots = tuple(str(ROOT / path) for path in PLAN)
    found: set[tuple[CodeType, int]] = set()

    def of_line(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ARG001
        found.add((frame.f_code, frame.f_lineno))
        return of_line

    sys.settrace(lambda frame, *_: of_line if frame.f_code.co_filename.startswith(roots) else None)
    every, places = _plays()[part::parts], list[set[tuple[CodeType, int]]]()
    imported = found.copy()
    for play in every:
        found.clear()
        assert not any(seen.wrong for seen in play.steps()), "something is violated without a change"
        places.append(found.copy())
    sys.settrace(None)
    return _reach("", _lines(imported), [_lines(place) for place in places])


def keep(folder: Path, parts: Sequence[Reach]) -> Reach:
    """Put the parts of `trace` together, and keep the result for `kept`."""
    by_play: list[set[str]] = [set()] * sum(len(part.by_play) for part in parts)
    for number, part in enumerate(parts):
        by_play[number :: len(parts)] = [{part.lines[at] for at in play} for play in part.by_play]
    reach = _reach(_source(), {parts[0].lines[at] for at in parts[0].at_import}, by_play)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _REACH).write_bytes(msgspec.json.encode(reach))
    return reach


def _reach(source: str, imported: set[str], by_play: Sequence[set[str]]) -> Reach:
    lines = sorted(imported.union(*by_play))
    number = {line: at for at, line in enumerate(lines)}
    at_import, *numbers = (tuple(number[line] for line in sorted(some)) for some in (imported, *by_play))
    return Reach(source, tuple(lines), at_import, tuple(numbers))


def _lines(places: set[tuple[CodeType, int]]) -> set[str]:
    return {f"{code.co_filename.removeprefix(f'{ROOT}/')}:{line}" for code, line in places}


def _source() -> str:
    return hash_of(files_of(["tfoperator", "hack"]))


class Stage:
    """Decides for each change which plays run, and whether the plan is imported anew for it."""

    def __init__(self, reach: Reach) -> None:
        """Take the lines that the plays run."""
        self._number = {line: at for at, line in enumerate(reach.lines)}
        self._at_import = {reach.lines[at] for at in reach.at_import}
        self._by_play = [set(play) for play in reach.by_play]

    def coming_to(self, mutant: Mutant) -> list[int]:
        """Return the numbers of the plays that run a line of the change: all, if the import runs the line."""
        wanted = {f"{mutant.path}:{line}" for line in mutant.lines}
        if wanted & self._at_import:
            return [*range(len(self._by_play))]
        numbers = {self._number[line] for line in wanted if line in self._number}
        return [play for play, lines in enumerate(self._by_play) if lines & numbers]

    def needs_import(self, mutant: Mutant) -> bool:
        """Return whether the change must be there when the plan is imported."""
        if not has_own_function(mutant):
            return True
        function = functions_around(mutant)[0]
        body = range(function.body[0].lineno, (function.end_lineno or 0) + 1)
        return any(f"{mutant.path}:{line}" in self._at_import for line in body)


Notice = Callable[[Mutant, Sequence[int]], str]
"""Makes these plays with a change, and returns how they noticed it. See `notice`."""


def imported_once(*, first: bool) -> Notice:
    """Import the plan and all plays in this process, and return `notice` for its forks."""
    _plays()
    functions = Functions(PLAN)
    gc.freeze()
    return partial(_notice, functions.change, first=first)


def notice(mutant: Mutant, numbers: Sequence[int] = (), *, first: bool = False) -> str:
    """Import the plan with the change and make these plays, all without `numbers`; for a process of its own.

    The result is the first thing that is wrong, or else the first play that differs from its record; with `first`,
    whichever comes first. It is "" if there is neither.
    """
    return _notice(lambda mutant: import_changed(mutant.path, mutant.number), mutant, numbers, first=first)


def _notice(change: Callable[[Mutant], None], mutant: Mutant, numbers: Sequence[int], *, first: bool) -> str:
    change(mutant)
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


@cache
def _plays() -> list[Any]:
    """Return the plays, whose import imports the plan."""
    logging.disable(logging.CRITICAL)
    every: list[Any] = importlib.import_module(f"{_RECORDED}.plays").plays()
    return every
