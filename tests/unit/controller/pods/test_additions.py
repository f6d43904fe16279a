import json
from typing import Any

import msgspec
import pytest

from tests.support.plan_options import plan_options
from tests.unit.controller.builders import TEMPLATE, ReadablePlan, make_job, planned
from tfoperator.api.replicas.process_variables import PROCESS_VARIABLES
from tfoperator.api.replicas.progress_names import ANNOTATION_PROGRESS_CA, PROGRESS_MOUNT_PATH, token_audience
from tfoperator.controller import Accelerator, ProgressAccess
from tfoperator.controller.plan.values.actions import Create

GPU = "nvidia.com/gpu"
VOLUME = {"name": "nvidia", "hostPath": {"path": "/opt/nvidia"}}
MOUNT = {"name": "nvidia", "mountPath": "/usr/local/nvidia"}
PATH = {"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}
NVIDIA = Accelerator(volumes=(VOLUME,), volume_mounts=(MOUNT,), env=(PATH,))
RDMA = Accelerator(volumes=(VOLUME, {"name": "rdma", "emptyDir": {}}), env=({"name": "RDMA", "value": "1"},))
OPTIONS = plan_options(accelerators={GPU: NVIDIA, "example.com/rdma": RDMA})


def plan_new(spec: dict[str, Any], replicas: int = 1, **job: Any) -> ReadablePlan:
    made = make_job({"Worker": {"replicas": replicas, "template": {"spec": spec}}}, **job)
    return planned(made, services=(), options=OPTIONS)


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return dict(plan_new({"containers": list(containers), **spec}).creations("pods")[0].body["spec"])


def container(name: str = "tensorflow", *, limits: Any = None, requests: Any = None, **members: Any) -> dict[str, Any]:
    resources = {key: value for key, value in (("limits", limits), ("requests", requests)) if value is not None}
    return {"name": name, "image": "i", "resources": resources, **members}


@pytest.mark.parametrize("amount", [{"limits": {GPU: 1}}, {"limits": {GPU: "2k"}}, {"requests": {GPU: "1e1"}}])
def test_a_container_that_asks_for_the_resource_is_equipped(amount: dict[str, Any]) -> None:
    spec = pod(container(**amount))
    (trainer,) = spec["containers"]
    assert spec["volumes"] == [VOLUME]
    assert (trainer["volumeMounts"], trainer["env"]) == ([MOUNT], [PATH])


@pytest.mark.parametrize(
    "amount",
    [
        *({"limits": {GPU: none}} for none in (0, "0", "0k", "0.0", "-0", "0e3", "+0Gi", "", None, 0.0, False, "some")),
        {},
        {"limits": {"cpu": 1}},
        {"limits": [], "requests": 3},
    ],
)
def test_one_that_does_not_is_left_alone(amount: dict[str, Any]) -> None:
    spec = pod(container(**amount))
    assert "volumes" not in spec
    assert not {"env", "volumeMounts"} & set(spec["containers"][0])


def test_only_the_containers_that_ask_are_equipped_and_two_accelerators_share_a_volume_of_the_same_name() -> None:
    spec = pod(
        container("sidecar"), container(), initContainers=[container("warm-up", limits={GPU: 1}), container("fetch")]
    )
    assert [c.get("volumeMounts") for c in spec["initContainers"]] == [[MOUNT], None]
    assert [c.get("volumeMounts") for c in spec["containers"]] == [None, None]
    assert spec["volumes"] == [VOLUME]
    spec = pod(container(limits={GPU: 1, "example.com/rdma": 1}))
    assert [volume["name"] for volume in spec["volumes"]] == ["nvidia", "rdma"]
    assert [variable["name"] for variable in spec["containers"][0]["env"]] == ["LD_LIBRARY_PATH", "RDMA"]


def test_a_volume_that_an_accelerator_mounts_read_only_is_read_only_wherever_it_is_mounted() -> None:
    guarded = Accelerator(volumes=(VOLUME,), volume_mounts=({**MOUNT, "readOnly": True},))
    again = {"name": "nvidia", "mountPath": "/host", "readOnly": False}
    other = {"name": "mine", "mountPath": "/mine"}
    containers = [container(limits={GPU: 1}, volumeMounts=[again, other]), container("sidecar", volumeMounts=[again])]
    spec: dict[str, Any] = {"containers": containers, "initContainers": [container("init", volumeMounts=[again])]}
    for volumes, read_only in (([], True), ([{"name": "nvidia", "emptyDir": {}}], False)):
        job = make_job({"Worker": {"replicas": 1, "template": {"spec": {**spec, "volumes": volumes}}}})
        options = plan_options(accelerators={GPU: guarded})
        made = planned(job, services=(), options=options).creations("pods")[0].body["spec"]
        mounts = [m for spec in (*made["containers"], *made["initContainers"]) for m in spec["volumeMounts"]]
        assert [m["readOnly"] for m in mounts if m["mountPath"] == "/host"] == [read_only] * 3
        assert [m for m in mounts if m["name"] == "mine"] == [other]


def test_what_the_template_says_itself_stays() -> None:
    own = {"name": "nvidia", "emptyDir": {}}
    mount = {"name": "mine", "mountPath": "/usr/local/nvidia/"}
    env = [{"name": "LD_LIBRARY_PATH", "value": "/mine"}]
    spec = pod(
        container(limits={GPU: 1}, volumeMounts=[mount], env=env), volumes=[own, {"name": "mine", "emptyDir": {}}]
    )
    assert [volume["name"] for volume in spec["volumes"]] == ["nvidia", "mine"]
    assert (spec["volumes"][0], spec["containers"][0]["volumeMounts"]) == (own, [mount])
    assert spec["containers"][0]["env"] == env


def test_tf_config_and_the_checkpoint_come_on_top_for_every_pod_and_the_configuration_stays_as_it_is() -> None:
    before = json.dumps([VOLUME, MOUNT, PATH])
    result = plan_new(
        {"containers": [container(limits={GPU: 1})]},
        replicas=2,
        checkpoint={"volume": {"nfs": {}}, "mountPath": "/checkpoint"},
    )
    for create in result.creations("pods"):
        trainer = create.body["spec"]["containers"][0]
        names = [variable["name"] for variable in trainer["env"]]
        assert names == ["LD_LIBRARY_PATH", "TFOPERATOR_CHECKPOINT_DIR", "TF_CONFIG", *PROCESS_VARIABLES]
        assert [mount["mountPath"] for mount in trainer["volumeMounts"]] == ["/usr/local/nvidia", "/checkpoint"]
    assert json.dumps([VOLUME, MOUNT, PATH]) == before


# The directory for checkpoints.

CLAIM = {"persistentVolumeClaim": {"claimName": "checkpoints"}}


def with_checkpoint(replicas: dict[str, Any]) -> ReadablePlan:
    job = make_job(replicas, checkpoint={"volume": CLAIM, "mountPath": "/checkpoint"})
    return planned(job, services=())


def test_every_replica_sees_the_jobs_directory_and_is_told_where() -> None:
    result = with_checkpoint({"Chief": 1, "Worker": 2, "PS": 1})
    assert len(result.creations("pods")) == 4
    for create in result.creations("pods"):
        spec = create.body["spec"]
        (container,) = spec["containers"]
        assert spec["volumes"] == [CLAIM | {"name": "tfoperator-checkpoint"}]
        assert container["volumeMounts"] == [
            {"name": "tfoperator-checkpoint", "mountPath": "/checkpoint", "subPath": "ns/mnist"}
        ]
        assert {"name": "TFOPERATOR_CHECKPOINT_DIR", "value": "/checkpoint"} in container["env"]
        assert [variable["name"] for variable in container["env"]].count("TF_CONFIG") == 1


def test_a_checkpoint_joins_what_the_template_has_and_leaves_other_containers_alone() -> None:
    data = {"name": "data", "emptyDir": {}}
    mount = {"name": "data", "mountPath": "/data"}
    env = [{"name": "A", "value": "1"}, {"name": "TFOPERATOR_CHECKPOINT_DIR", "value": "elsewhere"}]
    containers = [{"name": "sidecar", "image": "s"}, container(volumeMounts=[mount], env=env)]
    result = with_checkpoint({"Worker": {"template": {"spec": {"containers": containers, "volumes": [data]}}}})
    spec = result.creations("pods")[0].body["spec"]
    sidecar, trainer = spec["containers"]
    assert sidecar == {"name": "sidecar", "image": "s"}
    assert [volume["name"] for volume in spec["volumes"]] == ["data", "tfoperator-checkpoint"]
    assert trainer["volumeMounts"][0] == mount
    assert trainer["env"] == [env[0], {"name": "TFOPERATOR_CHECKPOINT_DIR", "value": "/checkpoint"}]


# The server that progress is reported to.

ACCESS = ProgressAccess("https://progress.system.svc", "-----BEGIN CERTIFICATE-----\n...")


def with_progress(
    access: ProgressAccess | None, template: dict[str, Any] = TEMPLATE, **spec: Any
) -> list[dict[str, Any]]:
    job = make_job({"Worker": {"replicas": 2, "template": template}}, **spec)
    made = planned(job, options=plan_options(progress=access)).actions
    return [action.body for action in made if isinstance(action, Create) and action.kind == "pods"]


def variables(pod: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in pod["spec"]["containers"][0].get("env", [])}


def test_a_job_that_takes_part_gets_an_address_two_files_and_their_places() -> None:
    for pod in with_progress(ACCESS, progress={}):
        env = variables(pod)
        path = "/apis/kubeflow.org/v1/namespaces/ns/tfjobs/mnist/status"
        assert env["KUBEFLOW_TRAINER_SERVER_URL"] == f"https://progress.system.svc{path}"
        assert env["KUBEFLOW_TRAINER_SERVER_CA_CERT"] == f"{PROGRESS_MOUNT_PATH}/ca.crt"
        assert env["KUBEFLOW_TRAINER_SERVER_TOKEN"] == f"{PROGRESS_MOUNT_PATH}/token"
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
    plain = with_progress(None, **spec)
    made = with_progress(msgspec.structs.replace(ACCESS, for_all=for_all), **spec)
    assert (made != plain) is takes_part
    assert ("KUBEFLOW_TRAINER_SERVER_URL" in variables(made[0])) is takes_part


def test_a_template_with_a_server_of_its_own_keeps_it() -> None:
    own = {"name": "KUBEFLOW_TRAINER_SERVER_URL", "value": "https://elsewhere"}
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "x", "env": [own]}]}}
    assert with_progress(ACCESS, template, progress={}) == with_progress(None, template, progress={})
