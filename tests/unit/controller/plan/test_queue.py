"""What is different for a job that is in a queue of Kueue."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.unit.controller.builders import ReadablePlan, make_job, plan_for, with_status
from tests.unit.controller.plan.test_tensorboard import BOARD, NAME, Objects
from tfoperator.api.queues import QUEUE_LABEL
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.observed import Observed


def queued(replicas: dict[str, Any] | None = None, *, suspend: bool = True, **spec: Any) -> TFJob:
    policy = {"suspend": suspend, **spec.pop("runPolicy", {})}
    job = make_job(replicas or {"Worker": 1}, runPolicy=policy, **spec)
    labelled = msgspec.structs.replace(job.metadata, labels={QUEUE_LABEL: "research"})
    return msgspec.structs.replace(job, metadata=labelled)


def told(plan: ReadablePlan) -> list[str]:
    return [event.message for event in plan.events if event.reason == "NotCountedByQueue"]


def test_what_no_quota_counts_is_told_when_the_job_is_made_and_when_it_is_admitted() -> None:
    observed = Observed(queued(), uncounted_types=("worker", "ps"))
    first = plan_for(observed)
    assert told(first) == [
        "queue research doesn't count the pods of worker, ps, which run without quota: Kueue knows Worker, PS only."
    ]
    waits = with_status(queued(), first.status)
    assert told(plan_for(msgspec.structs.replace(observed, job=waits))) == []
    admitted = with_status(queued(suspend=False), first.status)
    result = plan_for(msgspec.structs.replace(observed, job=admitted))
    assert len(told(result)) == 1
    runs = with_status(admitted, result.status)
    assert told(plan_for(msgspec.structs.replace(observed, job=runs))) == []


def test_a_tensorboard_goes_when_the_job_is_preempted_and_comes_back_with_it() -> None:
    objects = Objects()
    runs = queued(suspend=False, tensorBoard=BOARD)
    assert objects.plan(queued(tensorBoard=BOARD)).tensorboard_actions == (), "nothing is made before it is admitted"
    objects.carry_out_all(objects.plan(runs).tensorboard_actions, available=1)
    preempted = objects.plan(queued(tensorBoard=BOARD))
    assert [(type(one).__name__, one.kind) for one in preempted.tensorboard_actions] == [("Delete", "deployments")]
    objects.carry_out_all(preempted.tensorboard_actions)
    again = objects.plan(queued(tensorBoard=BOARD))
    assert again.tensorboard_actions == ()
    assert again.status.tensor_board is not None, "its address stays"
    assert not again.status.tensor_board.ready
    objects.carry_out_all(objects.plan(runs).tensorboard_actions)
    assert (set(objects.deployments), set(objects.services)) == ({NAME}, {NAME})
