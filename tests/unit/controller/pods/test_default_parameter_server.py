from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.controller.builders import ReadablePlan, make_job, planned
from tfoperator.api.v1.types import ConditionType, ReplicaType
from tfoperator.controller.plan.observed import PlanOptions

IMAGE = "example.com/tensorflow:2"
OPTIONS = PlanOptions(default_ps_image=IMAGE)


def plan_new(replicas: dict[str, Any], options: PlanOptions = OPTIONS, **spec: Any) -> ReadablePlan:
    return planned(make_job(replicas, **spec), services=(), options=options)


@pytest.mark.parametrize("key", ["PS", "ps"])
def test_parameter_servers_without_a_template_run_the_stock_one(key: str) -> None:
    result = plan_new({key: {"replicas": 2, "template": None}, "Worker": 1})
    servers = [c for c in result.creations("pods") if c.replica in ((ReplicaType.PS, 0), (ReplicaType.PS, 1))]
    assert [c.name for c in servers] == ["mnist-ps-0", "mnist-ps-1"]
    for index, server in enumerate(servers):
        (container,) = server.body["spec"]["containers"]
        assert (container["name"], container["image"]) == ("tensorflow", IMAGE)
        assert container["command"][0] == "python"
        assert json.loads(container["env"][0]["value"])["task"] == {"type": "ps", "index": index}
    assert len(result.creations("services")) == 3


def test_without_an_image_the_job_is_invalid_and_says_which_option_is_missing() -> None:
    result = plan_new({"PS": {"template": None}, "Worker": 1}, PlanOptions())
    failed = result.condition(ConditionType.FAILED)
    assert failed.reason == "TFJobInvalid"
    assert "spec.tfReplicaSpecs[PS].template: is required" in failed.message
    assert "--default-ps-image" in failed.message
    assert not result.creations("pods")
    assert not result.creations("services")
