"""The command line: all points, a quick share of them, or one again with its history."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hack.enumeration.fields.changes import ELASTIC, V1, V1ALPHA2, fields
from hack.enumeration.fields.lives import Life
from hack.enumeration.fields.table import GOOD, change_all
from hack.enumeration.fields.table import table as fields_table
from hack.enumeration.processes import quiet_processes
from hack.enumeration.seeds import compare, play_seed
from hack.enumeration.sieve.runner import (
    EVERY,
    QUICK_DELETIONS,
    QUICK_OLD_LISTS,
    QUICK_SHARE,
    ROOT,
    Results,
    find,
    fingerprint,
    run,
)
from hack.enumeration.sieve.table import bad_points, table
from hack.enumeration.states.explore import Explored, counterexamples, explore
from hack.enumeration.states.explore import table as states_table
from hack.enumeration.states.living import Setting
from hack.enumeration.states.settings import SETTINGS, find_setting
from hack.enumeration.world.fault import Fault
from hack.enumeration.world.world import World
from hack.faults.telling import line

_SHOWN = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Play points; returns 1 if something was violated or left out."""
    parser = argparse.ArgumentParser(prog="python -m hack.enumeration", description="Plays a fault at every place.")
    parser.add_argument("--quick", action="store_true", help="an even share of the points, of every kind and scenario")
    parser.add_argument("--old-lists", type=int, default=1, help="try one of this many lists of older states")
    parser.add_argument("--deletions", type=int, default=1, help="try one of this many deletions of a job")
    parser.add_argument("--jobs", type=int, default=2, help="how many points at a time")
    parser.add_argument(
        "--scenario", default="", choices=[scenario.name for scenario in EVERY], metavar="NAME", help="this one only"
    )
    parser.add_argument("--point", default="", help="play one point of the scenario again, as JSON, with its history")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "enumerate", help="the folder of results")
    parser.add_argument("--seeds", type=int, default=0, help="play this many random plans, each twice, instead")
    parser.add_argument("--play-seeds", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--states", type=float, default=0, help="explore states for about this many seconds, instead")
    named = [setting.name for setting in SETTINGS]
    parser.add_argument(
        "--setting", default="", choices=named, metavar="NAME", help="explore the states of this one only"
    )
    parser.add_argument("--fields", action="store_true", help="change every field in every state, instead")
    arguments = parser.parse_args(argv)
    logging.disable(logging.CRITICAL)
    if arguments.seeds:
        return 0 if compare(arguments.seeds, print) else 1
    for seed in range(arguments.play_seeds):
        print(msgspec.json.encode(play_seed(seed)).decode(), flush=True)
    if arguments.play_seeds:
        return 0
    if arguments.fields:
        return _change_fields(arguments.jobs)
    if arguments.states:
        settings = [find_setting(arguments.setting)] if arguments.setting else SETTINGS
        return _explore(settings, arguments.states, arguments.jobs, arguments.results / "states.md")
    if arguments.point:
        return _again(arguments.scenario, arguments.point)
    scenarios = [find(arguments.scenario)] if arguments.scenario else EVERY
    results = Results(arguments.results / "sieve.jsonl", fingerprint())
    quick = QUICK_SHARE, QUICK_OLD_LISTS, QUICK_DELETIONS
    share, old_lists, deletions = quick if arguments.quick else (1, arguments.old_lists, arguments.deletions)
    shares = {"share": share, "old_lists": old_lists, "deletions": deletions}
    recorded = run(scenarios, results, jobs=arguments.jobs, progress=_log, **shares)
    shown = table(recorded, results)
    (arguments.results / "sieve.md").write_text(shown)
    print(shown)
    bad = bad_points(recorded, results)
    for tried in bad[:_SHOWN]:
        why = "; ".join(tried.violations) or "the fault never came to its place"
        print(f"{tried.scenario}: {tried.fault}: {why}")
        point = msgspec.json.encode(tried.fault).decode()
        print(f"  python -m hack.enumeration --scenario '{tried.scenario}' --point '{point}'")
    return 1 if bad else 0


def _explore(settings: Sequence[Setting], seconds: float, jobs: int, path: Path) -> int:
    """Explore one after the other, as long as there is time; the table is written after each.

    A path that differs after a known state is printed, and is no error: times that a state does not show may decide.
    """
    end = time.monotonic() + seconds
    explored: list[Explored] = []
    path.parent.mkdir(parents=True, exist_ok=True)
    with quiet_processes(jobs) as pool:
        for setting in settings:
            if time.monotonic() < end:
                explored.append(explore(setting, pool, seconds=end - time.monotonic(), say=_log))
                path.write_text(states_table(explored))
                print("\n".join(counterexamples(explored[-1])))
    print(states_table(explored))
    print(f"{len(settings) - len(explored)} of {len(settings)} jobs were not begun")
    return 1 if any(result.violations for result in explored) else 0


def _change_fields(jobs: int) -> int:
    bad = []
    for subject in (V1, ELASTIC, V1ALPHA2):
        done = change_all(tuple(Life), jobs=jobs, say=_log, subject=subject)
        wrong = [tried for tried in done if tried.changed.outcome not in GOOD]
        print(f"{subject.version}, {len(fields(subject))} fields\n", fields_table(done), *wrong, sep="\n")
        bad += wrong
    return 1 if bad else 0


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _again(name: str, point: str) -> int:
    world = World(find(name), msgspec.json.decode(point, type=Fault))
    played = world.play()
    print("\n".join([*world.said, "", *map(line, world.recorder.entries()), "", *map(str, played.violations)]))
    return 1 if played.violations else 0
