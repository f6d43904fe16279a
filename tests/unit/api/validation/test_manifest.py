import json
from typing import Any

import pytest

from hack import builtin_schemas
from tests.unit.api.samples import TEMPLATE, tfjob
from tests.unit.api.validation.complaints import CONTAINERS, WORKER, complaints, warnings, with_template
from tfoperator.api import errors, validate_manifest
from tfoperator.api.pods.types import TYPES, pod_types
from tfoperator.api.validation.pod_fields import shape_problems
from tfoperator.local.apiserver.objects.builtin_fields import BUILTIN_SCHEMAS


def test_both_tables_of_built_in_fields_are_what_the_tool_writes_from_one_release() -> None:
    schemas = json.loads(BUILTIN_SCHEMAS.read_text())
    assert BUILTIN_SCHEMAS.read_text() == builtin_schemas.kinds(schemas)
    assert TYPES.read_text() == builtin_schemas.pod_template_types(schemas)
    assert pod_types()["PodSpec"].fields.keys() & {"schedulingGroup", "workloadRef"} == {"schedulingGroup"}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"spec.containers": None}, f"{CONTAINERS}: must have at least one container"),
        ({"spec.containers": []}, f"{CONTAINERS}: must have at least one container"),
        ({"spec.containers.0.image": None}, f"{CONTAINERS}[0].image: is required"),
        ({"spec.containers.0.image": " "}, f"{CONTAINERS}[0].image: is required"),
        (
            {"spec.containers.0.name": "t"},
            f'{CONTAINERS}: a container must be named "tensorflow", but there is only "t"',
        ),
        ({"spec.containers.0.image": 3}, f"{CONTAINERS}[0].image: must be a string, but is the number 3"),
        ({"spec.containers": {}}, f"{CONTAINERS}: must be a list, but is an object"),
        ({"spec": []}, f"{WORKER}.template.spec: must be an object, but is a list"),
        (
            {"spec.initContainers": [{"name": "tensorflow", "image": "x"}]},
            f'{WORKER}.template.spec.initContainers[0].name: "tensorflow" is the name of another container, too',
        ),
        (
            {"spec.initContainers": [{"name": "a b"}]},
            f"{WORKER}.template.spec.initContainers[0].name: must consist of at most 63 lower-case letters, digits "
            "and '-' and neither start nor end with '-', but is \"a b\"\n"
            f"{WORKER}.template.spec.initContainers[0].image: is required",
        ),
        (
            {"spec.containers.0.ports": [{"containerPort": 0}]},
            f"{CONTAINERS}[0].ports[0].containerPort: must be 1 or more, but is 0",
        ),
    ],
)
def test_a_bad_template_is_refused(change: dict[str, Any], complaint: str) -> None:
    assert "\n".join(complaints(with_template(change))) == complaint


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"command": "python train.py"}, 'command: must be a list, but is the string "python train.py"'),
        ({"args": ["--steps", 5]}, "args[1]: must be a string, but is the number 5"),
        ({"env": {"STEPS": "5"}}, "env: must be a list, but is an object"),
        ({"env": [{"name": "STEPS", "value": 5}]}, "env[0].value: must be a string, but is the number 5"),
        ({"env": [{"name": "DEBUG", "value": True}]}, "env[0].value: must be a string, but is true"),
        ({"volumeMounts": {"name": "data"}}, "volumeMounts: must be a list, but is an object"),
        (
            {"resources": {"limits": {"cpu": 0.5, "memory": "8 GB"}}},
            'resources.limits[memory]: must be a quantity such as 4, 500m or 8Gi, but is "8 GB"',
        ),
        (
            {"env": [{"name": "A=B"}]},
            "env[0].name: must consist of printable ASCII characters other than '=', but is \"A=B\"",
        ),
        ({"env": [{"value": "b"}]}, "env[0].name: is required"),
        ({"volumeMounts": [{"name": "tfoperator-x"}]}, "volumeMounts[0].mountPath: is required"),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/"}]},
            'volumeMounts[0].name: "v" is not the name of a volume in the template\'s volumes',
        ),
        ({"ports": [{"containerPort": "8"}]}, 'ports[0].containerPort: must be a whole number, but is the string "8"'),
    ],
)
def test_a_pod_that_no_server_could_read_is_refused_before_one_is_asked(change: dict[str, Any], complaint: str) -> None:
    manifest = with_template({f"spec.containers.0.{name}": value for name, value in change.items()})
    assert [str(problem) for problem in validate_manifest(manifest)] == [f"{CONTAINERS}[0].{complaint}"]


