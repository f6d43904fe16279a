"""`python -m hack.enumeration.mutants`: which changes of the plan the enumerations would not notice.

Each change is made in a process of its own as the module is imported; no file is written. A change is noticed when
something that is played is violated, fails, or takes longer than ten minutes, or else when a play differs from its
record. With `--then-unit-tests` those that are not noticed are made once more, in a process that runs the unit tests of
the controller up to the first that fails.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from hack.enumeration.mutants.changed import ROOT, Mutant, all_mutants, import_changed, listed
from hack.enumeration.mutants.results import (
    EQUIVALENT,
    RECORDED_OTHERWISE,
    Results,
    Tried,
    equivalents,
    source_of,
    table,
)

_RECORDED = "hack.enumeration.recorded"
_PLAN = ("tfoperator/controller/plan", "tfoperator/api/lost_nodes.py")
_LONGEST, _LONGEST_TESTS = 600, 300
_NOT_OF_THE_PLAN = (
    "hack.enumeration.world.server",
    "hack.faults.oracle.judge",
    "hack.faults.simulation.cluster",
    "hack.enumeration.fields.changes",
    "tfoperator.informers",
    "tfoperator.expectations",
)
"""What is imported once for all: it does not import the plan."""

_UNIT_TESTS = (
    "tests/unit/controller/plan",
    "tests/unit/controller",
    "tests/unit/test_fuzz.py",
    "tests/unit/docs/test_first_documents.py",
    "tests/hack/test_usage_plans.py",
    "tests/hack/test_straggler_alarms.py",
    "tests/unit/reconciler",
)
"""What tests the plan without the enumerations, in the order of what notices most in the least time."""


_SEED = ("--hypothesis-seed", "0")


class _Task(NamedTuple):
    """A change, the plays that come to it, and what is known of it."""

    plays: Sequence[int]
    mutant: Mutant
    before: Tried | None
    units: bool
    first: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Try a sample of all changes; print the score, and what was not noticed."""
    arguments = _parse(argv)
    if arguments.play or arguments.test:
        path, number = arguments.paths
        return _play_one(path, int(number)) if arguments.play else _test_one(path, int(number))
    every = all_mutants(arguments.paths)
    if arguments.list:
        chosen = listed(arguments.list.read_text(), every)
    else:
        chosen = random.Random(arguments.seed).sample(every, min(arguments.count, len(every)))
    results = Results(arguments.results)
    _try_all(chosen, results, arguments)
    tried = sorted((one for mutant in chosen if (one := results.get(mutant))), key=lambda one: (one.path, one.number))
    same = equivalents(EQUIVALENT.read_text())
    print(f"{len(tried)} of {len(every)} changes were tried")
    print(table(tried, same))
    for one in (one for one in tried if not one.why):
        reason = same.get((one.path, one.told))
        what = f"no difference: {reason}" if reason else "left" if not one.units else one.units
        print(f"{one}\n    {what}")
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hack.enumeration.mutants", description=__doc__)
    parser.add_argument("paths", nargs="*", default=_PLAN, help="folders or files, from the repository's root")
    parser.add_argument("--count", type=int, default=300, help="how many of all changes are tried")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--list", type=Path, help="try those in this file, as the output has them")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "enumerate" / "mutants.jsonl")
    parser.add_argument("--first", action="store_true", help="look for no rule once a play differs from its record")
    parser.add_argument("--again", action="store_true", help="play again what results tell not to be noticed")
    parser.add_argument("--then-unit-tests", action="store_true", help="ask unit tests about what plays don't notice")
    parser.add_argument("--seconds", type=float, default=3600, help="begin no further change after this time")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--play", action="store_true", help="try one only, of a FILE its change NUMBER")
    parser.add_argument("--test", action="store_true", help="run unit tests with one only, of a FILE its change NUMBER")
    return parser.parse_args(argv)


def _try_all(chosen: Sequence[Mutant], results: Results, arguments: argparse.Namespace) -> None:
    """Try what results lack, and keep each result as it comes."""
    todo: list[tuple[Mutant, Tried | None]] = []
    for mutant in chosen:
        before = results.get(mutant)
        if before is None or (arguments.again and not before.why):
            todo.append((mutant, None))
        elif arguments.then_unit_tests and not before.why and before.units is None:
            todo.append((mutant, before))
    if not todo:
        return
    for name in _NOT_OF_THE_PLAN:
        importlib.import_module(name)
    fork = multiprocessing.get_context("fork")
    with fork.Pool(1) as pool:
        reached = pool.apply(_reached, [[str(ROOT / path) for path in arguments.paths]])
    end = time.monotonic() + arguments.seconds
    with fork.Pool(arguments.jobs, maxtasksperchild=1) as pool:
        tasks = [
            _Task(_comes_to(reached, one), one, before, arguments.then_unit_tests, arguments.first)
            for one, before in todo
        ]
        for done in pool.imap_unordered(_try, tasks):
            results.add(done)
            if time.monotonic() > end:
                break


