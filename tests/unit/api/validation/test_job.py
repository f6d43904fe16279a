from typing import Any

import pytest

from tests.unit.api.samples import FULL_SPEC, PEER_STATUS, TEMPLATE, job_of, tfjob
from tests.unit.api.validation.complaints import WORKER, complaints, warnings
from tfoperator.api import errors, validate, validate_manifest


def test_a_job_with_every_field_of_the_peer_is_good_but_not_with_another_success_policy() -> None:
    job = tfjob({}) | {"spec": FULL_SPEC, "status": PEER_STATUS}
    assert validate_manifest(job) == ()
    assert validate(job_of(job)) == ()
    (text,) = complaints(tfjob({"Worker": {}}, successPolicy="Chief"))
    assert text == 'spec.successPolicy: must be one of AllWorkers, but is "Chief"'


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "metadata.name: is required"),
        (
            "Mnist",
            "metadata.name: must consist of lower-case letters, digits and '-', start with a letter and end "
            'with a letter or digit, but is "Mnist"',
        ),
        ("1st", "metadata.name: must consist of"),
        ("mnist-", "metadata.name: must consist of"),
        ("mnist\n", "metadata.name: must consist of"),
        ("m.nist", "metadata.name: must consist of"),
        (
            "m" * 53,
            f'metadata.name: is too long by 1 character: "{"m" * 53}-worker-100", the longest name of an '
            "object of the job, must have at most 63",
        ),
        ("m" * 60, "metadata.name: is too long by 8 characters"),
    ],
)
def test_a_bad_name_is_refused(name: str, complaint: str) -> None:
    (text,) = complaints(tfjob({"Worker": {"replicas": 101}, "PS": {"replicas": 1}}, name=name))
    assert text.startswith(complaint)


def test_a_generated_name_counts_with_what_the_server_appends() -> None:
    job = tfjob({"Worker": {}})
    job["metadata"] = {"generateName": "mnist-"}
    assert complaints(job) == []
    job["metadata"] = {"generateName": "m" * 50}
    (text,) = complaints(job)
    assert text.startswith("metadata.generateName: is too long by 1 character")


