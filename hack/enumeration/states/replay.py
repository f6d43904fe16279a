"""Plays sampled paths of states on a real API server, too, and compares what is there after each move.

All paths go on side by side, in step. A path has moves of kubelets and users alone: no crash and no late cache, which
the world alone can have at will, and nothing that waits for a deadline, since real time is another. In both worlds the
operator does all that it has to do before the next move.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from hack.enumeration.fields.lives import differences
from hack.enumeration.real.jobs import Job, ManyJobs
from hack.enumeration.real.plane import jobs_beside
from hack.enumeration.states.living import KINDS, LivingWorld, Setting, plain, without_times
from hack.enumeration.states.settings import SETTINGS
from hack.faults.plan.attachments import Attachments
from hack.faults.plan.steps import Step

Json = dict[str, Any]
State = dict[str, Json]

_NOT_REPLAYED = ("operator", "cache", "s pass", "loses its node")
_WRITTEN_LATER = ".startedIndexes"
"""A member that a status gets with its next change, whose time depends on caches."""

_LENGTH = 5
_REST, _QUIET = 40.0, 20.0
"""Seconds after a move in the simulated world, and without a change in the real world: the second check has come."""


class Path(NamedTuple):
    """A path through the simulated world: each move with the steps that it took, and the state after it."""

    setting: Setting
    moves: tuple[str, ...]
    steps: tuple[Step, ...]
    states: tuple[State, ...]


def sample(setting: Setting, number: int) -> Path:
    """A path that a generator with a fixed seed chooses."""
    rng = random.Random(f"{setting.name} {number}")
    world = LivingWorld(setting)
    act, moves, steps, states = world.simulator.act, list[str](), list[Step](), list[State]()

    def noted(step: Step) -> str:
        steps.append(step)
        return act(step)

    world.simulator.act = noted  # type: ignore[method-assign]
    for _ in range(_LENGTH):
        world.run_for(_REST)
        states.append(_state(obj for kind in KINDS for obj in world.recorder.current(kind)))
        of_users = [move for move in world.moves() if not any(word in move for word in _NOT_REPLAYED)]
        if not of_users:
            break
        moves.append(rng.choice(of_users))
        world.do(moves[-1])
    world.run_for(_REST)
    states.append(_state(obj for kind in KINDS for obj in world.recorder.current(kind)))
    return Path(setting, tuple(moves), tuple(steps), tuple(states))


def replay(jobs: ManyJobs, paths: Sequence[Path]) -> list[str]:
    """Play them on the real server; where it differs, for people. Raises KubeError, TimeoutError."""
    places = [jobs.job(path.setting.shape, Attachments()) for path in paths]
    jobs.each(
        lambda place_and_path: jobs.create(place_and_path[0], place_and_path[1].setting.shape.manifest()),
        zip(places, paths, strict=True),
    )
    differing: dict[Job, str] = {}
    for at in range(_LENGTH + 1):
        jobs.rest(places, progress=False, quiet=_QUIET)
        for place, path in zip(places, paths, strict=True):
            if at < len(path.states) and place not in differing:
                now = _state(jobs.objects.of(place.namespace, KINDS))
                if differs := [
                    difference
                    for difference in differences(path.states[at], now)
                    if not difference.endswith(_WRITTEN_LATER)
                ]:
                    differing[place] = f"{path.setting.name}: {path.moves[:at]}: {'; '.join(differs)}"
        for place, path in zip(places, paths, strict=True):
            if at < len(path.steps) and place not in differing:
                result = place.simulator.act(path.steps[at])
                if result.startswith(("failed", "too late")):
                    differing[place] = f"{path.setting.name}: {path.moves[: at + 1]}: {result}"
    jobs.remove(places)
    return list(differing.values())


def _state(objects: Iterable[Json]) -> State:
    by_name = {f"{obj['kind']} {obj['metadata']['name']}": _without_empty(plain(obj)) for obj in objects}
    state: State = msgspec.json.decode(without_times(by_name))
    return state


def _without_empty(value: Any) -> Any:
    """Leave out empty members: a real server adds them where nothing was written, the embedded server does not."""
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    members = {name: _without_empty(member) for name, member in value.items()}
    return {name: member for name, member in members.items() if member not in ({}, None)}


def main() -> int:
    """Sample a few paths of every setting, and replay them: `python -m hack.enumeration.states.replay [PATHS]`."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    timeless = [setting for setting in SETTINGS if "activeDeadlineSeconds" not in setting.shape.run_policy]
    paths = [sample(setting, number) for setting in timeless for number in range(count)]
    with jobs_beside("ours") as jobs:
        differing = replay(jobs, paths)
    print(*differing, sep="\n")
    states = sum(len(path.states) for path in paths)
    print(f"{len(paths)} paths, {states} states of {len(timeless)} jobs; {len(differing)} paths differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
