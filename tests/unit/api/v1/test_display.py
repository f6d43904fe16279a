from __future__ import annotations

import json
from typing import Any

from tfoperator.api.v1.types import decode_tfjob


def shown(status: dict[str, Any], name: str = "mnist") -> str:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
    obj = {
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}},
        "status": status,
    }
    return decode_tfjob(json.dumps(obj).encode())._repr_html_()


def test_a_job_is_shown_with_its_replicas_and_conditions() -> None:
    running = {"type": "Running", "status": "True", "reason": "TFJobRunning", "message": "it runs"}
    text = shown(
        {
            "phase": "Running",
            "ready": "1/2",
            "restarts": 1,
            "replicaStatuses": {"Worker": {"active": 2}},
            "conditions": [running],
        }
    )
    assert "<b>TFJob ml/mnist</b> Running, 1/2 ready, 1 restart" in text
    for word in ("Worker", "it runs", "TFJobRunning"):
        assert word in text


def test_a_job_without_a_status_has_no_conditions_to_show() -> None:
    text = shown({})
    assert "Worker" in text
    assert "condition" not in text


def test_a_message_is_no_markup() -> None:
    condition = {"type": "Failed", "status": "True", "message": "<img src=x onerror=alert(1)>\x1b[31m"}
    text = shown({"conditions": [condition]}, name="<b>")
    assert "<img" not in text
    assert "\x1b" not in text
    assert "ml/<b>" not in text
