"""`python -m hack.enumeration.mutants`: which changes of the plan the enumerations would not notice.

Each change is made in a process of its own as the module is imported; no file is written. A change is noticed when
something that is played is violated, fails, or takes longer than ten minutes.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import logging
import multiprocessing
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from hack.enumeration.markdown import markdown_table
from hack.enumeration.mutants.edits import edits, lines, mutate

Play = Callable[[], Iterator[str]]

_ROOT = Path(__file__).parents[3]
_PLAN = ("tfoperator/controller/plan",)
_LONGEST = 600
_NOT_OF_THE_PLAN = (
    "hack.enumeration.world.server",
    "hack.faults.oracle.judge",
    "hack.faults.simulation.cluster",
    "hack.enumeration.fields.changes",
    "tfoperator.informers",
    "tfoperator.expectations",
)
"""What is imported once for all: it does not import the plan."""


class Mutant(NamedTuple):
    """One change of a file: the number of its edit."""

    path: str
    number: int
    lines: range


class Tried(NamedTuple):
    """What became of one; `why` is how it was noticed, empty if it was not."""

    mutant: Mutant
    reached: bool
    why: str


def main(argv: Sequence[str] | None = None) -> int:
    """Try a sample of all changes; print the score, and what was not noticed."""
    parser = argparse.ArgumentParser(prog="python -m hack.enumeration.mutants", description=__doc__)
    parser.add_argument("paths", nargs="*", default=_PLAN, help="folders or files, from the repository's root")
    parser.add_argument("--count", type=int, default=300, help="how many of all changes are tried")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--seconds", type=float, default=3600, help="begin no further change after this time")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--play", action="store_true", help="try one only, of a FILE its change NUMBER")
    arguments = parser.parse_args(argv)
    if arguments.play:
        path, number = arguments.paths
        told = _play(Mutant(path, int(number), range(1)))
        print(_told(Mutant(path, int(number), range(1))), told or "not noticed", sep="\n")
        return 1 if told else 0
    every = all_mutants(arguments.paths)
    chosen = random.Random(arguments.seed).sample(every, min(arguments.count, len(every)))
    for name in _NOT_OF_THE_PLAN:
        importlib.import_module(name)
    fork = multiprocessing.get_context("fork")
    with fork.Pool(1) as pool:
        reached = pool.apply(_reached, [[str(_ROOT / path) for path in arguments.paths]])
    end, tried = time.monotonic() + arguments.seconds, []
    with fork.Pool(arguments.jobs, maxtasksperchild=1) as pool:
        todo = ((_comes_to(reached, mutant), mutant) for mutant in chosen)
        for done in pool.imap(_try, todo):
            tried.append(done)
            if time.monotonic() > end:
                break
    tried.sort(key=lambda one: one.mutant[:2])
    print(f"{len(tried)} of {len(every)} changes were tried")
    print(table(tried))
    for one in (one for one in tried if not one.why):
        path, number, where = one.mutant
        print(f"{path}:{where[0]} ({number}): {'' if one.reached else 'not reached: '}{_told(one.mutant)}")
    return 0


def all_mutants(paths: Sequence[str]) -> list[Mutant]:
    """Every change of these files and folders."""
    files = [file for path in paths for file in sorted((_ROOT / path).rglob("*.py")) or [_ROOT / path]]
    trees = {str(file.relative_to(_ROOT)): ast.parse(file.read_text()) for file in files}
    return [Mutant(path, at, lines(one.node)) for path, tree in trees.items() for at, one in enumerate(edits(tree))]


def table(tried: Sequence[Tried]) -> str:
    """One row for each file, in Markdown."""
    rows = []
    for path in [*dict.fromkeys(one.mutant.path for one in tried), "together"]:
        those = [one for one in tried if path in (one.mutant.path, "together")]
        left = [one for one in those if not one.why]
        unreached = sum(not one.reached for one in left)
        share = f"{100 * len(left) / len(those):.1f} %"
        rows.append([path, *map(str, (len(those), len(those) - len(left), unreached, len(left) - unreached)), share])
    return markdown_table(["file", "changes", "noticed", "not reached", "not noticed", "left"], rows)


def _told(mutant: Mutant) -> str:
    return mutate((_ROOT / mutant.path).read_text(), mutant.number)[1]


def _comes_to(reached: Sequence[set[str]], mutant: Mutant) -> list[int]:
    """The plays that come to one of its lines."""
    return [at for at, places in enumerate(reached) if any(f"{mutant.path}:{line}" in places for line in mutant.lines)]


def _try(one: tuple[Sequence[int], Mutant]) -> Tried:
    """Play these, in a process of its own."""
    plays, mutant = one
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(_LONGEST)
    why = ""
    try:
        why = _play(mutant, plays) if plays else ""
    except (Exception, _TooLong) as error:  # noqa: BLE001 -- that it fails is how it is noticed
        why = f"{type(error).__name__}: {error}"
    signal.alarm(0)
    where = f"{mutant.path}:{mutant.lines[0]} ({mutant.number})"
    print(f"{where}: {why or f'NOT NOTICED by {len(plays)}'}", file=sys.stderr, flush=True)
    return Tried(mutant, bool(plays), why)


class _TooLong(BaseException):
    """Nothing that is played may handle it."""


def _give_up(*_: object) -> None:
    raise _TooLong(f"more than {_LONGEST} s")


def _play(mutant: Mutant, plays: Sequence[int] = ()) -> str:
    """Import the changed module, and play until something is wrong; what that is."""
    tree, _ = mutate((_ROOT / mutant.path).read_text(), mutant.number)
    name = mutant.path.removesuffix(".py").replace("/", ".")
    assert name not in sys.modules, f"{name} is imported already"

    class Finder(PathFinder):
        """Finds the changed module."""

        @classmethod
        def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
            spec = super().find_spec(fullname, path, target)
            if fullname == name and spec is not None and spec.origin:
                spec.loader = _Changed(fullname, spec.origin, compile(tree, spec.origin, "exec"))
            return spec

    sys.meta_path.insert(0, Finder)
    every = _plays()
    return next((f"play {at}: {one}" for at in plays or range(len(every)) for one in every[at]() if one), "")


class _Changed(SourceFileLoader):
    def __init__(self, fullname: str, path: str, code: CodeType) -> None:
        super().__init__(fullname, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        return self._code


def _plays() -> list[Play]:
    logging.disable(logging.CRITICAL)
    every: list[Play] = importlib.import_module("hack.enumeration.mutants.play").plays()
    return every


def _reached(roots: Sequence[str]) -> list[set[str]]:
    """The lines to which each play comes. To what an import comes, all come."""
    found: set[str] = set()

    def of_line(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ARG001
        found.add(f"{frame.f_code.co_filename.removeprefix(f'{_ROOT}/')}:{frame.f_lineno}")
        return of_line

    sys.settrace(lambda frame, *_: of_line if frame.f_code.co_filename.startswith(tuple(roots)) else None)
    every, told = _plays(), []
    imported = found.copy()
    for one in every:
        found.clear()
        assert not any(one()), "something is violated without a change"
        told.append(found | imported)
    sys.settrace(None)
    return told


if __name__ == "__main__":
    sys.exit(main())
