"""`python -m hack.mutants ROOM ...`: which changes of a room's code its tests would not notice.

A room is a folder or a file in tfoperator: `workqueue`, `local/apiserver`, `kube/watching/reflector.py`. Each change is
made in a process of its own as the module is imported, and files never change. It is noticed when a test fails that
mirrors the room in tests/unit, or when these tests take ten times as long as without it.

With `--plays` the plays of the plan (`controller/plan`, `api/pods/lost_nodes.py`) come first: such a change is
noticed when something that is played is violated, fails, or takes longer than ten minutes, or else when a play differs
from its record. Changes that plays do not notice go to the tests.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from hack.mutants import plays, unit_tests
from hack.mutants.changed import ROOT, Mutant, all_mutants, listed
from hack.mutants.processes import Died, Task, TookTooLong, in_processes
from hack.mutants.results import EQUIVALENT, Results, Tried, equivalents, source_of, table

_FOLDER = ROOT / "build" / "mutants"
_LONGEST_TRACE = 3600.0
"""Seconds for all plays, whose lines are counted."""


def main(argv: Sequence[str] | None = None) -> int:
    """Try a sample of all changes of each room; print the score, and what was not noticed."""
    arguments = _parse(argv)
    if arguments.play:
        mutant = Mutant(arguments.rooms[0], int(arguments.rooms[1]), range(1))
        noticed = plays.notice(mutant, first=True)
        print(mutant.change, noticed or "not noticed", sep="\n")
        return 1 if noticed else 0
    results, same = Results(arguments.results), equivalents(EQUIVALENT.read_text())
    for room in arguments.rooms:
        every = all_mutants([f"tfoperator/{room}"])
        if arguments.list:
            chosen = listed(arguments.list.read_text(), every)
        else:
            chosen = random.Random(arguments.seed).sample(every, min(arguments.sample, len(every)))
        todo = [mutant for mutant in chosen if _is_to_do(results.get(mutant), again=arguments.again)]
        for done in _try_all(room, todo, results, arguments):
            results.add(done)
            noticed = done.played or done.tested or "NOT NOTICED"
            print(f"{done.path}:{done.line} ({done.number}): {noticed}", file=sys.stderr, flush=True)
        found = (results.get(mutant) for mutant in chosen)
        tried = sorted((done for done in found if done), key=lambda done: (done.path, done.number))
        print(f"{room}: {len(tried)} of {len(every)} changes were tried")
        print(table(tried, same))
        for done in tried:
            if not done.is_noticed:
                reason = same.get((done.path, done.change))
                print(f"{done}\n    {f'no difference: {reason}' if reason else 'left'}")
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m hack.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rooms", nargs="+", metavar="ROOM", help="a folder or a file, from tfoperator/")
    parser.add_argument("--sample", type=int, default=300, help="how many of a room's changes are tried")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--list", type=Path, help="try those in this file, as the output has them")
    parser.add_argument("--results", type=Path, default=_FOLDER / "results.jsonl")
    parser.add_argument("--plays", action="store_true", help="play those of the plan first")
    parser.add_argument("--first", action="store_true", help="look for no rule once a play differs from its record")
    parser.add_argument("--again", action="store_true", help="try again what was not noticed")
    parser.add_argument("--seconds", type=float, default=3600, help="begin no further change of a room after this time")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--play", action="store_true", help="only play one change: ROOM is its file, and its number")
    arguments = parser.parse_args(argv)
    if arguments.plays and len(arguments.rooms) > 1:
        parser.error("--plays: one room at a time, since plays import the others")
    return arguments


def _is_to_do(tried: Tried | None, *, again: bool) -> bool:
    return tried is None or (not tried.is_noticed and (again or tried.tested is None))


def _was_played(tried: Tried | None) -> bool:
    return tried is not None and tried.played is not None


def _try_all(room: str, todo: Sequence[Mutant], results: Results, arguments: argparse.Namespace) -> Iterator[Tried]:
    """Yield the result of each change, as it comes; a change that plays do not notice once more, after its tests."""
    unplayed = [mutant for mutant in todo if arguments.again or not _was_played(results.get(mutant))]
    if arguments.plays and unplayed:
        yield from _played(unplayed, arguments)
    left = [mutant for mutant in todo if (tried := results.get(mutant)) is None or not tried.is_noticed]
    if left:
        yield from _tested(room, left, results, arguments)


def _played(todo: Sequence[Mutant], arguments: argparse.Namespace) -> Iterator[Tried]:
    plays.prepare()
    if (reach := plays.kept(_FOLDER)) is None:
        jobs = arguments.jobs
        reach = plays.keep(_FOLDER, _done_apart([partial(plays.trace, part, jobs) for part in range(jobs)]))
    stage = plays.Stage(reach)
    coming = {mutant: stage.coming_to(mutant) for mutant in todo}
    tasks = _acts(todo, stage, coming, first=arguments.first)
    for mutant, answer in in_processes(_in_time(arguments.seconds, tasks), arguments.jobs):
        if isinstance(answer, Died) and str(answer):
            raise SystemExit(f"{mutant} was not played: {answer}")
        yield replace(_untried(mutant), reached=bool(coming[mutant]), played=_noticed_by(answer))


def _acts(
    todo: Sequence[Mutant], stage: plays.Stage, coming: Mapping[Mutant, list[int]], *, first: bool
) -> Iterator[Task[Mutant]]:
    """Yield the changes that the import must meet first, since all others are made after one import in this process."""
    for mutant in todo:
        if coming[mutant] and stage.needs_import(mutant):
            yield Task(mutant, partial(plays.notice, mutant, coming[mutant], first=first), plays.SECONDS)
    notice = plays.imported_once(first=first)
    for mutant in todo:
        if not coming[mutant]:
            yield Task(mutant, str, plays.SECONDS)
        elif not stage.needs_import(mutant):
            yield Task(mutant, partial(notice, mutant, coming[mutant]), plays.SECONDS)


def _tested(room: str, todo: Sequence[Mutant], results: Results, arguments: argparse.Namespace) -> Iterator[Tried]:
    unit_tests.prepare()
    if (recording := unit_tests.kept(_FOLDER, room)) is None:
        _done_apart([partial(unit_tests.record, _FOLDER, room)], unit_tests.LONGEST_RECORDING)
        recording = unit_tests.kept(_FOLDER, room)
    if recording is None or not recording.runs:
        raise SystemExit(f"no test of {room} passes")
    for name in recording.failed:
        print(f"left out, for it fails without a change: {name}", file=sys.stderr)
    coming = {mutant: unit_tests.coming_to(mutant, recording) for mutant in todo}
    acts = ((mutant, partial(unit_tests.notice, mutant, coming[mutant])) for mutant in todo)
    seconds = unit_tests.seconds_for
    tasks = (Task(mutant, act if coming[mutant] else str, seconds(coming[mutant])) for mutant, act in acts)
    for mutant, answer in in_processes(_in_time(arguments.seconds, tasks), arguments.jobs):
        if isinstance(answer, Died) and str(answer):
            raise SystemExit(f"{mutant} was not tested: {answer}")
        before = results.get(mutant) or _untried(mutant)
        yield replace(before, reached=before.reached or bool(coming[mutant]), tested=_noticed_by(answer))


def _in_time(seconds: float, tasks: Iterable[Task[Mutant]]) -> Iterator[Task[Mutant]]:
    """Yield tasks as long as there is time: what was tried then is a random sample, too."""
    end = time.monotonic() + seconds
    for task in tasks:
        if time.monotonic() > end:
            return
        yield task


def _done_apart(acts: Sequence[Callable[[], Any]], seconds: float = _LONGEST_TRACE) -> list[Any]:
    """Return the answers of these acts, which run at the same time, each in a process of its own."""
    answers = dict(in_processes([Task(number, act, seconds) for number, act in enumerate(acts)], len(acts)))
    for answer in answers.values():
        if isinstance(answer, TookTooLong):
            raise SystemExit(f"it took longer than {seconds:.0f} s to record which lines run")
        if isinstance(answer, Died):
            raise SystemExit(f"it was not possible to record which lines run: {answer}")
    return [answers[number] for number in range(len(acts))]


def _noticed_by(answer: Any) -> str:
    """Return how a change was noticed; "" if it was not."""
    match answer:
        case TookTooLong():
            return "it takes too long"
        case Died():
            return "the process dies"
    return str(answer)


def _untried(mutant: Mutant) -> Tried:
    return Tried(mutant.path, mutant.number, mutant.lines[0], mutant.change, source_of(mutant.path), reached=False)


if __name__ == "__main__":
    sys.exit(main())