def _play_one(path: str, number: int) -> int:
    import_changed(path, number)
    told = _play(first=True)
    print(Mutant(path, number, range(1)).told, told or "not noticed", sep="\n")
    return 1 if told else 0


def _test_one(path: str, number: int) -> int:
    """Examples are those of a seed, and none that another change made fail."""
    import_changed(path, number)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        pytest = importlib.import_module("pytest")
        return int(pytest.main(["-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *_SEED, *_UNIT_TESTS]))


def _comes_to(reached: Sequence[set[str]], mutant: Mutant) -> list[int]:
    """The plays that come to one of its lines."""
    return [at for at, places in enumerate(reached) if any(f"{mutant.path}:{line}" in places for line in mutant.lines)]


def _try(task: _Task) -> Tried:
    """Play these, in a process of its own; then run unit tests in another one."""
    mutant, before = task.mutant, task.before
    why, reached = ("", before.reached) if before else (_played(task), bool(task.plays))
    units = _tested(mutant) if task.units and not why else None
    print(f"{mutant}: {why or f'NOT NOTICED by {len(task.plays)}'} {units or ''}", file=sys.stderr, flush=True)
    path, number, where = mutant
    return Tried(path, number, where[0], mutant.told, source_of(path), reached, why, units)


def _played(task: _Task) -> str:
    if not task.plays:
        return ""
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(_LONGEST)
    try:
        import_changed(*task.mutant[:2])
        why = _play(task.plays, first=task.first)
    except (Exception, _TooLong) as error:  # noqa: BLE001 -- that it fails is how it is noticed
        why = f"{type(error).__name__}: {error}"
    signal.alarm(0)
    return why


def _tested(mutant: Mutant) -> str:
    """The first unit test that fails with it; empty if none does."""
    command = [sys.executable, "-m", "hack.enumeration.mutants", "--test", mutant.path, str(mutant.number)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=_LONGEST_TESTS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"more than {_LONGEST_TESTS} s"
    if not done.returncode:
        return ""
    told = done.stdout.splitlines()
    failed = (line.partition(" - ")[0] for line in told if line.startswith(("FAILED ", "ERROR ")))
    return next(failed, (told or [f"exit code {done.returncode}"])[-1])


class _TooLong(BaseException):
    """Nothing that is played may handle it."""


def _give_up(*_: object) -> None:
    raise _TooLong(f"more than {_LONGEST} s")


def _play(numbers: Sequence[int] = (), *, first: bool = False) -> str:
    """Play until something is wrong, and return what that is, or else the first play that differs from its record.

    With `first`, return whichever comes first.
    """
    every, records = _plays(), importlib.import_module(f"{_RECORDED}.records")
    recorded, differs = records.RECORDS.read(), ""
    for at in numbers or range(len(every)):
        try:
            found = records.record_of(every[at])
        except records.RuleBroken as error:
            return f"play {at}: {error.wrong}"
        if not differs and found != recorded.get(every[at].name):
            differs = f"{RECORDED_OTHERWISE} {every[at].name}"
            if first:
                break
    return differs


def _plays() -> list[Any]:
    """Return the plays of `hack.enumeration.recorded`, whose import imports the plan."""
    logging.disable(logging.CRITICAL)
    every: list[Any] = importlib.import_module(f"{_RECORDED}.plays").plays()
    return every


def _reached(roots: Sequence[str]) -> list[set[str]]:
    """The lines to which each play comes. To what an import comes, all come."""
    found: set[tuple[CodeType, int]] = set()

    def of_line(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ARG001
        found.add((frame.f_code, frame.f_lineno))
        return of_line

    sys.settrace(lambda frame, *_: of_line if frame.f_code.co_filename.startswith(tuple(roots)) else None)
    every, told = _plays(), list[set[tuple[CodeType, int]]]()
    imported = found.copy()
    for one in every:
        found.clear()
        assert not any(seen.wrong for seen in one.steps()), "something is violated without a change"
        told.append(found | imported)
    sys.settrace(None)
    return [{f"{code.co_filename.removeprefix(f'{ROOT}/')}:{line}" for code, line in places} for places in told]


if __name__ == "__main__":
    sys.exit(main())
