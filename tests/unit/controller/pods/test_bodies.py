import copy
import json
from typing import Any

import pytest

from tests.support.plan_options import plan_options
from tests.unit.controller.builders import (
    TEMPLATE,
    ReadablePlan,
    after,
    make_job,
    make_pod,
    planned,
    started,
    with_status,
)
from tfoperator.api.replicas.names import RECORDS_ON_PODS
from tfoperator.api.replicas.process_variables import PROCESS_VARIABLES
from tfoperator.api.replicas.progress_names import PROGRESS_MOUNT_PATH
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.controller import Accelerator, ProgressAccess
from tfoperator.controller.pods.bodies import away_from


def plan_new(replicas: dict[str, Any], **spec: Any) -> ReadablePlan:
    return planned(make_job(replicas, **spec), services=())


def worker(template: dict[str, Any], **replica: Any) -> dict[str, Any]:
    result = plan_new({"Worker": {"replicas": 1, "template": template, **replica}})
    return result.creations("pods")[0].body


def test_a_pod_carries_the_go_operators_labels_and_owner() -> None:
    result = plan_new({"Worker": 2, "PS": 1})
    bodies = {c.name: c.body for c in result.creations("pods")}
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "mnist"}
    assert bodies["mnist-worker-1"]["metadata"] == {
        "name": "mnist-worker-1",
        "namespace": "ns",
        "labels": {
            "training.kubeflow.org/operator-name": "tfjob-controller",
            "training.kubeflow.org/job-name": "mnist",
            "training.kubeflow.org/replica-type": "worker",
            "training.kubeflow.org/replica-index": "1",
        },
        "ownerReferences": [{**owner, "uid": "job-uid", "controller": True, "blockOwnerDeletion": True}],
    }
    assert bodies["mnist-worker-0"]["metadata"]["labels"]["training.kubeflow.org/job-role"] == "master"


def test_a_template_that_is_a_copy_of_a_pod_passes_on_no_record_of_that_pod() -> None:
    copied = {**dict.fromkeys(RECORDS_ON_PODS, "3"), "mine": "stays"}
    body = worker({**TEMPLATE, "metadata": {"annotations": copied}})
    assert body["metadata"]["annotations"] == {"mine": "stays"}


@pytest.mark.parametrize(
    ("replicas", "masters"),
    [
        ({"Worker": 2, "PS": 1}, {"mnist-worker-0"}),
        ({"Worker": 2, "Chief": 1}, {"mnist-chief-0"}),
        ({"Worker": 2, "Master": 1}, {"mnist-master-0"}),
        ({"PS": 2}, set()),
    ],
)
def test_who_is_labelled_master(replicas: dict[str, Any], masters: set[str]) -> None:
    pods = plan_new(replicas).creations("pods")
    assert {
        c.name for c in pods if c.body["metadata"]["labels"].get("training.kubeflow.org/job-role") == "master"
    } == masters


@pytest.mark.parametrize(
    ("own", "policy", "warned"),
    [("Always", "Never", True), ("Never", "ExitCode", False), ("OnFailure", "OnFailure", False), ("", "Never", False)],
)
def test_a_restart_policy_in_the_template_is_overruled_with_a_warning(own: str, policy: str, warned: bool) -> None:
    template = {"spec": TEMPLATE["spec"] | {"restartPolicy": own}}
    result = plan_new({"Worker": {"replicas": 3, "template": template, "restartPolicy": policy}})
    assert result.reasons.count("SetPodTemplateRestartPolicy") == int(warned)
    assert all(event.type == "Warning" for event in result.events)
    workers = {"Worker": {"replicas": 1, "template": template, "restartPolicy": "OnFailure"}}
    job, failed = started(make_job(workers)), make_pod("Worker-0", "Failed", exit_code=1)
    again = planned(with_status(job, planned(job, failed).status), failed, now=after(60))
    assert again.created_pods == ["Worker-0"]
    assert ("SetPodTemplateRestartPolicy" in again.reasons) is (own not in ("", "OnFailure"))


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        (None, [("tfjob-port", 2222)]),
        ([], [("tfjob-port", 2222)]),
        ([{"name": "http", "containerPort": 80}], [("http", 80), ("tfjob-port", 2222)]),
        ([{"name": "tfjob-port", "containerPort": 5000}], [("tfjob-port", 5000)]),
    ],
)
def test_the_default_port_is_added_unless_named(ports: Any, expected: list[tuple[str, int]]) -> None:
    container = {"name": "tensorflow", "image": "i"} | ({} if ports is None else {"ports": ports})
    made = worker({"spec": {"containers": [{"name": "sidecar", "image": "s"}, container]}})["spec"]["containers"]
    assert [(p["name"], p["containerPort"]) for p in made[1]["ports"]] == expected
    assert made[0] == {"name": "sidecar", "image": "s"}


