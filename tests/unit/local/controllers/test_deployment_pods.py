from typing import Any

import msgspec
import pytest

from tests.unit.controller.builders import make_job, planned
from tfoperator.kube.views.objects import Pod
from tfoperator.local.controllers.deployment_pods import (
    HASH_LABEL,
    LocalDeployment,
    deployment_status,
    is_running,
    pod_bodies,
    probed_path,
)


def deployment(**changes: Any) -> LocalDeployment:
    """Return the operator's Deployment for a TensorBoard, as the API server hands it out."""
    result = planned(make_job({"Worker": 1}, tensorBoard={"logDir": "/logs"}))
    [body] = [action.body for action in result.actions if action.kind == "deployments"]
    metadata = {**body["metadata"], "uid": "u", "generation": 3}
    return msgspec.convert({**body, "metadata": metadata, "spec": {**body["spec"], **changes}}, LocalDeployment)


def test_a_pod_has_its_template_its_owner_and_name_and_a_tensorboard_listens_on_the_loopback_port_of_its_service() -> (
    None
):
    [body] = pod_bodies(deployment(), 20001)
    environment = {variable["name"]: variable["value"] for variable in body["spec"]["containers"][0]["env"]}
    assert environment == {"TENSORBOARD_HOST": "127.0.0.1", "TENSORBOARD_PORT": "20001"}
    [body] = pod_bodies(deployment(), None)
    assert body["spec"] == deployment().spec.template["spec"]
    [body] = pod_bodies(deployment(), 20001)
    [owner] = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Deployment", "u", True)
    digest = body["metadata"]["labels"][HASH_LABEL]
    assert body["metadata"]["name"] == f"mnist-tensorboard-{digest}-0"
    [same] = pod_bodies(deployment(), 20001)
    [other] = pod_bodies(deployment(), 20002)
    assert same["metadata"]["name"] == body["metadata"]["name"] != other["metadata"]["name"]
    names = [{body["metadata"]["name"] for body in pod_bodies(deployment(replicas=count), None)} for count in (0, 1, 3)]
    assert list(map(len, names)) == [0, 1, 3]


@pytest.mark.parametrize(("status", "runs"), [("True", True), ("False", False), (None, False)])
def test_a_pod_runs_when_it_is_ready_and_its_page_is_asked_for_if_there_is_a_probe(
    status: str | None, runs: bool
) -> None:
    conditions = [{"type": "Ready", "status": status}] if status else []
    assert is_running(msgspec.convert({"status": {"conditions": conditions}}, Pod)) is runs
    assert [probed_path(example) for example in (deployment(), deployment(template={}))] == ["/", ""]


def test_the_status_tells_kubectl_when_a_rollout_is_over() -> None:
    current = deployment()
    waiting = deployment_status(current, [Pod()], 1, 0, "2026-01-01T00:00:00Z")
    assert (waiting["observedGeneration"], waiting["updatedReplicas"], waiting["availableReplicas"]) == (3, 1, 0)
    assert waiting["conditions"][0]["status"] == "False"
    current = msgspec.structs.replace(current, status=waiting)
    assert deployment_status(current, [Pod()], 1, 0, "2026-01-01T00:00:09Z") == waiting, "nothing new, nothing to write"
    served = deployment_status(current, [Pod()], 1, 1, "2026-01-01T00:00:09Z")
    assert (served["availableReplicas"], served["unavailableReplicas"]) == (1, 0)
    assert served["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:09Z"
