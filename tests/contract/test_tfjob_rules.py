"""The CRD's rules and defaults, at their edges: what a drop-in replacement must let in, and what it must not."""

import pytest

from tests.contract.support import TFJOBS, Json, Space, refused
from tests.unit.api.samples import FULL_SPEC, PEER_STATUS, TEMPLATE, tfjob
from tfoperator.api import errors, validate_manifest
from tfoperator.kube.protocol.errors import InvalidError


def job(replicas: Json, *, name: str = "mnist", **spec: object) -> Json:
    manifest = tfjob(replicas, name=name, **spec)
    del manifest["metadata"]["namespace"]
    return manifest


ODD_BUT_GOOD = [
    job({}) | {"spec": FULL_SPEC},
    job({"worker": {}, "ps": {}, "evaluatoR": {}}),
    job({"Chief": {"replicas": 2}}),
    job({"PS": {"replicas": 0}}),
    job({"Worker": {"replicas": 101}}, name="m" * 52),
    job({"Worker": {"replicas": 101}}, name="n" * 52, network="PerJob"),
    job({"Worker": {}}, network=""),
    job({"Worker": {"restartPolicy": ""}}, successPolicy="", runPolicy={"cleanPodPolicy": ""}),
    job({"Worker": {}}, runPolicy={"schedulingPolicy": {"minAvailable": 10}}),
    job({"Worker": {}}, name="m" * 51, tensorBoard={"logDir": "gs://bucket/logs", "serviceType": "", "image": ""}),
    job(
        {"Worker": {}},
        tensorBoard={
            "logDir": "gs://bucket/logs",
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
            "imagePullSecrets": [{"name": "registry"}],
            "nodeSelector": {"disk": "fast"},
            "securityContext": {"fsGroup": 1000, "seLinuxOptions": {"level": "s0"}},
            "serviceAccountName": "reader",
        },
    ),
    job({"Worker": {}}, name="m" * 48, dataService={"workers": 1000, "port": 65535, "workDir": "gs://bucket/journal"}),
    job({"Worker": {}}, dataService={"workers": 1, "template": TEMPLATE}),
    job({"ps": {"template": None}, "Worker": {}}),
    job({"Worker": {}}, elasticPolicy={}),
    job(
        {"worker": {"replicas": 3}, "Chief": {}},
        elasticPolicy={"minReplicas": 3, "maxReplicas": 3, "shrinkAfterSeconds": 0, "growAfterSeconds": 0},
        runPolicy={"restartScope": "Job"},
    ),
    job({"PS": {"template": {"metadata": {}, "spec": {"containers": None}}}, "Worker": {}}),
    job({"Worker": {"template": {"metadata": {"creationTimestamp": None, "labels": None}, **TEMPLATE}}}),
]

MOUNT = {"name": "logs", "mountPath": "/logs"}
LOGS = {"name": "logs", "persistentVolumeClaim": {"claimName": "logs"}}
CLAIM = {"persistentVolumeClaim": {"claimName": "checkpoints"}}
TWO_ALIKE = {"spec": {"containers": TEMPLATE["spec"]["containers"] * 2}}

