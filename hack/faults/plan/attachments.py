"""A job's attachments are its TensorBoard and its PodGroup. This decides which jobs have them, and their steps. Pure.

It has a random generator of its own. So each seed keeps the jobs, steps and faults that it had before there were
attachments, in their order, with these steps in between.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hack.faults.plan.steps import Act, JobShape, Profile, Step

Json = dict[str, Any]
_Acts = tuple[tuple[Act, int], ...]

GANG_SCHEDULERS = ("volcano", "coscheduler")
"""The values of `--gang-scheduler-name` in plans: a scheduler of each kind."""

CPU = "250m"
"""The CPU request of each replica of a gang."""


JOB_SERVICE = "JobService"
"""Among the kinds of foreign objects: a Service with the name of a job, which its replicas may need."""


@dataclass(frozen=True)
class Attachments:
    """Which attachments there are: the gang scheduler of all jobs, "" if there is none, and whether any TensorBoard.

    With `queues` there is a Kueue, and the operator drives Workloads; seeds never have it.
    """

    gang: str = ""
    tensorboards: bool = False
    queues: bool = False


_TENSORBOARD_ACTS: _Acts = (
    (Act.RUN_TENSORBOARD, 4),
    (Act.FAIL_TENSORBOARD_POD, 3),
    (Act.DELETE_TENSORBOARD, 4),
    (Act.CHANGE_TENSORBOARD, 3),
)
_GANG_ACTS: _Acts = ((Act.ADMIT_GANG, 4), (Act.DELETE_POD_GROUP, 3), (Act.CHANGE_GANG, 5))
_OWNERSHIP_ACTS: _Acts = ((Act.ORPHAN, 1), (Act.CREATE_FOREIGN, 1), (Act.DELETE_FOREIGN, 1))


def with_attachments(
    seed: int, profile: Profile, jobs: Sequence[JobShape], steps: Sequence[Step]
) -> tuple[tuple[JobShape, ...], list[Step], Attachments]:
    """The jobs and steps of a seed with attachments, and which it has. Six of ten seeds have none."""
    rng = random.Random(f"companions {seed}")  # an older name of them: another text would change every seed
    scheduler = rng.choice(GANG_SCHEDULERS)
    gang = scheduler if rng.random() < 0.15 and profile.gangs else ""
    shapes = tuple(_attachments_of(rng, shape, gang) for shape in jobs)
    # The first steps make the jobs.
    creations, others = list(steps[: len(jobs)]), list(steps[len(jobs) :])
    if gang:
        # At once: otherwise most plans would stop their faults before a gang has a pod.
        others[:0] = [Step(rng.uniform(0.05, 0.2), Act.ADMIT_GANG, number) for number in range(len(jobs))]
    for number, shape in enumerate(shapes):
        sorts: list[tuple[_Acts, tuple[str, ...]]] = [(_GANG_ACTS, ("PodGroup",))] if gang else []
        sorts += [(_TENSORBOARD_ACTS, ("Deployment", "Service"))] if shape.tensorboard is not None else []
        for acts, kinds in sorts:
            if rng.random() < 0.2:
                foreign = Step(0.0, Act.CREATE_FOREIGN, number, value=rng.choice(kinds))
                creations.insert(rng.randint(0, len(creations)), foreign)
            for step in _steps_of(rng, number, acts, kinds):
                # More often early: later, many jobs have ended, and have no attachments any more.
                others.insert(round(len(others) * rng.random() ** 1.5), step)
    return shapes, [*creations, *others], Attachments(gang, any(shape.tensorboard is not None for shape in shapes))


def _attachments_of(rng: random.Random, shape: JobShape, gang: str) -> JobShape:
    tensorboard = _tensorboard(rng) if rng.random() < 0.15 else None
    if not gang:
        return replace(shape, tensorboard=tensorboard)
    policy: Json = {}
    if rng.random() < 0.4:
        policy["minAvailable"] = rng.choice((1, 2, 3, 3, 12))
    if rng.random() < 0.2:
        policy["minResources"] = {"cpu": rng.choice(("1", "2500m"))}
    if rng.random() < 0.2:
        policy |= {"queue": "research", "priorityClass": "high", "scheduleTimeoutSeconds": 60}
    return replace(shape, tensorboard=tensorboard, scheduling=policy or None, cpu=CPU)


def _tensorboard(rng: random.Random) -> Json:
    tensorboard: Json = {"logDir": rng.choice(("/logs", "gs://bucket/logs"))}
    if rng.random() < 0.7:
        tensorboard["image"] = f"example.invalid/board:{rng.randint(1, 3)}"
    if rng.random() < 0.5:
        tensorboard["serviceType"] = rng.choice(("ClusterIP", "NodePort"))
    return tensorboard


def _steps_of(rng: random.Random, job: int, acts: _Acts, kinds: Sequence[str]) -> Iterator[Step]:
    """Yield steps for an attachment; objects of `kinds` are deleted, lose their owner, or find their name in use."""
    choices = dict((*acts, *_OWNERSHIP_ACTS))
    for _ in range(rng.randint(2, 6)):
        [act] = rng.choices(list(choices), weights=list(choices.values()))
        after = rng.choice((0.0, rng.uniform(0, 0.05), rng.uniform(0, 0.25)))
        yield Step(after, act, job, rng.random(), _value(rng, act, kinds))


def _value(rng: random.Random, act: Act, kinds: Sequence[str]) -> Any:
    match act:
        case Act.FAIL_TENSORBOARD_POD:
            return rng.choice(("kill", "evict", "fail"))
        case Act.DELETE_TENSORBOARD | Act.ORPHAN | Act.CREATE_FOREIGN:
            return rng.choice(kinds)
        case Act.CHANGE_TENSORBOARD:
            return _tensorboard(rng) if rng.random() < 0.6 else None
        case Act.CHANGE_GANG:
            if rng.random() < 0.4:
                return {"minResources": rng.choice((None, {"cpu": "3"}, {"cpu": "4"}))}
            return {"minAvailable": rng.choice((None, 1, 2, 4, 12))}
        case _:
            return None
