"""One random case: a job as bytes, its pods, the moment, and the operator's options."""

from __future__ import annotations

import json
import random
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hack.random_jobs.chances import chance, moment
from hack.random_jobs.manifests import ODD, random_manifest
from hack.random_jobs.options import random_options
from hack.random_jobs.pods import random_pod
from hack.random_jobs.spoiling import damaged, mutated
from tfoperator.controller import PlanOptions
from tfoperator.kube.views.objects import Pod

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "peer"


class Case(NamedTuple):
    """One job as bytes, and the world around it."""

    data: bytes
    pods: tuple[Pod, ...]
    now: datetime
    options: PlanOptions
    problems: tuple[str, ...] | None
    """The problems that a simulated validation finds; None: the real validation runs."""
    graceful: bool
    """Whether deleted pods stay, terminating, for as long as anybody looks."""


def random_case(rng: random.Random) -> Case:
    """Return a case; the same random numbers and examples give the same case."""
    manifest: Any = json.loads(rng.choice(_examples())) if chance(rng, 0.2) else random_manifest(rng, ODD)
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 8))):
        manifest = mutated(rng, manifest)
    data = json.dumps(manifest).encode()
    if chance(rng, 0.05):
        data = damaged(rng, data)
    # Jobs that cannot be acted on are noticed without validation, too.
    alleged: tuple[tuple[str, ...], ...] = (("spec: is bad",), ())
    return Case(
        data=data,
        pods=tuple(random_pod(rng, number) for number in range(rng.choice((0, 0, 1, 2, 4)))),
        now=moment(rng),
        options=random_options(rng),
        problems=rng.choice(alleged) if chance(rng, 0.15) else None,
        graceful=chance(rng, 0.3),
    )


@cache
def _examples() -> tuple[str, ...]:
    examples = [
        json.dumps(document, default=str)
        for path in sorted(EXAMPLES.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]
    assert examples, "the examples have gone"
    return tuple(examples)