BAD = [
    (job({"Worker": {"replicas": 101}}, name="m" * 53), "metadata.name", "63 characters"),
    (job({"Worker": {}, "worker": {}}), "spec.tfReplicaSpecs", ""),
    (job({"chief": {}, "MASTER": {}}), "spec.tfReplicaSpecs", "Chief and Master"),
    (job({"Worker": None}), "spec.tfReplicaSpecs", ""),
    (job({"Worker": {"template": None}}), "spec.tfReplicaSpecs", "template"),
    (job({"Evaluator": {"template": None}, "Worker": {}}), "spec.tfReplicaSpecs", "template"),
    (job({"PS": {"template": {}}, "Worker": {}}), "spec.tfReplicaSpecs", "template.spec"),
    (job({"Worker": {"template": {}}}), "spec.tfReplicaSpecs", "template.spec"),
    (job({"Worker": {"template": {"spec": {"containers": None}}}}), "spec.tfReplicaSpecs", "template"),
    (job({"Worker": {"template": TWO_ALIKE}}), "spec.tfReplicaSpecs", "containers[1]"),
    (job({"Worker": {"replicas": 10_001}}), "spec.tfReplicaSpecs", "10000"),
    (
        job({"Worker": {}}, runPolicy={"restartMode": "InPlace", "restartScope": "Job"}),
        "spec.runPolicy.restartMode",
        "contradict each other",
    ),
    (
        job({"Worker": {"replicas": 3}}, elasticPolicy={"minReplicas": 4, "maxReplicas": 3}),
        "spec.elasticPolicy.minReplicas",
        "must be at most",
    ),
    (job({"Worker": {"replicas": 3}}, elasticPolicy={"maxReplicas": 2}), "spec.elasticPolicy.maxReplicas", "at least"),
    (job({"worker": {"replicas": 3}}, elasticPolicy={"minReplicas": 4}), "spec.elasticPolicy.minReplicas", "at most"),
    (job({"Worker": {"replicas": 0}}, elasticPolicy={}), "spec.elasticPolicy.minReplicas", "at most"),
    (job({"Worker": {}}, elasticPolicy={"minReplicas": 0}), "spec.elasticPolicy.minReplicas", ""),
    (job({"Worker": {}, "ps": {}}, elasticPolicy={}), "spec.elasticPolicy", "with parameter servers"),
    (job({"Chief": {}}, elasticPolicy={}), "spec.elasticPolicy", "without workers"),
    (
        job({"Worker": {}}, elasticPolicy={}, runPolicy={"restartScope": "Replica"}),
        "spec.runPolicy.restartScope",
        "contradict",
    ),
    (
        job({"Worker": {}}, elasticPolicy={}, runPolicy={"restartMode": "InPlace"}),
        "spec.runPolicy.restartMode",
        "contradict",
    ),
    (job({"Worker": {}}, elasticPolicy={}, enableDynamicWorker=True), "spec.enableDynamicWorker", "contradict"),
    (job({"Worker": {}}, checkpoint={"volume": CLAIM}), "spec.checkpoint.mountPath", ""),
    (job({"Worker": {}}, checkpoint={"volume": {}, "mountPath": "/c"}), "spec.checkpoint.volume", ""),
    (job({"Worker": {}}, checkpoint={"volume": CLAIM, "mountPath": "c"}), "spec.checkpoint.mountPath", ""),
    (job({"Worker": {}}, dataService={}), "spec.dataService.workers", ""),
    (job({"Worker": {}}, dataService={"workers": 0}), "spec.dataService.workers", "1"),
    (job({"Worker": {}}, dataService={"workers": 1001}), "spec.dataService.workers", "1000"),
    (job({"Worker": {}}, dataService={"workers": 1, "port": 0}), "spec.dataService.port", "1"),
    (job({"Worker": {}}, dataService={"workers": 1, "port": 65536}), "spec.dataService.port", "65535"),
    (job({"Worker": {}}, dataService={"workers": 1, "workDir": "journal"}), "spec.dataService.workDir", ""),
    (job({"Worker": {}}, dataService={"workers": 1, "template": {}}), "spec.dataService.template", ""),
    (job({"Worker": {}}, dataService={"workers": 1}, name="m" * 49), "metadata.name", "63 characters"),
    (job({"Worker": {}}, tensorBoard={}), "spec.tensorBoard.logDir", ""),
    (job({"Worker": {}}, tensorBoard={"logDir": ""}), "spec.tensorBoard.logDir", ""),
    (
        job({"Worker": {}}, tensorBoard={"logDir": "/l", "serviceType": "None"}),
        "spec.tensorBoard.serviceType",
        "NodePort",
    ),
    (job({"Worker": {}}, tensorBoard={"logDir": "/l", "volumeMounts": [MOUNT]}), "spec.tensorBoard.volumeMounts", ""),
    (
        job({"Worker": {}}, tensorBoard={"logDir": "/l", "volumes": [LOGS], "volumeMounts": [{"name": "logs"}]}),
        "spec.tensorBoard.volumeMounts[0].mountPath",
        "",
    ),
    (
        job({"Worker": {}}, tensorBoard={"logDir": "/l", "volumes": [{"emptyDir": {}}]}),
        "spec.tensorBoard.volumes[0].name",
        "",
    ),
    (job({"Worker": {}}, tensorBoard={"logDir": "/l", "env": [{"value": "1"}]}), "spec.tensorBoard.env[0].name", ""),
    (
        job({"Worker": {}}, tensorBoard={"logDir": "/l", "imagePullSecrets": [{"name": ""}]}),
        "spec.tensorBoard.imagePullSecrets[0].name",
        "",
    ),
    (job({"Worker": {}}, tensorBoard={"logDir": "/l", "nodeSelector": {"a": 1}}), "spec.tensorBoard.nodeSelector", ""),
    (job({"Worker": {}}, tensorBoard={"logDir": "/l"}, name="m" * 52), "metadata.name", "63 characters"),
    (job({"Worker": {}}, runPolicy={"activeDeadlineSeconds": 2**31}), "spec.runPolicy.activeDeadlineSeconds", ""),
    (job({"Worker": {}}, runPolicy={"startDeadlineSeconds": 0}), "spec.runPolicy.startDeadlineSeconds", ""),
    (job({"Worker": {}}, runPolicy={"progressDeadlineSeconds": 29}), "spec.runPolicy.progressDeadlineSeconds", "30"),
    (job({"Worker": {}}, network="perJob"), "spec.network", "PerReplica"),
    (job({"Worker": {"replicas": 101}}, name="m" * 53, network="PerJob"), "metadata.name", "63 characters"),
    (job({"Worker": {}}, name="1st", network="PerJob"), "metadata.name", ""),
    (job({"Worker": {}}, minSucceededWorkers=0), "spec.minSucceededWorkers", ""),
    (job({"Worker": {}}, minSucceededWorkers="0%"), "spec.minSucceededWorkers", ""),
    (job({"Worker": {}}, minSucceededWorkers=1.5), "spec.minSucceededWorkers", ""),
    (job({"Worker": {}}, maxFailedWorkers="101%"), "spec.maxFailedWorkers", ""),
    (job({"Worker": {}}, maxFailedWorkers=-1), "spec.maxFailedWorkers", ""),
    (job({"Worker": {}}, minSucceededWorkers=1, successPolicy="AllWorkers"), "spec.minSucceededWorkers", "contradict"),
    (
        job({"Worker": {}}, runPolicy={"schedulingPolicy": {"minResources": {"cpu": "much"}}}),
        "spec.runPolicy.schedulingPolicy.minResources",
        "cpu",
    ),
]


