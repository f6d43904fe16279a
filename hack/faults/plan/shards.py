"""What a plan with shards has more: three operators, killed, paused, and moved from one layout to another. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from hack.faults.plan.steps import Act, Step

LAYOUTS = (3, 2)
"""How many shards there are at first, after the first roll-out, after the second, and so on, over and over."""

MEMBERS = 3

_PAUSES = (0.2, 0.8, 3.6)
"""Real seconds. A lease lasts three: some pauses are longer."""


def with_shards(seed: int, steps: Sequence[Step]) -> list[Step]:
    """The steps, of three operators instead of one or two, and up to two roll-outs, whose steps may lie far apart."""
    rng = random.Random(f"shards {seed}")
    steps = [_retargeted(rng, step) for step in steps]
    for _ in range(rng.randint(2, 6)):
        what = rng.choice((Act.KILL_OPERATOR, Act.PAUSE_OPERATOR))
        step = _retargeted(rng, Step(rng.uniform(0, 0.2), what, value=(0, rng.choice(_PAUSES))))
        steps.insert(rng.randint(0, len(steps)), step)
    for _ in range(rng.choice((0, 1, 1, 2))):
        places = sorted(rng.randint(0, len(steps)) for _ in range(MEMBERS))
        # As a StatefulSet's pods are replaced: the last one first.
        for shift, (place, member) in enumerate(zip(places, reversed(range(MEMBERS)), strict=True)):
            steps.insert(place + shift, Step(rng.choice((0.1, 0.8, 1.6)), Act.ROLL_OUT, value=member))
    return steps


def _retargeted(rng: random.Random, step: Step) -> Step:
    member = rng.randrange(MEMBERS)
    if step.act is Act.KILL_OPERATOR:
        return replace(step, value=member)
    if step.act is Act.PAUSE_OPERATOR:
        return replace(step, value=(member, step.value[1]))
    return step
