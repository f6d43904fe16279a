"""Breadth first through all states of a setting, so that what it finds is found on a shortest path.

Each state is kept as the moves that lead to it from the job's creation, and played again from there: nothing of a world
need be copied. Two paths that come to one state are continued from the first; a share of the others is continued, too,
and must come to the same states after each move: the operator's memory, which the state does not show, must make no
difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from hack.enumeration.markdown import markdown_table
from hack.enumeration.states.living import LivingWorld, Setting

CHECKED_SHARE = 5
"""One in this many paths to a known state is continued."""

_CHUNK = 16
_SHOWN = 5

Path = tuple[str, ...]


@dataclass(frozen=True)
class Expanded:
    """A state that was tried: where each move leads, and what is wrong. `rest` is seconds."""

    path: Path
    after: dict[str, bytes]
    violations: dict[str, tuple[str, ...]]
    rest: float


@dataclass
class Explored:
    """All states of a setting; `left` of them were reached and not tried when time was over."""

    setting: Setting
    states: int = 0
    moves: int = 0
    longest: int = 0
    rest: float = 0.0
    checked: int = 0
    left: int = 0
    seconds: float = 0.0
    differing: list[Path] = field(default_factory=list)
    violations: dict[Path, tuple[str, ...]] = field(default_factory=dict)


def expand(setting: Setting, path: Path) -> Expanded:
    """Make every move that there is at the end of a path, and also none, until the world rests."""
    world = _at(setting, path)
    after: dict[str, bytes] = {}
    violations: dict[str, tuple[str, ...]] = {}
    for move in world.moves():
        branch = _at(setting, path)
        violated = branch.do(move)
        if violated:
            violations[move] = tuple(map(str, violated))
        else:
            after[move] = branch.key()
    wrong, rest = world.come_to_rest()
    if wrong:
        violations[""] = tuple(map(str, wrong))
    return Expanded(path, after, violations, rest)


def _at(setting: Setting, path: Path) -> LivingWorld:
    world = LivingWorld(setting)
    for move in path:
        world.do(move)
    return world


def explore(setting: Setting, pool: Executor, *, seconds: float, say: Callable[[str], None]) -> Explored:
    """Try all states of a setting, or as many as there is time for; a state at which something is wrong ends there."""
    began = time.monotonic()
    explored = Explored(setting)
    known_paths: dict[bytes, Path] = {LivingWorld(setting).key(): ()}
    after: dict[Path, dict[str, bytes]] = {}
    others: list[tuple[Path, Path]] = []
    level: list[Path] = [()]
    while level and time.monotonic() - began < seconds:
        explored.longest = len(level[0])
        next_level: list[Path] = []
        for expanded in _expanded(setting, level, pool):
            explored.states += 1
            explored.moves += len(expanded.after) + len(expanded.violations.keys() - {""})
            explored.rest = max(explored.rest, expanded.rest)
            after[expanded.path] = expanded.after
            for move, why in expanded.violations.items():
                explored.violations[(*expanded.path, move) if move else expanded.path] = why
            for move, key in expanded.after.items():
                path = (*expanded.path, move)
                if key not in known_paths:
                    known_paths[key] = path
                    next_level.append(path)
                elif known_paths[key] != path:
                    others.append((known_paths[key], path))
        level = next_level
        spent = time.monotonic() - began
        say(
            f"{setting.name}: {explored.states} states, {explored.moves} moves after {spent:.0f} s, "
            f"{len(level)} are next"
        )
    explored.left = len(level)
    _check_others(explored, [pair for pair in others if pair[0] in after][::CHECKED_SHARE], after, pool)
    explored.seconds = time.monotonic() - began
    return explored


def _check_others(
    explored: Explored, pairs: Sequence[tuple[Path, Path]], after: dict[Path, dict[str, bytes]], pool: Executor
) -> None:
    for (first, _), expanded in zip(pairs, _expanded(explored.setting, [path for _, path in pairs], pool), strict=True):
        explored.checked += 1
        if expanded.violations:
            explored.violations |= {(*expanded.path, move): why for move, why in expanded.violations.items()}
        elif expanded.after != after[first]:
            explored.differing.append(expanded.path)


def _expanded(setting: Setting, paths: Sequence[Path], pool: Executor) -> Iterator[Expanded]:
    chunks = [paths[at : at + _CHUNK] for at in range(0, len(paths), _CHUNK)]
    for done in pool.map(_expand_all, [setting] * len(chunks), chunks):
        yield from done


def _expand_all(setting: Setting, paths: Sequence[Path]) -> list[Expanded]:
    return [expand(setting, path) for path in paths]


def table(found: Sequence[Explored]) -> str:
    """One row for each setting, in Markdown."""
    titles = ["job", "disturbances", "states", "moves", "longest path", "not tried", "rests within", "merges checked"]
    rows = []
    for explored in found:
        merges = f"{explored.checked}, {len(explored.differing)} differ"
        numbers = (explored.setting.disturbances, explored.states, explored.moves, explored.longest, explored.left)
        rest = f"{explored.rest:.0f} s"
        rows.append(
            [
                explored.setting.name,
                *map(str, numbers),
                rest,
                merges,
                str(len(explored.violations)),
                f"{explored.seconds:.0f}",
            ]
        )
    return markdown_table([*titles, "violated", "seconds"], rows)


def counterexamples(found: Explored) -> list[str]:
    """The shortest paths to what is wrong, as lines for people, each with a test to paste."""
    lines: list[str] = []
    for path, why in sorted(found.violations.items(), key=lambda item: len(item[0]))[:_SHOWN]:
        lines += [f"{found.setting.name}: {'; '.join(why)}", *(f"  {move}" for move in path)]
        lines.append(f"  assert play_path(find_setting({found.setting.name!r}), {path!r}) == []")
    lines += [f"{found.setting.name}: what follows differs from what was known: {path!r}" for path in found.differing]
    return lines


def play_path(setting: Setting, path: Path) -> list[str]:
    """Make these moves, and then none, until the world rests: what is wrong."""
    world = LivingWorld(setting)
    for move in path:
        if violations := world.do(move):
            return list(map(str, violations))
    return list(map(str, world.come_to_rest()[0]))
