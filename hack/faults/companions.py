"""What a seed gives some of its jobs beside their replicas: a TensorBoard, a PodGroup, and what happens to those. Pure.

All of it is drawn apart from the rest: the jobs, steps and weather that a seed had before there were companions are
still there, in their order, with these steps in between.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hack.faults.steps import Act, JobShape, Profile, Step

__all__ = ["CPU", "GANGS", "Companions", "with_companions"]

Json = dict[str, Any]
_Acts = tuple[tuple[Act, int], ...]

GANGS = ("volcano", "coscheduler")
"""What `--gang-scheduler-name` may be: one of each kind."""

CPU = "250m"
"""What each replica of a gang asks for."""


@dataclass(frozen=True)
class Companions:
    """Which companions there are: the gang scheduler of all jobs, "" if there is none, and whether any TensorBoard."""

    gang: str = ""
    boards: bool = False


_BOARD_ACTS: _Acts = ((Act.SERVE_BOARD, 4), (Act.LOSE_BOARD_POD, 3), (Act.DELETE_BOARD, 4), (Act.CHANGE_BOARD, 3))
_GANG_ACTS: _Acts = ((Act.ADMIT_GANG, 4), (Act.DELETE_POD_GROUP, 3), (Act.CHANGE_GANG, 5))
_USERS: _Acts = ((Act.ORPHAN, 1), (Act.OCCUPY, 1), (Act.VACATE, 1))


def with_companions(
    seed: int, profile: Profile, jobs: Sequence[JobShape], steps: Sequence[Step]
) -> tuple[tuple[JobShape, ...], list[Step], Companions]:
    """The jobs and steps of a seed with companions, and which it has. Six of ten seeds have none."""
    rng = random.Random(f"companions {seed}")
    scheduler = rng.choice(GANGS)
    gang = scheduler if rng.random() < 0.15 and profile.gangs else ""
    found = tuple(_companion(rng, shape, gang) for shape in jobs)
    # The first steps make the jobs.
    creations, others = list(steps[: len(jobs)]), list(steps[len(jobs) :])
    if gang:
        # At once, else most storms would be over before a gang has a pod.
        others[:0] = [Step(rng.uniform(0.05, 0.2), Act.ADMIT_GANG, number) for number in range(len(jobs))]
    for number, shape in enumerate(found):
        sorts: list[tuple[_Acts, tuple[str, ...]]] = [(_GANG_ACTS, ("PodGroup",))] if gang else []
        sorts += [(_BOARD_ACTS, ("Deployment", "Service"))] if shape.board is not None else []
        for acts, kinds in sorts:
            if rng.random() < 0.2:
                stranger = Step(0.0, Act.OCCUPY, number, value=rng.choice(kinds))
                creations.insert(rng.randint(0, len(creations)), stranger)
            for step in _happenings(rng, number, acts, kinds):
                # Rather early: at the end of a storm many a job has ended, and has no companion any more.
                others.insert(round(len(others) * rng.random() ** 1.5), step)
    return found, [*creations, *others], Companions(gang, any(shape.board is not None for shape in found))


def _companion(rng: random.Random, shape: JobShape, gang: str) -> JobShape:
    board = _board(rng) if rng.random() < 0.15 else None
    if not gang:
        return replace(shape, board=board)
    policy: Json = {}
    if rng.random() < 0.4:
        policy["minAvailable"] = rng.choice((1, 2, 3, 3, 12))
    if rng.random() < 0.2:
        policy["minResources"] = {"cpu": rng.choice(("1", "2500m"))}
    if rng.random() < 0.2:
        policy |= {"queue": "research", "priorityClass": "high", "scheduleTimeoutSeconds": 60}
    return replace(shape, board=board, scheduling=policy or None, cpu=CPU)


def _board(rng: random.Random) -> Json:
    board: Json = {"logDir": rng.choice(("/logs", "gs://bucket/logs"))}
    if rng.random() < 0.7:
        board["image"] = f"example.invalid/board:{rng.randint(1, 3)}"
    if rng.random() < 0.5:
        board["serviceType"] = rng.choice(("ClusterIP", "NodePort"))
    return board


def _happenings(rng: random.Random, job: int, acts: _Acts, kinds: Sequence[str]) -> Iterator[Step]:
    """What happens to a companion; `kinds` are of what may be deleted, lose its owner, or find its name taken."""
    choices = dict((*acts, *_USERS))
    for _ in range(rng.randint(2, 6)):
        [act] = rng.choices(list(choices), weights=list(choices.values()))
        after = rng.choice((0.0, rng.uniform(0, 0.05), rng.uniform(0, 0.25)))
        yield Step(after, act, job, rng.random(), _value(rng, act, kinds))


def _value(rng: random.Random, act: Act, kinds: Sequence[str]) -> Any:
    match act:
        case Act.LOSE_BOARD_POD:
            return rng.choice(("kill", "evict", "fail"))
        case Act.DELETE_BOARD | Act.ORPHAN | Act.OCCUPY:
            return rng.choice(kinds)
        case Act.CHANGE_BOARD:
            return _board(rng) if rng.random() < 0.6 else None
        case Act.CHANGE_GANG:
            if rng.random() < 0.4:
                return {"minResources": rng.choice((None, {"cpu": "3"}, {"cpu": "4"}))}
            return {"minAvailable": rng.choice((None, 1, 2, 4, 12))}
        case _:
            return None