def test_what_people_write_into_a_container_is_good() -> None:
    container = {
        "command": ["python", "train.py"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"limits": {"cpu": 0.5, "memory": "8Gi", "nvidia.com/gpu": 1}, "requests": {"cpu": 1e-3}},
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
    }
    volumes = {"spec.volumes": [{"name": "data", "emptyDir": {}}]}
    manifest = with_template(volumes | {f"spec.containers.0.{name}": value for name, value in container.items()})
    assert validate_manifest(manifest) == ()


def test_nulls_in_a_template_are_absent_metadata_of_servers_is_known_and_the_pods_own_policy_has_no_effect() -> None:
    template = {
        "metadata": {"creationTimestamp": None, "labels": None},
        "spec": {"containers": [{**TEMPLATE["spec"]["containers"][0], "ports": None}], "initContainers": None},
    }
    assert validate_manifest(tfjob({"Worker": {"template": template}})) == ()
    (text,) = warnings(with_template({"spec.restartPolicy": "Always"}))
    assert text.startswith(f"{WORKER}.template.spec.restartPolicy: has no effect")
    job = tfjob({"Worker": {}})
    job["metadata"] |= {"managedFields": [], "selfLink": "", "generation": 1, "creationTimestamp": None}
    assert validate_manifest(job) == ()
    job["metadata"]["lables"] = {}
    assert warnings(job) == [
        "metadata.lables: is unknown: kubectl refuses it, other clients ignore it; did you mean labels?"
    ]


@pytest.mark.parametrize(
    ("image", "warned"),
    [
        ("tensorflow/tensorflow", True),
        ("docker.io/tensorflow/tensorflow:2.19.0", True),
        ("tensorflow/tensorflow:2.19.0-gpu", False),
        ("tensorflow/tensorflow:latest-gpu-jupyter", False),
        ("example.com/tensorflow/tensorflow:2.19.0", False),
    ],
)
def test_gpus_beside_an_image_of_tensorflow_without_cuda(image: str, warned: bool) -> None:
    for amount in ({"limits": {"nvidia.com/gpu": 1}}, {"limits": {"cpu": 1}}):
        container = {"name": "tensorflow", "image": image, "resources": amount}
        problems = shape_problems({"spec": {"containers": [container]}}, "t")
        assert [problem.field for problem in problems] == (
            ["t.spec.containers[0].image"] if warned and "nvidia.com/gpu" in amount["limits"] else []
        )


def test_what_a_checkpoint_and_a_tensorboard_take_over_from_a_pod_has_the_types_of_a_pod() -> None:
    checkpoint = {"volume": {"persistentVolumeClaim": {"claimName": 5}}, "mountPath": "/c"}
    volumes = [{"name": "v", "nfs": {"server": "s", "path": "/", "readOnly": "no"}}]
    board = {"logDir": "/l", "resources": {"limits": {"cpu": "much"}}, "volumes": volumes, "env": "A=B"}
    problems = errors(validate_manifest(tfjob({"Worker": {}}, checkpoint=checkpoint, tensorBoard=board)))
    assert {problem.field for problem in problems} == {
        "spec.checkpoint.volume.persistentVolumeClaim.claimName",
        "spec.tensorBoard.volumes[0].nfs.readOnly",
        "spec.tensorBoard.resources.limits[cpu]",
        "spec.tensorBoard.env",
    }
    assert len(problems) == 4


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
    ("manifest", "problems"),
    [
        ({}, ["apiVersion: is required and must be kubeflow.org/v1", "kind: is required and must be TFJob"]),
        (
            {"apiVersion": 1, "kind": "Pod", "metadata": {"labels": {"a": 1}}},
            [
                "apiVersion: must be kubeflow.org/v1, but is 1",
                'kind: must be TFJob, but is "Pod"',
                "metadata.labels[a]: must be a string, but is the number 1",
            ],
        ),
    ],
)
def test_what_is_no_tfjob_is_told_so(manifest: dict[str, Any], problems: list[str]) -> None:
    assert [str(problem) for problem in validate_manifest(manifest)] == problems


