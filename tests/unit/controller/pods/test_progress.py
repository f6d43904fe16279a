from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.controller.builders import OPTIONS, TEMPLATE, make_job, planned
from tfoperator.api.progress_names import ANNOTATION_PROGRESS_CA, PROGRESS_MOUNT_PATH, token_audience
from tfoperator.controller import ProgressAccess
from tfoperator.controller.plan.actions import Create

ACCESS = ProgressAccess("https://progress.system.svc", "-----BEGIN CERTIFICATE-----\n...")

[CONTAINER] = TEMPLATE["spec"]["containers"]


def pods(access: ProgressAccess | None, template: dict[str, Any] = TEMPLATE, **spec: Any) -> list[dict[str, Any]]:
    job = make_job({"Worker": {"replicas": 2, "template": template}}, **spec)
    made = planned(job, options=msgspec.structs.replace(OPTIONS, progress=access)).actions
    return [action.body for action in made if isinstance(action, Create) and action.kind == "pods"]


def variables(pod: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in pod["spec"]["containers"][0].get("env", [])}


def test_a_job_that_takes_part_gets_an_address_two_files_and_their_places() -> None:
    for pod in pods(ACCESS, progress={}):
        found = variables(pod)
        path = "/apis/kubeflow.org/v1/namespaces/ns/tfjobs/mnist/status"
        assert found["KUBEFLOW_TRAINER_SERVER_URL"] == f"https://progress.system.svc{path}"
        assert found["KUBEFLOW_TRAINER_SERVER_CA_CERT"] == f"{PROGRESS_MOUNT_PATH}/ca.crt"
        assert found["KUBEFLOW_TRAINER_SERVER_TOKEN"] == f"{PROGRESS_MOUNT_PATH}/token"
        assert pod["metadata"]["annotations"][ANNOTATION_PROGRESS_CA] == ACCESS.authorities
        (volume,) = pod["spec"]["volumes"]
        token, authorities = volume["projected"]["sources"]
        wanted = {"audience": token_audience("ns", "mnist"), "expirationSeconds": 3600, "path": "token"}
        assert token == {"serviceAccountToken": wanted}
        (item,) = authorities["downwardAPI"]["items"]
        assert item["path"] == "ca.crt"
        assert ANNOTATION_PROGRESS_CA in item["fieldRef"]["fieldPath"]
        (mount,) = pod["spec"]["containers"][0]["volumeMounts"]
        assert mount == {"name": volume["name"], "mountPath": PROGRESS_MOUNT_PATH, "readOnly": True}


@pytest.mark.parametrize(
    ("spec", "for_all", "takes_part"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"progress": {}}, False, True),
        ({"progress": {"enabled": True}}, False, True),
        ({"progress": {"enabled": False}}, True, False),
    ],
)
def test_the_job_decides_and_else_the_operator(spec: dict[str, Any], for_all: bool, takes_part: bool) -> None:
    plain = pods(None, **spec)
    found = pods(msgspec.structs.replace(ACCESS, for_all=for_all), **spec)
    assert (found != plain) is takes_part
    assert ("KUBEFLOW_TRAINER_SERVER_URL" in variables(found[0])) is takes_part


def test_a_template_with_a_server_of_its_own_keeps_it() -> None:
    own = {"name": "KUBEFLOW_TRAINER_SERVER_URL", "value": "https://elsewhere"}
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "x", "env": [own]}]}}
    assert pods(ACCESS, template, progress={}) == pods(None, template, progress={})