@pytest.mark.parametrize("manifest", ODD_BUT_GOOD)
def test_what_the_peer_accepts_is_accepted(space: Space, manifest: Json) -> None:
    created = space.create(TFJOBS, manifest)
    assert set(created["spec"]["tfReplicaSpecs"]) == set(manifest["spec"]["tfReplicaSpecs"])
    assert errors(validate_manifest(manifest)) == ()


@pytest.mark.parametrize(("manifest", "field", "words"), BAD)
def test_what_can_not_work_is_refused_at_the_door_and_on_the_command_line(
    space: Space, manifest: Json, field: str, words: str
) -> None:
    with refused(InvalidError, field, words):
        space.create(TFJOBS, manifest)
    assert any(problem.field.startswith(field) for problem in validate_manifest(manifest))


def job_of(name: str) -> Json:
    """Its only container has this name."""
    template = {"spec": {"containers": [{**TEMPLATE["spec"]["containers"][0], "name": name}]}}
    return job({"Worker": {"template": template}})


WORDS = [
    (job({"Worker": {}}, name="1mnist"), ['a letter or digit, but is "1mnist"']),
    (
        job({"PS": {}, "Worker": {"replicas": 101}}, name="m" * 53),
        [f'"{"m" * 53}-worker-', "name of an object of the job, must have at most 63 characters"],
    ),
    (
        job({"Worker": {}}, name="m" * 52, tensorBoard={"logDir": "/l"}),
        [f'"{"m" * 52}-tensorboard", ', "name of an object of the job, must have at most 63 characters"],
    ),
    (
        job({"Worker": {}, "Gpu": {"template": TEMPLATE}}),
        ["Gpu", "is not a replica type; the types are PS, Worker, Chief, Master, Evaluator"],
    ),
    (job({"PS": {}, "Worker": {}, "worker": {}}), ["names ", "orker more than once"]),
    (job({"Chief": {}, "Evaluator": {"template": None}}), ["Evaluator", "template", "is required"]),
    (
        job_of("trainer"),
        ["Worker", "containers", 'a container must be named "tensorflow", but there is only "trainer"'],
    ),
    (
        job({"Worker": {}}, runPolicy={"managedBy": "me"}),
        [
            "spec.runPolicy.managedBy",
            'must be kubeflow.org/training-operator or kueue.x-k8s.io/multikueue, but is "me"',
        ],
    ),
    (
        job(
            {"Worker": {}}, tensorBoard={"logDir": "/l", "volumes": [LOGS], "volumeMounts": [{**MOUNT, "name": "lugs"}]}
        ),
        ['"lugs" is none of spec.tensorBoard.volumes'],
    ),
]


