from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.samples import tfjob
from tests.unit.api.validation.complaints import complaints, warnings
from tfoperator.api.queues import QUEUE_LABEL


def queued(replicas: dict[str, Any], queue: str = "research") -> dict[str, Any]:
    manifest = tfjob(replicas)
    manifest["metadata"]["labels"] = {QUEUE_LABEL: queue} if queue else {}
    return manifest


def test_replica_types_that_kueue_does_not_know_are_warned_of() -> None:
    manifest = queued({"worker": {"replicas": 6}, "Chief": {}})
    assert complaints(manifest) == []
    assert warnings(manifest) == [
        "spec.tfReplicaSpecs[worker]: is not counted by queue research, for Kueue knows Worker only: these pods run "
        "without quota"
    ]


@pytest.mark.parametrize("template", [None, {"metadata": {}, "spec": {"containers": None}}])
def test_kueue_can_not_queue_a_parameter_server_without_a_template(template: object) -> None:
    manifest = queued({"PS": {"template": template}, "Worker": {}})
    assert complaints(manifest) == []
    assert any("the job stays in queue research" in warning for warning in warnings(manifest))


def test_a_job_without_a_queue_is_not_warned() -> None:
    assert warnings(queued({"worker": {}, "chief": {}}, queue="")) == []
    assert warnings(queued({"Worker": {}, "Chief": {}})) == []