@pytest.mark.parametrize(
    ("replicas", "complaint"),
    [
        ({}, ": must have at least one of PS, Worker, Chief, Master, Evaluator"),
        ({"Eval": {}}, "[Eval]: is not a replica type; the types are PS, Worker, Chief, Master, Evaluator"),
        ({"Worker": None}, "[Worker]: must not be null"),
        ({"Worker": {"template": None}}, "[Worker].template: is required"),
        ({"Worker": {"template": {}}}, "[Worker].template.spec.containers: must have at least one container"),
        ({"Worker": {}, "worker": {}}, ": names Worker more than once: Worker and worker"),
        (
            {"chief": {}, "Master": {}},
            ": must not have both Chief and Master: they are two names for the same replica type",
        ),
        ({"Worker": {"replicas": -1}}, "[Worker].replicas: must be 0 or more, but is -1"),
        ({"worker": {"replicas": 10_001}}, "[worker].replicas: must be 10000 or less, but is 10001"),
        (
            {"Worker": {"restartPolicy": "onFailure"}},
            '[Worker].restartPolicy: must be one of Always, OnFailure, Never, ExitCode, but is "onFailure"',
        ),
    ],
)
def test_bad_replicas_are_refused(replicas: dict[str, Any], complaint: str) -> None:
    assert complaints(tfjob(replicas)) == [f"spec.tfReplicaSpecs{complaint}"]


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        ({"cleanPodPolicy": "all"}, 'cleanPodPolicy: must be one of All, Running, None, but is "all"'),
        ({"ttlSecondsAfterFinished": -1}, "ttlSecondsAfterFinished: must be 0 or more, but is -1"),
        ({"activeDeadlineSeconds": -5}, "activeDeadlineSeconds: must be 0 or more, but is -5"),
        ({"activeDeadlineSeconds": 2**31}, "activeDeadlineSeconds: must be 2147483647 or less"),
        ({"activeDeadlineSeconds": 10**100}, "activeDeadlineSeconds: must be 2147483647 or less"),
        ({"progressDeadlineSeconds": 29}, "progressDeadlineSeconds: must be 30 or more, but is 29"),
        ({"progressDeadlineSeconds": 0}, "progressDeadlineSeconds: must be 30 or more, but is 0"),
        ({"startDeadlineSeconds": 0}, "startDeadlineSeconds: must be 1 or more, but is 0"),
        ({"startDeadlineSeconds": 2**31}, "startDeadlineSeconds: must be 2147483647 or less"),
        ({"backoffLimit": -1}, "backoffLimit: must be 0 or more, but is -1"),
        ({"managedBy": "me"}, "managedBy: must be kubeflow.org/training-operator or kueue"),
        ({"schedulingPolicy": {"minAvailable": -1}}, "schedulingPolicy.minAvailable: must be 0"),
        ({"schedulingPolicy": {"scheduleTimeoutSeconds": -1}}, "schedulingPolicy.scheduleTimeoutSec"),
        (
            {"schedulingPolicy": {"minResources": {"cpu": "4", "memory": "much"}}},
            "schedulingPolicy.minResources[memory]: must be a quantity such as",
        ),
        ({"restartMode": "InPlace", "restartScope": "Job"}, "restartMode: InPlace and restartScope Job contradict"),
        ({"restartMode": "Here"}, 'restartMode: must be one of Recreate, InPlace, but is "Here"'),
        ({"suspend": "no"}, 'suspend: must be true or false, but is the string "no"'),
    ],
)
def test_a_bad_run_policy_is_refused(policy: dict[str, Any], complaint: str) -> None:
    job = tfjob({"Worker": {"restartPolicy": "ExitCode"}}, runPolicy=policy)
    (problem,) = errors(validate_manifest(job))
    assert str(problem).startswith(f"spec.runPolicy.{complaint}")


@pytest.mark.parametrize(
    "own",
    [
        {"restartPolicy": "Always"},
        {
            "restartPolicy": "Never",
            "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}],
        },
    ],
)
def test_rules_of_a_templates_own_contradict_those_of_restarts_in_place(own: dict[str, Any]) -> None:
    containers = [{"name": "tensorflow", "image": "x", **own}]
    worker = {"restartPolicy": "ExitCode", "template": {"spec": {"containers": containers}}}
    (text,) = complaints(tfjob({"Worker": worker}, runPolicy={"restartMode": "InPlace"}))
    assert text.startswith(
        "spec.tfReplicaSpecs[Worker].template.spec.containers: the container tensorflow must not have"
    )
    assert not complaints(tfjob({"Worker": worker}, runPolicy={"restartMode": "Recreate"}))


STOPS = {"cleanPodPolicy": "Running"}
FOUR = {"Worker": {"replicas": 4}}