@pytest.mark.parametrize(("manifest", "words"), WORDS)
def test_a_refusal_names_what_is_wrong(space: Space, manifest: Json, words: list[str]) -> None:
    with refused(InvalidError, *words):
        space.create(TFJOBS, manifest)


def test_a_refused_name_can_not_break_the_message(space: Space) -> None:
    with refused(InvalidError, "the types are PS, Worker, Chief, Master, Evaluator"):
        space.create(TFJOBS, job({"Worker": {}, "G\npu": {"template": TEMPLATE}}))
    with refused(InvalidError, "the types are PS, Worker, Chief, Master, Evaluator"):
        space.create(TFJOBS, job({"Worker": {}, "G" * 20_000: {"template": TEMPLATE}}))


BEYOND = {
    "clusterArguments": True,
    "evaluatorInCluster": False,
    "network": "PerJob",
    "minSucceededWorkers": "80%",
    "maxFailedWorkers": 1,
    "checkpoint": {"volume": {"nfs": {"server": "nfs.example.com", "path": "/"}}, "mountPath": "/checkpoint"},
    "dataService": {"workers": 2, "template": TEMPLATE, "port": 6000, "workDir": "/checkpoint/journal"},
    "tensorBoard": {
        "logDir": "/logs",
        "image": "boards:1",
        "volumes": [{**LOGS, "persistentVolumeClaim": {"claimName": "logs", "readOnly": True}}],
        "volumeMounts": [{**MOUNT, "subPath": "mnist"}],
        "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "100m"}},
        "serviceType": "LoadBalancer",
    },
}
"""Fields that the Go operator does not have."""


def test_every_field_survives_and_the_run_policy_is_defaulted_where_there_is_one(space: Space) -> None:
    created = space.create(TFJOBS, job({}) | {"spec": FULL_SPEC, "status": PEER_STATUS})
    assert created["spec"] == FULL_SPEC
    assert "status" not in created
    patched = space.set_status(TFJOBS, "mnist", PEER_STATUS)
    assert patched["status"] == PEER_STATUS
    created = space.create(TFJOBS, job({"Worker": {}}, name="beyond", runPolicy={"backoffLimit": 1}, **BEYOND))
    assert created["spec"].items() >= BEYOND.items()
    assert created["spec"]["runPolicy"] == {"backoffLimit": 1, "suspend": False}


def test_a_job_whose_name_is_too_long_for_a_tensorboard_is_not_given_one_later(space: Space) -> None:
    manifest = job({"Worker": {}})
    manifest["metadata"] = {"generateName": "m" * 50}
    with refused(InvalidError, "metadata.name"):  # counts with its suffix
        space.create(TFJOBS, manifest)
    space.create(TFJOBS, job({"Worker": {}}, name="m" * 52))
    space.set_status(TFJOBS, "m" * 52, PEER_STATUS)
    with refused(InvalidError, "metadata.name", "-tensorboard"):
        space.patch(TFJOBS, "m" * 52, {"spec": {"tensorBoard": {"logDir": "gs://bucket/logs"}}})


