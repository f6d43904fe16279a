from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.controller.builders import make_job, make_pod, planned
from tfoperator.api.v1.types import ConditionType, TFJob
from tfoperator.controller import PLAIN_NAMES, UNIQUE_NAMES
from tfoperator.controller.plan.observed import PlanOptions

UID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
PIECE = "1b4e28ba"
UNIQUE = PlanOptions(naming=UNIQUE_NAMES, restart_delay_base=0)
PEER = PlanOptions(naming=PLAIN_NAMES, restart_delay_base=0)


def job_of(replicas: dict[str, Any], **how: Any) -> TFJob:
    job = make_job(replicas, **how)
    return msgspec.structs.replace(job, metadata=msgspec.structs.replace(job.metadata, uid=UID))


def test_pods_that_vanished_with_all_else_are_looked_up_under_both_names() -> None:
    job = job_of({"Worker": {"replicas": 1, "restartPolicy": "OnFailure"}})
    running = planned(job, make_pod("Worker-0"), options=PEER).status
    result = planned(msgspec.structs.replace(job, status=running), services=(), options=UNIQUE)
    assert result.absent == ("mnist-worker-0", f"mnist-worker-0-{PIECE}")
    assert planned(msgspec.structs.replace(job, status=running), options=UNIQUE).absent == ("mnist-worker-0",)


@pytest.mark.parametrize(
    ("length", "replicas", "fits"), [(45, 1, True), (46, 1, False), (44, 11, True), (45, 11, False)]
)
def test_the_piece_counts_for_the_length_of_names(length: int, replicas: int, fits: bool) -> None:
    name = "m" * length
    job = job_of({"Worker": replicas}, name=name)
    result = planned(job, services=(), options=UNIQUE)
    assert result.has_condition(ConditionType.FAILED) is not fits
    if not fits:
        message = result.condition(ConditionType.FAILED).message
        assert "metadata.name: is too long by 1 character" in message
        assert f"{name}-worker-{replicas - 1}-{PIECE}" in message
    assert bool(result.created_pods) == fits
    assert planned(job, services=(), options=PEER).creations("pods")