def test_a_users_tf_config_is_replaced_in_a_distributed_job_and_kept_in_a_local_one() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "TF_CONFIG", "value": "mine"}]
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i", "env": env}]}}
    local = worker(template)["spec"]["containers"][0]["env"]
    assert local == env
    result = plan_new({"Worker": {"replicas": 2, "template": template}})
    made = result.creations("pods")[0].body["spec"]["containers"][0]["env"]
    assert [e["name"] for e in made] == ["A", "TF_CONFIG", *PROCESS_VARIABLES]
    assert made[1]["value"].startswith('{"cluster":')


@pytest.mark.parametrize("network", ["PerReplica", "PerJob"])
@pytest.mark.parametrize("name", [["x"], {"x": 1}, None, 1])
def test_a_variable_of_the_wrong_shape_is_left_to_the_api_server(name: Any, network: str) -> None:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i", "env": [{"name": name, "value": "1"}]}]}}
    job = make_job({"Worker": {"replicas": 2, "template": template}}, network=network)
    made = planned(job, services=()).creations("pods")[0].body["spec"]["containers"][0]["env"]
    assert made[0] == {"name": name, "value": "1"}


def test_a_service_is_headless_selects_its_pod_and_has_every_port_once_and_named() -> None:
    result = plan_new({"Worker": 1, "Chief": 1})
    for service, pod in zip(result.creations("services"), result.creations("pods"), strict=True):
        assert (service.name, service.body["spec"]["clusterIP"]) == (pod.name, "None")
        assert service.body["spec"]["ports"] == [{"name": "tfjob-port", "port": 2222}]
        selector = service.body["spec"]["selector"]
        assert selector.items() <= pod.body["metadata"]["labels"].items()
        assert service.body["metadata"]["labels"] == selector
        assert "training.kubeflow.org/job-role" not in selector
        assert service.body["metadata"]["ownerReferences"] == pod.body["metadata"]["ownerReferences"]
    ports = [
        {"containerPort": 80},
        {"name": "again", "containerPort": 80},
        {"name": "dns", "containerPort": 53, "protocol": "UDP"},
        {"name": "other", "containerPort": 2222},
        {"name": "tfjob-port", "containerPort": 2222},
    ]
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i", "ports": ports}]}}
    result = plan_new({"Worker": {"replicas": 1, "template": template}})
    assert result.creations("services")[0].body["spec"]["ports"] == [
        {"name": "tfjob-port", "port": 2222},
        {"name": "port-80", "port": 80},
        {"name": "dns", "port": 53, "protocol": "UDP"},
    ]


def of(*containers: Any, **pod_spec: Any) -> dict[str, Any]:
    """A template of these containers."""
    return {"spec": {"containers": [*containers], **pod_spec}}


TRAINS = {"name": "tensorflow", "image": "i"}
WITH_GPU = {**TRAINS, "resources": {"limits": {"nvidia.com/gpu": 1}}}
EQUIPPED = Accelerator(
    ({"name": "n", "emptyDir": {}},), ({"name": "n", "mountPath": "/n"},), ({"name": "A", "value": ""},)
)
OPTIONS = plan_options(accelerators={"nvidia.com/gpu": EQUIPPED}, progress=ProgressAccess("https://progress", "ca"))
SAVES = {"checkpoint": {"volume": {"emptyDir": {}}, "mountPath": "/saved"}}
REPORTS: dict[str, Any] = {"progress": {}}
AT_SAVED, AT_REPORTS = ({"name": "mine", "mountPath": path} for path in ("/saved/", PROGRESS_MOUNT_PATH + "/"))