def test_data_workers_are_scaled_by_their_field_and_the_scale_subresource_stays_the_workers(space: Space) -> None:
    space.create(TFJOBS, job({"Worker": {"replicas": 2}}, dataService={"workers": 1}))
    changed = space.patch(TFJOBS, "mnist", {"spec": {"dataService": {"workers": 4}}})
    assert changed["spec"]["dataService"] == {"workers": 4}
    space.patch(TFJOBS, "mnist", {"spec": {"replicas": 3}}, subresource="scale")
    spec = space.get(TFJOBS, "mnist")["spec"]
    assert (spec["tfReplicaSpecs"]["Worker"]["replicas"], spec["dataService"]["workers"]) == (3, 4)
    with refused(InvalidError, "spec.dataService.workers"):
        space.patch(TFJOBS, "mnist", {"spec": {"dataService": {"workers": 0}}})
    with refused(InvalidError, "spec.dataService.port", "can't be changed"):
        space.patch(TFJOBS, "mnist", {"spec": {"dataService": {"port": 6001}}})


def test_a_job_whose_name_is_too_long_for_data_workers_is_not_given_them_later(space: Space) -> None:
    space.create(TFJOBS, job({"Worker": {}}, name="m" * 49))
    with refused(InvalidError, "metadata.name", "-dataworker-999"):
        space.patch(TFJOBS, "m" * 49, {"spec": {"dataService": {"workers": 1}}})


@pytest.mark.parametrize("by_scale", [False, True])
def test_a_job_whose_name_is_too_long_for_more_replicas_gets_no_more(space: Space, by_scale: bool) -> None:
    name = "m" * 54
    space.create(TFJOBS, job({"Worker": {"replicas": 10}}, name=name))
    space.set_status(TFJOBS, name, PEER_STATUS)

    with refused(InvalidError, "metadata.name", "63 characters"):
        if by_scale:
            space.patch(TFJOBS, name, {"spec": {"replicas": 11}}, subresource="scale")
        else:
            space.patch(TFJOBS, name, {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 11}}}})
    with refused(InvalidError, "metadata.name", "63 characters"):
        space.patch(TFJOBS, name, {"spec": {"tfReplicaSpecs": {"Evaluator": {"template": TEMPLATE}}}})
    for count in (9, 10):
        space.patch(TFJOBS, name, {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": count}}}})


def test_a_queue_may_be_given_later_but_not_changed(space: Space) -> None:
    space.create(TFJOBS, job({"Worker": {}}))
    space.patch(TFJOBS, "mnist", {"spec": {"runPolicy": {"schedulingPolicy": {"queue": "a"}}}})
    with refused(InvalidError, "spec.runPolicy.schedulingPolicy.queue", 'can\'t be changed from "a" to "b"'):
        space.patch(TFJOBS, "mnist", {"spec": {"runPolicy": {"schedulingPolicy": {"queue": "b"}}}})


def test_a_queueing_system_may_suspend_resume_and_place_a_job(space: Space) -> None:
    space.create(TFJOBS, job({"Worker": {}}, runPolicy={"suspend": True}))
    placed = {**TEMPLATE["spec"], "nodeSelector": {"pool": "gpu"}, "schedulingGates": [{"name": "topology"}]}
    worker = {"replicas": 2, "template": {"spec": placed}}
    change = {"spec": {"runPolicy": {"suspend": False}, "tfReplicaSpecs": {"Worker": worker}}}
    changed = space.patch(TFJOBS, "mnist", change)
    assert changed["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"] == placed


CHANGES = [
    ({"Gpu": {"template": TEMPLATE}}, ["Gpu", "is not a replica type; the types are PS"]),
    ({"worker": {"template": TEMPLATE}}, ["orker more than once"]),
    ({"Chief": {"template": TEMPLATE}, "Master": {"template": TEMPLATE}}, ["Chief and Master"]),
    ({"Evaluator": {"replicas": 1}}, ["template", "is required", "Evaluator"]),
    ({"Worker": {"template": None}}, ["template", "is required", "Worker"]),
]


@pytest.mark.parametrize(("change", "words"), CHANGES)
@pytest.mark.parametrize("status", [{}, {"phase": "Running"}])
def test_what_a_change_brings_in_has_to_obey_the_rules(
    space: Space, change: Json, words: list[str], status: Json
) -> None:
    space.create(TFJOBS, job({"Worker": {}}))
    space.set_status(TFJOBS, "mnist", status)
    with refused(InvalidError, "spec.tfReplicaSpecs", *words):
        space.patch(TFJOBS, "mnist", {"spec": {"tfReplicaSpecs": change}})