@pytest.mark.parametrize(
    ("replicas", "spec", "warning"),
    [
        ({"Chief": {"replicas": 2}}, {}, "TensorFlow refuses a cluster with more than one Chief"),
        ({"Worker": {}, "Evaluator": {"replicas": 2}}, {}, "TensorFlow refuses a cluster with more than one Evaluator"),
        ({"PS": {}}, {}, "has neither Chief nor Worker, so nothing decides when the job has succeeded"),
        ({"Worker": {"replicas": 0}}, {}, "has no replicas: a job without replicas has"),
        (FOUR, {"runPolicy": {"activeDeadlineSeconds": 0}}, "ends the job as soon as it starts"),
        (
            FOUR,
            {"runPolicy": {"restartMode": "InPlace"}},
            "it needs a replica type with restartPolicy ExitCode or OnFailure",
        ),
        (FOUR, {"runPolicy": {"schedulingPolicy": {"minAvailable": 5}}}, "is 5, but the job has only 4 replicas"),
        (FOUR, {"clusterArguments": True}, ""),
        (FOUR, {"enableDynamicWorker": True}, ""),
        (
            FOUR,
            {"clusterArguments": True, "enableDynamicWorker": True},
            "clusterArguments: names only the workers that ",
        ),
        (
            FOUR,
            {"minSucceededWorkers": 5, "runPolicy": STOPS},
            "is 5, but the job has only 4 workers: all of them have to succeed",
        ),
        ({"Chief": {}}, {"minSucceededWorkers": 1, "runPolicy": STOPS}, "the job has no workers"),
        ({"Chief": {}}, {"maxFailedWorkers": 1}, "the job has no workers"),
        ({"worker": {"restartPolicy": "OnFailure"}}, {"maxFailedWorkers": 1}, "with restartPolicy OnFailure"),
        *(
            (FOUR, {"elasticPolicy": {}, "maxFailedWorkers": 1, **more}, "spec.maxFailedWorkers: lets an elastic job")
            for more in ({}, {"runPolicy": {"restartScope": "Job"}})
        ),
        (FOUR, {"elasticPolicy": {}, "maxFailedWorkers": 0}, ""),
        (
            {"Worker": {"replicas": 4, "restartPolicy": "OnFailure"}},
            {"elasticPolicy": {}, "maxFailedWorkers": 1},
            "with restartPolicy OnFailure",
        ),
        (FOUR, {"minSucceededWorkers": 1}, "cleanPodPolicy to Running"),
        (FOUR, {"minSucceededWorkers": 1, "runPolicy": {"cleanPodPolicy": "None"}}, "cleanPodPolicy to Running"),
    ],
)
def test_what_looks_like_a_mistake_is_a_warning(replicas: dict[str, Any], spec: dict[str, Any], warning: str) -> None:
    job = tfjob(replicas, **spec)
    assert complaints(job) == []
    texts = warnings(job)
    assert [warning in text for text in texts] == ([True] if warning else [])


CLAIM = {"persistentVolumeClaim": {"claimName": "checkpoints"}}


@pytest.mark.parametrize(
    ("checkpoint", "complaint"),
    [
        ({"mountPath": "/c"}, "spec.checkpoint.volume: is required"),
        ({"volume": None, "mountPath": "/c"}, "spec.checkpoint.volume: is required"),
        ({"volume": [], "mountPath": "/c"}, "spec.checkpoint.volume: must be an object"),
        ({"volume": {}, "mountPath": "/c"}, "spec.checkpoint.volume: must have exactly one kind of volume"),
        ({"volume": {"name": "v"}, "mountPath": "/c"}, "spec.checkpoint.volume: must have exactly one kind of volume"),
        (
            {"volume": CLAIM | {"nfs": {}}, "mountPath": "/c"},
            "spec.checkpoint.volume: must have exactly one kind of volume",
        ),
        ({"volume": CLAIM}, "spec.checkpoint.mountPath: is required"),
        ({"volume": CLAIM, "mountPath": "c"}, "spec.checkpoint.mountPath: must be an absolute path"),
        ({"volume": CLAIM, "mountPath": "/"}, "spec.checkpoint.mountPath: must be an absolute path"),
        ({"volume": CLAIM, "mountPath": "/c:d"}, "spec.checkpoint.mountPath: must be an absolute path"),
        ({"volume": CLAIM, "mountPath": "/" + "c" * 1024}, "spec.checkpoint.mountPath: must have at most 1024"),
        ("here", "spec.checkpoint: must be an object"),
    ],
)
def test_a_checkpoint_needs_one_volume_and_an_absolute_place(checkpoint: Any, complaint: str) -> None:
    (text,) = (str(problem) for problem in errors(validate_manifest(tfjob({"Worker": {}}, checkpoint=checkpoint))))
    assert text.startswith(complaint)