IN_CONTAINERS = "it belongs in spec.tfReplicaSpecs[...].template.spec.containers[...]"
IN_RUN_POLICY = "it belongs in spec.runPolicy, to which `tfoperator convert` moves it"
IN_POD_SPEC = "it belongs in spec.tfReplicaSpecs[...].template.spec"


@pytest.mark.parametrize(
    ("manifest", "field", "hint"),
    [
        (tfjob({"Worker": {}}, cleanPodPolicy="All"), "spec.cleanPodPolicy", IN_RUN_POLICY),
        (tfjob({"Worker": {"backoffLimit": 1}}), f"{WORKER}.backoffLimit", "it belongs in spec.runPolicy"),
        (tfjob({"Worker": {}}, runpolicy={}), "spec.runpolicy", "did you mean runPolicy?"),
        (tfjob({"Worker": {}}, runPolicy={"suspnd": True}), "spec.runPolicy.suspnd", "did you mean suspend?"),
        (tfjob({"Worker": {"image": "x"}}), f"{WORKER}.image", IN_CONTAINERS),
        (
            tfjob({"Worker": {}}, cleanPodPolcy=""),
            "spec.cleanPodPolcy",
            "did you mean cleanPodPolicy in spec.runPolicy?",
        ),
        (tfjob({"Worker": {}}, zzz=1), "spec.zzz", ""),
        (tfjob({"Worker": {}}) | {"tfReplicaSpecs": {}}, "tfReplicaSpecs", "it belongs in spec"),
        (with_template({"spec.volume": []}), f"{WORKER}.template.spec.volume", "did you mean volumes?"),
        (with_template({"containers": []}), f"{WORKER}.template.containers", IN_POD_SPEC),
    ],
)
def test_an_unknown_member_is_a_warning_with_a_hint(manifest: dict[str, Any], field: str, hint: str) -> None:
    assert errors(validate_manifest(manifest)) == ()
    assert warnings(manifest) == [
        f"{field}: is unknown: kubectl refuses it, other clients ignore it{'; ' * bool(hint)}{hint}"
    ]


def test_an_unknown_member_is_found_at_every_depth() -> None:
    env, limits = [{"name": "A", "valueFrom": {"secretkeyRef": {}}}], {"example.com/a": 1}
    changes = {
        "metadata": {"lable": {}},
        "spec.volumes": [{"name": "v", "mountPath": ""}],
        "spec.containers.0.env": env,
    }
    manifest = with_template(changes | {"spec.containers.0.resources": {"limits": limits}})
    manifest["spec"] |= {"checkpoint": {"volume": {"nfs": {"serve": ""}}}, "tensorBoard": {"env": [{"nam": "A"}]}}
    unknown = [
        line.split(": is unknown: kubectl refuses it, other clients ignore it; ")
        for line in warnings(manifest)
        if "unknown" in line
    ]
    assert {field.removeprefix(f"{WORKER}.template."): hint for field, hint in unknown} == {
        "metadata.lable": "did you mean labels?",
        "spec.volumes[0].mountPath": f"{IN_CONTAINERS}.volumeMounts[...]",
        "spec.containers[0].env[0].valueFrom.secretkeyRef": "did you mean secretKeyRef?",
        "spec.checkpoint.volume.nfs.serve": "did you mean server?",
        "spec.tensorBoard.env[0].nam": "did you mean name?",
    }


def test_a_template_of_helm_that_is_yaml_is_named_as_such_only_where_it_is_not_valid() -> None:
    manifest = tfjob({"Worker": {}})
    manifest["metadata"]["annotations"] = {"format": "{{ .State }}"}
    assert warnings(manifest) == []
    manifest["metadata"]["name"] = "{{ .Release.Name }}-train"
    [warning] = warnings(manifest)
    assert warning.startswith("metadata.name: has a template's expression")
    assert "helm template" in warning
