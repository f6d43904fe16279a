"""Plays all points of all scenarios in several processes, and continues an interrupted run."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from hack.enumeration.processes import quiet_processes
from hack.enumeration.sieve.corners import CORNERS
from hack.enumeration.sieve.points import points, thinned
from hack.enumeration.sieve.queues import QUEUES
from hack.enumeration.sieve.scenarios import SCENARIOS
from hack.enumeration.world.fault import NO_FAULT, Fault, How
from hack.enumeration.world.world import Scenario, World

ROOT = Path(__file__).parents[3]

EVERY = (*SCENARIOS, *CORNERS, *QUEUES)

QUICK_SHARE, QUICK_OLD_LISTS, QUICK_DELETIONS = 6, 50, 30
"""A quick run tries one of QUICK_SHARE points. Most points are old lists and deleted jobs: it tries one of
QUICK_OLD_LISTS old lists, and one of QUICK_DELETIONS deleted jobs.
"""

_CHUNK = 20
_READ = ("tfoperator", "hack/enumeration/world", "hack/enumeration/sieve", "hack/faults")
_encoder, _decoder = msgspec.json.Encoder(), msgspec.json.Decoder


class Tried(msgspec.Struct, frozen=True):
    """A point that was played, and the violations that the oracle found. `reached`: whether the fault happened."""

    scenario: str
    fault: Fault
    violations: tuple[str, ...]
    reached: bool
    seconds: float


class There(msgspec.Struct, frozen=True):
    """A scenario without a fault: its writes, its events, and all its points; `chosen` are this run's points."""

    scenario: str
    writes: int
    events: int
    points: tuple[Fault, ...]
    chosen: tuple[Fault, ...]


def find(name: str) -> Scenario:
    """The scenario of this name. Raises KeyError."""
    return next((scenario for scenario in EVERY if scenario.name == name), None) or _unknown(name)


def _unknown(name: str) -> Scenario:
    raise KeyError(f"no scenario is called {name!r}")


def play(scenario: Scenario, fault: Fault) -> Tried:
    """Play one point."""
    began = time.monotonic()
    played = World(scenario, fault).play()
    violations = tuple(dict.fromkeys(map(str, played.violations)))
    reached = played.happened or fault.how is How.NOTHING
    return Tried(scenario.name, fault, violations, reached, round(time.monotonic() - began, 4))


def has_deletions(scenario: Scenario) -> bool:
    """Return whether the job of a scenario is deleted at every point: it has what others than its owner hold."""
    return scenario.attachments.queues or bool(scenario.attachments.gang)


def record(scenario: Scenario, *, share: int, old_lists: int, deletions: int) -> tuple[There, Tried]:
    """Play a scenario without a fault, and list its points, of which one of `share` is chosen.

    For old lists one of `old_lists` is chosen, for deleted jobs one of `deletions`.
    """
    began = time.monotonic()
    played = World(scenario).play()
    every = points(played, deletions=has_deletions(scenario), queues=scenario.attachments.queues)
    shares = {How.OLD_LIST: old_lists, How.DELETED_JOB: deletions}
    chosen = thinned(every, lambda how: shares.get(how, share))
    there = There(scenario.name, len(played.writes), len(played.events), tuple(every), tuple(chosen))
    violations = tuple(map(str, played.violations))
    return there, Tried(scenario.name, NO_FAULT, violations, True, time.monotonic() - began)


def fingerprint() -> str:
    """A hash of everything that decides how a point goes."""
    digest = hashlib.sha256()
    for folder in _READ:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


class Results:
    """The results so far, in a file that a later run of the same code continues. For one thread."""

    def __init__(self, path: Path, code: str) -> None:
        """Read what is there; results of other code are dropped."""
        self._path = path
        self.tried: dict[tuple[str, Fault], Tried] = {}
        lines = path.read_bytes().splitlines() if path.exists() else []
        if lines and lines[0].decode() == code:
            decode = _decoder(Tried).decode
            for line in lines[1:]:
                try:
                    self._note(decode(line))
                except msgspec.DecodeError:
                    continue  # the last line, when the run was interrupted
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.writelines(line + b"\n" for line in (code.encode(), *map(_encoder.encode, self.tried.values())))

    def add(self, tried: Sequence[Tried]) -> None:
        """Keep these."""
        with self._path.open("ab") as file:
            file.writelines(_encoder.encode(result) + b"\n" for result in tried)
        for result in tried:
            self._note(result)

    def _note(self, result: Tried) -> None:
        self.tried[(result.scenario, result.fault)] = result


def run(
    scenarios: Sequence[Scenario],
    results: Results,
    *,
    jobs: int,
    share: int = 1,
    old_lists: int = 1,
    deletions: int = 1,
    progress: Callable[[str], None],
) -> list[There]:
    """Play every point that the results lack; returns what there is."""
    recorded: list[There] = []
    for scenario in scenarios:
        there, without_fault = record(scenario, share=share, old_lists=old_lists, deletions=deletions)
        recorded.append(there)
        if (scenario.name, NO_FAULT) not in results.tried:
            results.add([without_fault])
    missing = [
        (scenario_points.scenario, fault)
        for scenario_points in recorded
        for fault in scenario_points.chosen
        if (scenario_points.scenario, fault) not in results.tried
    ]
    missing.sort(key=lambda point: point[1].how is How.OLD_LIST)  # most of all, and last
    began, done = time.monotonic(), 0
    with quiet_processes(jobs) as pool:
        for tried in pool.map(_play_all, _chunks(missing)):
            results.add(tried)
            done += len(tried)
            violated = sum(bool(result.violations) for result in tried)
            progress(
                f"{done} of {len(missing)} points after {time.monotonic() - began:.0f} s, in {tried[0].scenario}"
                + (f": {violated} violated" if violated else "")
            )
    return recorded


def _chunks(missing: Sequence[tuple[str, Fault]]) -> Iterator[list[tuple[str, Fault]]]:
    rest = iter(missing)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk


def _play_all(chunk: Sequence[tuple[str, Fault]]) -> list[Tried]:
    return [play(find(name), fault) for name, fault in chunk]