@pytest.mark.parametrize(
    ("volume", "warning"),
    [
        (CLAIM, ""),
        (CLAIM | {"nfs": None}, ""),
        (CLAIM | {"name": "mine"}, "spec.checkpoint.volume.name: has no effect"),
        ({"emptyDir": {}}, "spec.checkpoint.volume: is an emptyDir: each pod has its own emptyDir"),
    ],
)
def test_a_checkpoint_that_may_not_be_what_was_meant_is_a_warning(volume: dict[str, Any], warning: str) -> None:
    job = tfjob({"Worker": {}}, checkpoint={"volume": volume, "mountPath": "/checkpoint"})
    assert complaints(job) == []
    assert [text.startswith(warning) for text in warnings(job)] == ([True] if warning else [])


def test_host_names_of_a_template_have_no_effect_in_a_network_of_the_job() -> None:
    template = {"spec": {**TEMPLATE["spec"], "hostname": "me", "subdomain": "mine"}}
    replicas = {"PS": {}, "Worker": {"template": template}}
    lines = warnings(tfjob(replicas, network="PerJob"))
    assert [line.partition(":")[0] for line in lines if "has no effect" in line] == [
        f"{WORKER}.template.spec.hostname",
        f"{WORKER}.template.spec.subdomain",
    ]
    assert not any("has no effect" in line for line in warnings(tfjob(replicas)))


MINIMUM = 'spec.minSucceededWorkers: must be a number from 1 or a percentage from "1%" to "100%", but is '
MAXIMUM = 'spec.maxFailedWorkers: must be a number from 0 or a percentage from "0%" to "100%", but is '


@pytest.mark.parametrize(
    ("values", "minimum", "maximum"),
    [
        ([1, 4, "1%", "80%", "100%"], None, None),
        ([0, "0%"], MINIMUM, None),
        ([-1, "", "half", "101%", "1.5%", "3"], MINIMUM, MAXIMUM),
        ([1.5, True, [], {"percent": 80}], "spec.minSucceededWorkers: must be", "spec.maxFailedWorkers: must be"),
    ],
    ids=["a number or a share", "none may fail, but success takes one", "neither", "another type"],
)
def test_a_number_or_a_share_of_workers_is_good(values: list[Any], minimum: str | None, maximum: str | None) -> None:
    for name, wrong in (("minSucceededWorkers", minimum), ("maxFailedWorkers", maximum)):
        for value in values:
            texts = [str(problem) for problem in validate_manifest(tfjob(FOUR, runPolicy=STOPS, **{name: value}))]
            assert [bool(wrong and text.startswith(wrong)) for text in texts] == ([True] if wrong else []), value


LOGS = {"name": "logs", "persistentVolumeClaim": {"claimName": "logs"}}
MOUNT = {"name": "logs", "mountPath": "/logs"}
GOOD = {"logDir": "/logs", "volumes": [LOGS], "volumeMounts": [MOUNT]}


