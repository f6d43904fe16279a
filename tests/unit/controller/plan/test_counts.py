from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.controller.builders import make_job, make_pod, planned, waiting
from tfoperator.api.v1.status import JobCondition, TFJobStatus
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.status import only_counts_rise
from tfoperator.kube.objects import Pod

JOB = make_job({"PS": 1, "Worker": 4})


def status(running: int, *, ready: bool = True, job: TFJob = JOB, **others: Pod) -> TFJobStatus:
    """What is said when so many workers and the PS run, and the other workers don't yet."""
    pods = {f"Worker-{i}": make_pod(f"Worker-{i}", "Running" if i < running else "Pending") for i in range(4)}
    pods |= {"PS-0": make_pod("PS-0", ready=ready)}
    pods |= {name.replace("_", "-"): pod for name, pod in others.items()}
    return planned(job, *pods.values()).status


def only_counts(old: TFJobStatus, new: TFJobStatus, job: TFJob = JOB) -> bool:
    return only_counts_rise(old, new, job.spec)


def test_fewer_are_more_than_that() -> None:
    assert not only_counts(status(2), status(1))
    assert not only_counts(status(2), status(3, ready=False))


def test_all_workers_are_what_somebody_may_wait_for() -> None:
    assert not only_counts(status(3, ready=False), status(4, ready=False))
    assert only_counts(status(2, ready=False), status(3, ready=False))
    more = msgspec.structs.replace(status(4, ready=False), ready="5/5")
    assert only_counts(status(4, ready=False), more), "they were before"


@pytest.mark.parametrize(
    ("why", "new"),
    [
        ("the first pod that runs", status(1)),
        ("ready", status(4)),
        ("an end", status(2, Worker_3=make_pod("Worker-3", "Succeeded", exit_code=0))),
        ("a failure", status(2, Worker_3=make_pod("Worker-3", "Failed", exit_code=1))),
        ("trouble", status(2, Worker_3=make_pod("Worker-3", "Pending", containers=(waiting("ImagePullBackOff"),)))),
        ("a restart", status(2, Worker_3=make_pod("Worker-3", restarts_before=1))),
        ("another size", status(2, job=make_job({"PS": 1, "Worker": 5}))),
        ("another generation", status(2, job=make_job({"PS": 1, "Worker": 4}, generation=2))),
    ],
)
def test_everything_else_is_more_than_that(why: str, new: TFJobStatus) -> None:
    old = status(0, PS_0=make_pod("PS-0", "Pending")) if why == "the first pod that runs" else status(1)
    assert old != new
    assert not only_counts(old, new), why


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "Unknown"},
        {"restarts": 1},
        {"job_restarts": 1},
        {"start_time": None},
        {"observed_generation": 7},
        {"ready": "2/6"},
        {"replica_statuses": {}},
        {"conditions": ()},
        {"conditions": (JobCondition("Ready", "True", "TFJobReady"),)},
    ],
)
def test_no_other_field_may_differ(change: dict[str, Any]) -> None:
    new = msgspec.structs.replace(status(2), **change)
    assert not only_counts(status(1), new)
