from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.controller.builders import make_job, planned
from tfoperator.kube.objects import Pod
from tfoperator.local.controllers.deployment_pods import (
    HASH_LABEL,
    LocalDeployment,
    deployment_status,
    is_running,
    pod_bodies,
    probed_path,
)


def deployment(**changes: Any) -> LocalDeployment:
    """What the operator makes of a TensorBoard, as the API server hands it out."""
    result = planned(make_job({"Worker": 1}, tensorBoard={"logDir": "/logs"}))
    [body] = [action.body for action in result.actions if action.kind == "deployments"]
    metadata = {**body["metadata"], "uid": "u", "generation": 3}
    return msgspec.convert({**body, "metadata": metadata, "spec": {**body["spec"], **changes}}, LocalDeployment)


def test_a_tensorboard_listens_on_the_loopback_port_of_its_service_and_another_deployments_pod_is_its_template() -> (
    None
):
    [body] = pod_bodies(deployment(), 20001)
    environment = {variable["name"]: variable["value"] for variable in body["spec"]["containers"][0]["env"]}
    assert environment == {"TENSORBOARD_HOST": "127.0.0.1", "TENSORBOARD_PORT": "20001"}
    [body] = pod_bodies(deployment(), None)
    assert body["spec"] == deployment().spec.template["spec"]


def test_a_pod_is_its_deployments_and_told_from_those_of_other_templates() -> None:
    [body] = pod_bodies(deployment(), 20001)
    [owner] = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Deployment", "u", True)
    digest = body["metadata"]["labels"][HASH_LABEL]
    assert body["metadata"]["name"] == f"mnist-tensorboard-{digest}-0"
    [same] = pod_bodies(deployment(), 20001)
    [other] = pod_bodies(deployment(), 20002)
    assert same["metadata"]["name"] == body["metadata"]["name"] != other["metadata"]["name"]


@pytest.mark.parametrize("replicas", [0, 1, 3])
def test_there_are_so_many_pods_each_with_a_name_of_its_own(replicas: int) -> None:
    bodies = pod_bodies(deployment(replicas=replicas), None)
    assert len({body["metadata"]["name"] for body in bodies}) == replicas


def test_its_page_is_asked_for_only_if_there_is_a_probe() -> None:
    assert probed_path(deployment()) == "/"
    assert probed_path(deployment(template={})) == ""


@pytest.mark.parametrize(("status", "runs"), [("True", True), ("False", False), (None, False)])
def test_a_pod_runs_when_it_is_ready(status: str | None, runs: bool) -> None:
    conditions = [{"type": "Ready", "status": status}] if status else []
    assert is_running(msgspec.convert({"status": {"conditions": conditions}}, Pod)) is runs


def test_the_status_tells_kubectl_when_a_rollout_is_over() -> None:
    one = deployment()
    waiting = deployment_status(one, [Pod()], 1, 0, "2026-01-01T00:00:00Z")
    assert (waiting["observedGeneration"], waiting["updatedReplicas"], waiting["availableReplicas"]) == (3, 1, 0)
    assert waiting["conditions"][0]["status"] == "False"
    one = msgspec.structs.replace(one, status=waiting)
    assert deployment_status(one, [Pod()], 1, 0, "2026-01-01T00:00:09Z") == waiting, "nothing new, nothing to write"
    served = deployment_status(one, [Pod()], 1, 1, "2026-01-01T00:00:09Z")
    assert (served["availableReplicas"], served["unavailableReplicas"]) == (1, 0)
    assert served["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:09Z"