@pytest.mark.parametrize(
    ("template", "spec", "message"),
    [
        ([], {}, ": "),
        ({"spec": {}}, {}, ".spec.containers: must have at least one container"),
        ({"metadata": {"labels": 1}}, {}, ".metadata.labels: must be an object"),
        (of("x"), {}, ".spec.containers[0]: must be an object"),
        (of({**TRAINS, "env": "x"}), {}, ".spec.containers[0].env: must be a list of objects"),
        (of({**TRAINS, "args": "--x"}), {"clusterArguments": True}, ".spec.containers[0].args: must be a list"),
        (of({**WITH_GPU, "env": "x"}), {}, ".spec.containers[0].env: must be a list of objects"),
        (of({**WITH_GPU, "volumeMounts": [1]}), {}, ".spec.containers[0].volumeMounts: must be a list of objects"),
        (of(WITH_GPU, volumes={}), {}, ".spec.volumes: must be a list of objects"),
        (of(TRAINS, initContainers=["x"]), {}, ".spec.initContainers: must be a list of objects"),
        (of(TRAINS), {"checkpoint": {"volume": "claim", "mountPath": "/c"}}, "spec.checkpoint.volume: must be an obj"),
        (of(TRAINS, volumes="x"), SAVES, ".spec.volumes: must be a list of objects"),
        (of(TRAINS, volumes=[{"name": "tfoperator-checkpoint"}]), SAVES, ".spec.volumes: must not have a volume named"),
        (of({}, {**TRAINS, "volumeMounts": [1]}), SAVES, ".spec.containers[1].volumeMounts: must be a list of objects"),
        (
            of({**TRAINS, "volumeMounts": [AT_SAVED]}),
            SAVES,
            "spec.checkpoint.mountPath: /saved is already the mount path of volume mine in "
            "spec.tfReplicaSpecs[Worker].template",
        ),
        (of(TRAINS, volumes=[{"name": "tfoperator-progress", "emptyDir": {}}]), REPORTS, "progress"),
        (of({**TRAINS, "volumeMounts": [AT_REPORTS]}, volumes=[{"name": "mine"}]), REPORTS, "progress"),
    ],
)
def test_a_template_that_can_not_be_used_fails_the_job_and_names_the_field(
    template: Any, spec: dict[str, Any], message: str
) -> None:
    result = planned(make_job({"PS": 1, "Worker": {"template": template}}, **spec), services=(), options=OPTIONS)
    assert not [*result.creations("pods"), *result.creations("services")]
    failed = result.status.conditions[-1]
    assert (failed.type, failed.reason) == ("Failed", "TFJobInvalid")
    assert (f"spec.tfReplicaSpecs[Worker].template{message}" if message[0] in ".:" else message) in failed.message


def test_a_pod_that_is_to_run_elsewhere_keeps_what_its_own_affinity_requires() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    own = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [zone]}, {"matchFields": []}]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [],
        },
        "podAffinity": {},
    }
    pod = {"kind": "Pod", "spec": {"containers": [], "affinity": own}}
    before = copy.deepcopy(pod)
    affinity = away_from(pod, ["b", "c"])["spec"]["affinity"]
    avoids = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["b", "c"]}
    required = affinity["nodeAffinity"].pop("requiredDuringSchedulingIgnoredDuringExecution")
    assert required["nodeSelectorTerms"] == [
        {"matchExpressions": [zone, avoids]},
        {"matchFields": [], "matchExpressions": [avoids]},
    ]
    assert affinity == {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}, "podAffinity": {}}
    assert pod == before, "other pods are made from the same parts"


IMAGE = "example.com/tensorflow:2"


@pytest.mark.parametrize("key", ["PS", "ps"])
def test_parameter_servers_without_a_template_run_the_stock_one(key: str) -> None:
    job = make_job({key: {"replicas": 2, "template": None}, "Worker": 1})
    result = planned(job, services=(), options=plan_options(default_ps_image=IMAGE))
    servers = [c for c in result.creations("pods") if c.replica in ((ReplicaType.PS, 0), (ReplicaType.PS, 1))]
    assert [c.name for c in servers] == ["mnist-ps-0", "mnist-ps-1"]
    for index, server in enumerate(servers):
        (container,) = server.body["spec"]["containers"]
        assert (container["name"], container["image"]) == ("tensorflow", IMAGE)
        assert container["command"][0] == "python"
        assert json.loads(container["env"][0]["value"])["task"] == {"type": "ps", "index": index}
    assert len(result.creations("services")) == 3


def test_without_an_image_the_job_is_invalid_and_says_which_option_is_missing() -> None:
    result = plan_new({"PS": {"template": None}, "Worker": 1})
    failed = result.condition(ConditionType.FAILED)
    assert failed.reason == "TFJobInvalid"
    assert "spec.tfReplicaSpecs[PS].template: is required" in failed.message
    assert "--default-ps-image" in failed.message
    assert not [*result.creations("pods"), *result.creations("services")]
