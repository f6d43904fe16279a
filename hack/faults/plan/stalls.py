"""Which jobs have a deadline for their progress, and when their programs report. Pure.

They have random generators of their own, so that the jobs, steps and faults that a seed had before are still there, in
their order, with these steps in between.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from hack.faults.plan.steps import Act, JobShape, Profile, Step

_DEADLINES = (40, 60, 100)
"""Seconds of the operators' time: at least two real seconds, in which a busy machine reports a few times."""

_REAL_DEADLINES = (30, 31, 33)
"""Where timestamps are real: the least that there is, and little more."""

_REAL_SILENCE = 12.0
"""How many times as long programs are silent there: longer than some of these deadlines, and not than all."""


def with_stalls(
    seed: int, profile: Profile, jobs: Sequence[JobShape], steps: Sequence[Step]
) -> tuple[tuple[JobShape, ...], list[Step]]:
    """The jobs and steps of a seed with stalls. Three of four jobs have none."""
    rng = random.Random(f"stalls {seed}")
    is_fast = profile.wall_speed > 1
    deadlines, silence = (_DEADLINES, 1.0) if is_fast else (_REAL_DEADLINES, _REAL_SILENCE)
    shapes = tuple(_watched(rng, shape, deadlines) if rng.random() < 0.25 else shape for shape in jobs)
    # The first steps make the jobs.
    creations, others = list(steps[: len(jobs)]), list(steps[len(jobs) :])
    for number, shape in enumerate(shapes):
        if not shape.reports:
            continue
        for _ in range(rng.randint(1, 4)):
            step = Step(rng.choice((0.0, rng.uniform(0, 0.3))), Act.REPORT, number, rng.random())
            others.insert(rng.randint(0, len(others)), step)
        if rng.random() < 0.6:
            # Silence for long enough: what follows happens to a job that has stalled.
            after = rng.uniform(2.0, 3.0) * silence
            others.insert(rng.randint(0, len(others)), Step(after, Act.REPORT, number, rng.random()))
    hangs = random.Random(f"hangs {seed}")
    for number, shape in enumerate(shapes):
        if shape.reports and hangs.random() < 0.7:
            at = hangs.choice((0, 0, hangs.randint(0, len(others))))
            seconds = shape.run_policy["progressDeadlineSeconds"] / profile.wall_speed
            others[at:at] = _hang(hangs, number, seconds)
    return shapes, [*creations, *others]


def _hang(rng: random.Random, number: int, deadline: float) -> list[Step]:
    """The job runs, reports, and is then silent for longer than its deadline, which is in real seconds.

    At random moments a job mostly waits for one of its replicas, and a job that waits does not stall.
    """
    run = [Step(rng.uniform(0.2, 0.6), Act.RUN, number, value="all") for _ in range(3)]
    reported = Step(rng.uniform(0.05, 0.2), Act.REPORT, number, rng.random())
    again = Step(deadline + rng.uniform(0.5, 2.0), Act.REPORT, number, rng.random())
    return [*run, reported, again]


def _watched(rng: random.Random, shape: JobShape, deadlines: Sequence[int]) -> JobShape:
    policy = {
        **shape.run_policy,
        "progressDeadlineSeconds": rng.choice(deadlines),
        "onStall": rng.choice(("Report", "Restart", "Restart", "Fail")),
    }
    return replace(shape, run_policy=policy, reports=True)
