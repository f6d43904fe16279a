"""The oracle's judgement of a job's time in its status."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hack.enumeration.states.living import LivingWorld, Setting
from hack.faults.oracle.judge import judge
from hack.faults.plan.steps import JobShape

RUNS, SUSPENDED = ("job-0-worker-0 runs",), ("suspend",)
ENDED = (*RUNS, "job-0-worker-0 succeeds")


@pytest.mark.parametrize(
    ("moves", "usage", "text"),
    [
        (RUNS, {"seconds": {"starting": 1000}}, "its usage has 1000 seconds of "),
        (RUNS, {"phase": "starting"}, "all its replicas run, and its usage is starting"),
        (RUNS, {"resources": {"cpu": {"inUse": 0.5}}}, "its pods that run request 0.25 cpu, and its usage holds 0.5"),
        (ENDED, {"phase": "training"}, "it has ended, and its usage is training"),
        (SUSPENDED, {"phase": "training"}, "it is suspended, and its usage is training"),
    ],
)
def test_time_that_is_told_wrongly_is_found(moves: tuple[str, ...], usage: dict[str, Any], text: str) -> None:
    world = LivingWorld(Setting("one", JobShape("job-0", {"Worker": 1}, "Never", cpu="250m")))
    for move in moves:
        world.do(move)
    journal = world.simulator.journal()
    assert judge(journal)[1] == []
    job = next(entry for entry in reversed(journal.entries) if entry.kind == "TFJob")
    wrong = {**job.obj["status"], "usage": {**job.obj["status"]["usage"], **usage}}
    journal.entries = [*journal.entries, msgspec.structs.replace(job, obj={**job.obj, "status": wrong})]
    assert any(violation.text.startswith(text) for violation in judge(journal)[1])