def board_problems(board: Any) -> tuple[list[str], list[str]]:
    """Errors and warnings of a job with this TensorBoard."""
    job = tfjob({"Worker": {}}, tensorBoard=board)
    return list(map(str, errors(validate_manifest(job)))), warnings(job)


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
def test_a_good_tensorboard_is_neither_an_error_nor_a_warning(board: dict[str, Any]) -> None:
    assert board_problems(board) == ([], [])


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
        (
            GOOD | {"volumes": [LOGS, {"name": "n"}]},
            "spec.tensorBoard.volumes[1]: must have exactly one kind of volume",
        ),
        (
            GOOD | {"volumes": [LOGS | {"nfs": {}}]},
            "spec.tensorBoard.volumes[0]: must have exactly one kind of volume, but",
        ),
        (GOOD | {"volumes": [LOGS, "x"]}, "spec.tensorBoard.volumes[1]: must be an object"),
        (GOOD | {"volumeMounts": [{"name": "logs"}]}, "spec.tensorBoard.volumeMounts[0].mountPath: is required"),
        (GOOD | {"volumeMounts": [{"mountPath": "/logs"}]}, "spec.tensorBoard.volumeMounts[0].name: is required"),
        (GOOD | {"volumeMounts": [MOUNT] * 65}, "spec.tensorBoard.volumeMounts: must have at most 64 items"),
        (GOOD | {"resources": {"limits": 2}}, "spec.tensorBoard.resources.limits: must be an object"),
        (GOOD | {"env": [{"value": "1"}]}, "spec.tensorBoard.env[0].name: is required"),
        (GOOD | {"env": [{"name": 1}]}, "spec.tensorBoard.env[0].name: must be a string, but is 1"),
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
def test_what_would_leave_the_job_without_a_tensorboard_is_an_error(board: Any, complaint: str) -> None:
    [text], _ = board_problems(board)
    assert text.startswith(complaint)


@pytest.mark.parametrize(
    ("board", "warning"),
    [
        ({"logDir": "/logs"}, 'spec.tensorBoard.logDir: "/logs" is in none of the TensorBoard'),
        (
            GOOD | {"volumes": [{"name": "logs", "emptyDir": {}}]},
            "spec.tensorBoard.volumes[0]: must not be an emptyDir",
        ),
        (
            GOOD | {"env": [{"name": "TENSORBOARD_PORT", "value": "80"}]},
            "spec.tensorBoard.env[0]: has no effect: the operator sets TENSORBOARD_PORT",
        ),
        (
            GOOD | {"logdir": "/x"},
            "spec.tensorBoard.logdir: is unknown: kubectl refuses it, other clients ignore it; did you mean logDir?",
        ),
    ],
)
def test_a_tensorboard_that_may_not_be_what_was_meant_is_a_warning(board: dict[str, Any], warning: str) -> None:
    no_errors, [text] = board_problems(board)
    assert no_errors == []
    assert text.startswith(warning)


@pytest.mark.parametrize(
    ("workers", "policy", "more", "field"),
    [
        (3, {"minReplicas": 4, "maxReplicas": 3}, {}, "spec.elasticPolicy.minReplicas"),
        (3, {"maxReplicas": 2}, {}, "spec.elasticPolicy.maxReplicas"),
        (1, {"minReplicas": 2}, {}, "spec.elasticPolicy.minReplicas"),
        (1, {"growAfterSeconds": -1}, {}, "spec.elasticPolicy.growAfterSeconds"),
        (1, {}, {"runPolicy": {"restartScope": "Replica"}}, "spec.runPolicy.restartScope"),
        (1, {}, {"runPolicy": {"restartMode": "InPlace", "restartScope": "Job"}}, "spec.runPolicy.restartMode"),
        (1, {}, {"enableDynamicWorker": True}, "spec.enableDynamicWorker"),
    ],
)
def test_an_elastic_policy_that_contradicts_the_job_is_refused_at_its_field(
    workers: int, policy: dict[str, int], more: dict[str, Any], field: str
) -> None:
    texts = complaints(tfjob({"Worker": {"replicas": workers}}, elasticPolicy=policy, **more))
    assert any(text.startswith(field) for text in texts), texts


def test_an_elastic_policy_is_for_workers_without_parameter_servers() -> None:
    assert complaints(tfjob({"worker": {"replicas": 2}, "Chief": {}, "Evaluator": {}}, elasticPolicy={})) == []
    (with_servers,) = complaints(tfjob({"Worker": {}, "PS": {}}, elasticPolicy={}))
    assert "set enableDynamicWorker if the number of workers has to change" in with_servers
    (without_workers,) = complaints(tfjob({"Chief": {}}, elasticPolicy={}))
    assert (
        without_workers
        == "spec.elasticPolicy: must not be set for a job without workers, because it limits the number of workers"
    )
