from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.samples import tfjob
from tests.unit.api.validation.complaints import CONTAINERS, WORKER, warnings, with_template
from tfoperator.api import errors, validate_manifest


def test_a_wrong_type_hides_no_other_mistake() -> None:
    manifest = tfjob(
        {"Worker": {"replicas": "2", "restartPolicy": "never"}, "PS": {"replicas": 0.5, "template": "train.py"}},
        name="My_Job",
        runPolicy={"backoffLimit": "many", "cleanPodPolicy": "running"},
    )
    assert [str(problem).partition(": ")[0] for problem in errors(validate_manifest(manifest))] == [
        "spec.tfReplicaSpecs[Worker].replicas",
        "spec.tfReplicaSpecs[PS].replicas",
        "spec.runPolicy.backoffLimit",
        "metadata.name",
        "spec.tfReplicaSpecs[Worker].restartPolicy",
        "spec.tfReplicaSpecs[PS].template",
        "spec.runPolicy.cleanPodPolicy",
    ]


def test_what_is_missing_because_its_type_is_wrong_is_said_once() -> None:
    for manifest, field in (
        (tfjob({"Worker": {}}) | {"metadata": "mnist"}, "metadata"),
        (tfjob({"Worker": {}}) | {"spec": []}, "spec"),
        (tfjob({}) | {"spec": {"tfReplicaSpecs": ["Worker"]}}, "spec.tfReplicaSpecs"),
        (tfjob({"Worker": 3}), "spec.tfReplicaSpecs[Worker]"),
        (tfjob({"Worker": {}}, checkpoint={"mountPath": 3, "volume": {"emptyDir": {}}}), "spec.checkpoint.mountPath"),
    ):
        assert [problem.field for problem in errors(validate_manifest(manifest))] == [field]


@pytest.mark.parametrize(
    ("manifest", "found"),
    [
        ({}, ["apiVersion: is required and must be kubeflow.org/v1", "kind: is required and must be TFJob"]),
        (
            {"apiVersion": "v1", "kind": "Pod"},
            ['apiVersion: must be kubeflow.org/v1, but is "v1"', 'kind: must be TFJob, but is "Pod"'],
        ),
        (
            {"apiVersion": 1, "kind": "TFJob", "metadata": {"labels": {"a": 1}}},
            [
                "apiVersion: must be kubeflow.org/v1, but is 1",
                "metadata.labels[a]: must be a string, but is the number 1",
            ],
        ),
    ],
)
def test_what_is_no_tfjob_is_told_so(manifest: dict[str, Any], found: list[str]) -> None:
    assert [str(problem) for problem in validate_manifest(manifest)] == found


IN_CONTAINERS = "it belongs in spec.tfReplicaSpecs[...].template.spec.containers[...]"
IN_POD_SPEC = "it belongs in spec.tfReplicaSpecs[...].template.spec"


@pytest.mark.parametrize(
    ("manifest", "field", "hint"),
    [
        (tfjob({"Worker": {}}, cleanPodPolicy="All"), "spec.cleanPodPolicy", "it belongs in spec.runPolicy"),
        (tfjob({"Worker": {"backoffLimit": 1}}), f"{WORKER}.backoffLimit", "it belongs in spec.runPolicy"),
        (tfjob({"Worker": {}}, runpolicy={}), "spec.runpolicy", "did you mean runPolicy?"),
        (
            tfjob({"Worker": {}}, runPolicy={"backofLimit": 1}),
            "spec.runPolicy.backofLimit",
            "did you mean backoffLimit?",
        ),
        (tfjob({"Worker": {"image": "x"}}), f"{WORKER}.image", IN_CONTAINERS),
        (
            tfjob({"Worker": {}}, cleanPodPolcy=""),
            "spec.cleanPodPolcy",
            "did you mean cleanPodPolicy in spec.runPolicy?",
        ),
        (tfjob({"Worker": {}}, zzz=1), "spec.zzz", ""),
        (tfjob({"Worker": {}}) | {"tfReplicaSpecs": {}}, "tfReplicaSpecs", "it belongs in spec"),
        (with_template({"spec.volume": []}), f"{WORKER}.template.spec.volume", "did you mean volumes?"),
        (
            with_template({"spec.containers.0.imagePullPolicys": ""}),
            f"{CONTAINERS}[0].imagePullPolicys",
            "did you mean imagePullPolicy?",
        ),
        (with_template({"containers": []}), f"{WORKER}.template.containers", IN_POD_SPEC),
    ],
)
def test_an_unknown_member_is_a_warning_with_a_hint(manifest: dict[str, Any], field: str, hint: str) -> None:
    assert errors(validate_manifest(manifest)) == ()
    assert warnings(manifest) == [f"{field}: is unknown and will be ignored{'; ' * bool(hint)}{hint}"]


def test_metadata_that_only_servers_write_is_known() -> None:
    job = tfjob({"Worker": {}})
    job["metadata"] |= {"managedFields": [], "selfLink": "", "generation": 1, "creationTimestamp": None}
    assert validate_manifest(job) == ()
    job["metadata"]["lables"] = {}
    assert warnings(job) == ["metadata.lables: is unknown and will be ignored; did you mean labels?"]
