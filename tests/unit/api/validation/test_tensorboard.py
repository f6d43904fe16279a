from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.samples import tfjob
from tfoperator.api import errors, validate_manifest

LOGS = {"name": "logs", "persistentVolumeClaim": {"claimName": "logs"}}
MOUNT = {"name": "logs", "mountPath": "/logs"}
GOOD = {"logDir": "/logs", "volumes": [LOGS], "volumeMounts": [MOUNT]}


def problems(board: Any, name: str = "mnist") -> list[str]:
    return list(map(str, errors(validate_manifest(tfjob({"Worker": {}}, name=name, tensorBoard=board)))))


def warnings(board: Any) -> list[str]:
    found = validate_manifest(tfjob({"Worker": {}}, tensorBoard=board))
    return [str(problem) for problem in found if problem.severity == "warning"]


@pytest.mark.parametrize(
    "board",
    [
        GOOD,
        {"logDir": "gs://bucket/logs"},
        {"logDir": "s3://bucket/logs", "image": "", "serviceType": "", "resources": None},
        GOOD | {"serviceType": "LoadBalancer", "resources": {"limits": {"cpu": 1}, "requests": None}},
        GOOD | {"env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s"}}}]},
        GOOD | {"securityContext": {"runAsUser": 1, "sysctls": []}, "imagePullSecrets": [{"name": "s"}]},
        GOOD | {"securityContext": None, "env": None, "nodeSelector": None, "serviceAccountName": None},
    ],
)
def test_a_good_one_is_neither_an_error_nor_a_warning(board: dict[str, Any]) -> None:
    assert (problems(board), warnings(board)) == ([], [])


@pytest.mark.parametrize(
    ("board", "complaint"),
    [
        ({}, "spec.tensorBoard.logDir: is required"),
        ({"logDir": ""}, "spec.tensorBoard.logDir: is required"),
        ({"logDir": "x" * 1025}, "spec.tensorBoard.logDir: must have at most 1024"),
        ({"logDir": 1}, "spec.tensorBoard.logDir: must be a string"),
        (GOOD | {"serviceType": "ExternalName"}, "spec.tensorBoard.serviceType: must be one of ClusterIP, NodePort"),
        (GOOD | {"volumes": []}, 'spec.tensorBoard.volumeMounts[0].name: "logs" is none of spec.tensorBoard.volumes'),
        (GOOD | {"volumes": [LOGS, LOGS]}, 'spec.tensorBoard.volumes[1].name: "logs" is the name of another'),
        (GOOD | {"volumes": [LOGS, {"nfs": {}}]}, "spec.tensorBoard.volumes[1].name: is required"),
        (GOOD | {"volumes": [LOGS, {"name": 3, "nfs": {}}]}, "spec.tensorBoard.volumes[1].name: must be a string"),
        (GOOD | {"volumes": [LOGS, {"name": "n"}]}, "spec.tensorBoard.volumes[1]: must have one kind of volume"),
        (GOOD | {"volumes": [LOGS | {"nfs": {}}]}, "spec.tensorBoard.volumes[0]: must have one kind of volume, but"),
        (GOOD | {"volumes": [LOGS, "x"]}, "spec.tensorBoard.volumes[1]: must be an object"),
        (GOOD | {"volumeMounts": [{"name": "logs"}]}, "spec.tensorBoard.volumeMounts[0].mountPath: is required"),
        (GOOD | {"volumeMounts": [{"mountPath": "/logs"}]}, "spec.tensorBoard.volumeMounts[0].name: is required"),
        (GOOD | {"volumeMounts": [MOUNT] * 65}, "spec.tensorBoard.volumeMounts: must have at most 64 items"),
        (GOOD | {"resources": {"limits": 2}}, "spec.tensorBoard.resources.limits: must be an object"),
        (GOOD | {"env": [{"value": "1"}]}, "spec.tensorBoard.env[0].name: is required"),
        (GOOD | {"env": [{"name": 1}]}, "spec.tensorBoard.env[0].name: must be a string, is 1"),
        (GOOD | {"env": [{"name": "A", "value": 1}]}, "spec.tensorBoard.env[0].value: must be a string"),
        (GOOD | {"env": [{"name": "A"}] * 257}, "spec.tensorBoard.env: must have at most 256 items"),
        (GOOD | {"imagePullSecrets": [{}]}, "spec.tensorBoard.imagePullSecrets[0].name: is required"),
        (GOOD | {"imagePullSecrets": [{"name": "s" * 254}]}, "spec.tensorBoard.imagePullSecrets[0].name: must have at"),
        (GOOD | {"env": [{"name": "A" * 1025}]}, "spec.tensorBoard.env[0].name: must have at most 1024 characters"),
        (GOOD | {"imagePullSecrets": ["s"]}, "spec.tensorBoard.imagePullSecrets[0]: must be an object"),
        (GOOD | {"nodeSelector": {"a": 1}}, "spec.tensorBoard.nodeSelector[a]: must be a string"),
        (GOOD | {"securityContext": {"runAsUser": "me"}}, "spec.tensorBoard.securityContext.runAsUser: must be a"),
        (GOOD | {"serviceAccountName": 3}, "spec.tensorBoard.serviceAccountName: must be a string"),
        ("here", "spec.tensorBoard: must be an object"),
    ],
)
def test_what_would_leave_the_job_without_it_is_an_error(board: Any, complaint: str) -> None:
    [found] = problems(board)
    assert found.startswith(complaint)


@pytest.mark.parametrize(
    ("board", "warning"),
    [
        ({"logDir": "/logs"}, 'spec.tensorBoard.logDir: "/logs" is in none of its volumeMounts'),
        (
            GOOD | {"volumes": [{"name": "logs", "emptyDir": {}}]},
            "spec.tensorBoard.volumes[0]: an emptyDir is its pod's",
        ),
        (
            GOOD | {"env": [{"name": "TENSORBOARD_PORT", "value": "80"}]},
            "spec.tensorBoard.env[0]: TENSORBOARD_PORT is the operator's",
        ),
        (GOOD | {"logdir": "/x"}, "spec.tensorBoard.logdir: is unknown and will be ignored; did you mean logDir?"),
    ],
)
def test_what_may_not_be_what_was_meant_is_a_warning(board: dict[str, Any], warning: str) -> None:
    assert problems(board) == []
    [found] = warnings(board)
    assert found.startswith(warning)
