from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.api.samples import FULL_SPEC, PEER_STATUS, TEMPLATE, job_of, tfjob
from tfoperator.api import default, errors, validate, validate_manifest


def complaints(manifest: dict[str, Any]) -> list[str]:
    """Errors of a manifest, which must be the same for the operator, defaulted or not."""
    found = errors(validate_manifest(manifest))
    job = job_of(manifest)
    assert errors(validate(job)) == found
    assert len(errors(validate(default(job)))) == len(found)
    return [str(problem) for problem in found]


def warnings(manifest: dict[str, Any]) -> list[str]:
    return [str(problem) for problem in validate_manifest(manifest) if problem.severity == "warning"]


def with_template(change: dict[str, Any]) -> dict[str, Any]:
    """A job whose one worker's template is changed: `{"spec.containers.0.image": "x"}`; None removes."""
    template = copy.deepcopy(TEMPLATE)
    for path, value in change.items():
        *parents, last = path.split(".")
        target: Any = template
        for step in parents:
            target = target[int(step)] if isinstance(target, list) else target.setdefault(step, {})
        if value is None:
            del target[last]
        else:
            target[last] = value
    return tfjob({"Worker": {"template": template}})


WORKER = "spec.tfReplicaSpecs[Worker]"
CONTAINERS = f"{WORKER}.template.spec.containers"


def test_a_job_with_every_field_of_the_peer_is_good() -> None:
    job = tfjob({}) | {"spec": FULL_SPEC, "status": PEER_STATUS}
    assert validate_manifest(job) == ()
    assert validate(job_of(job)) == ()


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
            f'metadata.name: is too long by 1 character: "{"m" * 53}-worker-100", the longest name made from '
            "it, must have at most 63",
        ),
        ("m" * 60, "metadata.name: is too long by 8 characters"),
    ],
)
def test_a_bad_name_is_refused(name: str, complaint: str) -> None:
    (found,) = complaints(tfjob({"Worker": {"replicas": 101}, "PS": {"replicas": 1}}, name=name))
    assert found.startswith(complaint)


def test_a_name_as_long_as_its_pods_can_bear_is_good() -> None:
    assert complaints(tfjob({"Worker": {"replicas": 101}}, name="m" * 52)) == []
    assert complaints(tfjob({"Worker": {"replicas": 0}}, name="m" * 54)) == []


def test_a_generated_name_counts_with_what_the_server_appends() -> None:
    job = tfjob({"Worker": {}})
    job["metadata"] = {"generateName": "mnist-"}
    assert complaints(job) == []
    job["metadata"] = {"generateName": "m" * 50}
    (found,) = complaints(job)
    assert found.startswith("metadata.generateName: is too long by 1 character")


@pytest.mark.parametrize(
    ("replicas", "found"),
    [
        ({}, ["spec.tfReplicaSpecs: must have at least one of PS, Worker, Chief, Master, Evaluator"]),
        (
            {"Eval": {}},
            ["spec.tfReplicaSpecs[Eval]: is not a replica type; the types are PS, Worker, Chief, Master, Evaluator"],
        ),
        ({"Worker": None}, ["spec.tfReplicaSpecs[Worker]: must not be null"]),
        ({"Worker": {}, "worker": {}}, ["spec.tfReplicaSpecs: names Worker more than once: Worker and worker"]),
        (
            {"chief": {}, "Master": {}},
            ["spec.tfReplicaSpecs: must not have both Chief and Master: they are two names for the one that leads"],
        ),
        ({"Worker": {"replicas": -1}}, [f"{WORKER}.replicas: must be 0 or more, but is -1"]),
        (
            {"worker": {"replicas": 10_001}},
            ["spec.tfReplicaSpecs[worker].replicas: must be 10000 or less, but is 10001"],
        ),
        (
            {"Worker": {"restartPolicy": "onFailure"}},
            [f'{WORKER}.restartPolicy: must be one of Always, OnFailure, Never, ExitCode, but is "onFailure"'],
        ),
    ],
)
def test_bad_replicas_are_refused(replicas: dict[str, Any], found: list[str]) -> None:
    job = tfjob(replicas)
    assert [str(problem) for problem in errors(validate_manifest(job))] == found
    assert [str(problem) for problem in errors(validate(job_of(job)))] == found


def test_replica_types_are_good_in_any_case() -> None:
    assert complaints(tfjob({"worker": {}, "ps": {}, "EVALUATOR": {}})) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"spec.containers": None}, [f"{CONTAINERS}: must have at least one container"]),
        ({"spec.containers": []}, [f"{CONTAINERS}: must have at least one container"]),
        ({"spec.containers.0.image": None}, [f"{CONTAINERS}[0].image: is required"]),
        ({"spec.containers.0.image": " "}, [f"{CONTAINERS}[0].image: is required"]),
        (
            {"spec.containers.0.name": "train"},
            [f'{CONTAINERS}: one must be named "tensorflow", but there is only "train"'],
        ),
        ({"spec.containers.0.image": 3}, [f"{CONTAINERS}[0].image: must be a string, but is the number 3"]),
        ({"spec.containers": {}}, [f"{CONTAINERS}: must be a list, but is an object"]),
        ({"spec": []}, [f"{WORKER}.template.spec: must be an object, but is a list"]),
        (
            {"spec.initContainers": [{"name": "tensorflow", "image": "x"}]},
            [f'{CONTAINERS}[0].name: "tensorflow" is the name of another container, too'],
        ),
        (
            {"spec.initContainers": [{"name": "a b"}]},
            [
                f"{WORKER}.template.spec.initContainers[0].name: must consist of at most 63 lower-case letters, digits "
                "and '-' and neither start nor end with '-', but is \"a b\"",
                f"{WORKER}.template.spec.initContainers[0].image: is required",
            ],
        ),
        (
            {"spec.containers.0.ports": [{"containerPort": 0}]},
            [f"{CONTAINERS}[0].ports[0].containerPort: must be 1 or more, but is 0"],
        ),
    ],
)
def test_a_bad_template_is_refused(change: dict[str, Any], found: list[str]) -> None:
    assert complaints(with_template(change)) == found


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
            {"ports": [{"containerPort": "80"}]},
            'ports[0].containerPort: must be a whole number, but is the string "80"',
        ),
    ],
)
def test_a_pod_that_no_api_server_could_read_is_refused_before_one_is_asked(
    change: dict[str, Any], complaint: str
) -> None:
    manifest = with_template({f"spec.containers.0.{name}": value for name, value in change.items()})
    assert [str(problem) for problem in validate_manifest(manifest)] == [f"{CONTAINERS}[0].{complaint}"]


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


def test_what_people_write_into_a_container_is_good() -> None:
    container = {
        "command": ["python", "train.py"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"limits": {"cpu": 0.5, "memory": "8Gi", "nvidia.com/gpu": 1}, "requests": {"cpu": 1e-3}},
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
    }
    manifest = with_template(
        {
            "spec.volumes": [{"name": "data", "emptyDir": {}}],
            **{f"spec.containers.0.{name}": value for name, value in container.items()},
        }
    )
    assert validate_manifest(manifest) == ()


@pytest.mark.parametrize("template", [None, {}])
def test_a_template_must_be_there(template: object) -> None:
    job = tfjob({"Worker": {"template": template}})
    (found,) = complaints(job)
    assert found in (f"{WORKER}.template: is required", f"{CONTAINERS}: must have at least one container")


def test_nulls_in_a_template_count_as_absent() -> None:
    template = {
        "metadata": {"creationTimestamp": None, "labels": None},
        "spec": {"containers": [{**TEMPLATE["spec"]["containers"][0], "ports": None}], "initContainers": None},
    }
    assert validate_manifest(tfjob({"Worker": {"template": template}})) == ()


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        ({"cleanPodPolicy": "all"}, 'spec.runPolicy.cleanPodPolicy: must be one of All, Running, None, but is "all"'),
        ({"ttlSecondsAfterFinished": -1}, "spec.runPolicy.ttlSecondsAfterFinished: must be 0 or more, but is -1"),
        ({"activeDeadlineSeconds": -5}, "spec.runPolicy.activeDeadlineSeconds: must be 0 or more, but is -5"),
        ({"activeDeadlineSeconds": 2**31}, "spec.runPolicy.activeDeadlineSeconds: must be 2147483647 or less"),
        ({"activeDeadlineSeconds": 10**100}, "spec.runPolicy.activeDeadlineSeconds: must be 2147483647 or less"),
        ({"backoffLimit": -1}, "spec.runPolicy.backoffLimit: must be 0 or more, but is -1"),
        ({"managedBy": "me"}, "spec.runPolicy.managedBy: must be kubeflow.org/training-operator or kueue"),
        ({"schedulingPolicy": {"minAvailable": -1}}, "spec.runPolicy.schedulingPolicy.minAvailable: must be 0"),
        ({"schedulingPolicy": {"scheduleTimeoutSeconds": -1}}, "spec.runPolicy.schedulingPolicy.scheduleTimeoutSec"),
        (
            {"schedulingPolicy": {"minResources": {"cpu": "4", "memory": "much"}}},
            "spec.runPolicy.schedulingPolicy.minResources[memory]: must be a quantity such as",
        ),
        ({"suspend": "no"}, 'spec.runPolicy.suspend: must be true or false, but is the string "no"'),
    ],
)
def test_a_bad_run_policy_is_refused(policy: dict[str, Any], found: str) -> None:
    job = tfjob({"Worker": {}}, runPolicy=policy)
    (problem,) = errors(validate_manifest(job))
    assert str(problem).startswith(found)


def test_a_bad_success_policy_is_refused() -> None:
    (found,) = complaints(tfjob({"Worker": {}}, successPolicy="Chief"))
    assert found == 'spec.successPolicy: must be one of AllWorkers, but is "Chief"'


def test_empty_strings_count_as_unset() -> None:
    job = tfjob({"Worker": {"restartPolicy": ""}}, successPolicy="", runPolicy={"cleanPodPolicy": ""})
    assert complaints(job) == []


def test_every_wrong_type_is_named_with_its_full_path() -> None:
    job = tfjob({"Worker": {"replicas": "2"}, "PS": {"restartPolicy": 1}, "Chief": []}, enableDynamicWorker="no")
    assert complaints(job) == [
        f'{WORKER}.replicas: must be a whole number, but is the string "2"',
        "spec.tfReplicaSpecs[PS].restartPolicy: must be a string, but is the number 1",
        "spec.tfReplicaSpecs[Chief]: must be an object, but is a list",
        'spec.enableDynamicWorker: must be true or false, but is the string "no"',
    ]


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


@pytest.mark.parametrize(
    ("replicas", "policy", "warning"),
    [
        ({"Chief": {"replicas": 2}}, {}, "TensorFlow refuses a cluster with more than one Chief"),
        ({"Worker": {}, "Evaluator": {"replicas": 2}}, {}, "TensorFlow refuses a cluster with more than one Evaluator"),
        ({"PS": {}}, {}, "has neither Chief nor Worker, so nothing decides when the job has succeeded"),
        ({"Worker": {"replicas": 0}}, {}, "asks for no replica at all"),
        ({"Worker": {}}, {"activeDeadlineSeconds": 0}, "ends the job as soon as it starts"),
        ({"Worker": {}}, {"schedulingPolicy": {"minAvailable": 2}}, "is 2, but the job has only 1 replicas"),
    ],
)
def test_what_looks_like_a_mistake_is_a_warning(replicas: dict[str, Any], policy: dict[str, Any], warning: str) -> None:
    job = tfjob(replicas, runPolicy=policy)
    assert complaints(job) == []
    (found,) = warnings(job)
    assert warning in found


def test_the_pods_own_restart_policy_has_no_effect() -> None:
    (found,) = warnings(with_template({"spec.restartPolicy": "Always"}))
    assert found.startswith(f"{WORKER}.template.spec.restartPolicy: has no effect")


@pytest.mark.parametrize(
    ("manifest", "hint"),
    [
        (
            tfjob({"Worker": {}}, cleanPodPolicy="All"),
            "spec.cleanPodPolicy: is unknown and will be ignored; it belongs in spec.runPolicy",
        ),
        (
            tfjob({"Worker": {"backoffLimit": 1}}),
            f"{WORKER}.backoffLimit: is unknown and will be ignored; it belongs in spec.runPolicy",
        ),
        (
            tfjob({"Worker": {}}, runpolicy={}),
            "spec.runpolicy: is unknown and will be ignored; did you mean runPolicy?",
        ),
        (
            tfjob({"Worker": {}}, runPolicy={"backofLimit": 1}),
            "spec.runPolicy.backofLimit: is unknown and will be ignored; did you mean backoffLimit?",
        ),
        (
            tfjob({"Worker": {"image": "x"}}),
            f"{WORKER}.image: is unknown and will be ignored; "
            "it belongs in spec.tfReplicaSpecs[...].template.spec.containers[...]",
        ),
        (
            tfjob({"Worker": {}}, cleanPodPolcy="All"),
            "spec.cleanPodPolcy: is unknown and will be ignored; did you mean cleanPodPolicy in spec.runPolicy?",
        ),
        (tfjob({"Worker": {}}, zzz=1), "spec.zzz: is unknown and will be ignored"),
        (
            tfjob({"Worker": {}}) | {"tfReplicaSpecs": {}},
            "tfReplicaSpecs: is unknown and will be ignored; it belongs in spec",
        ),
        (
            with_template({"spec.volume": []}),
            f"{WORKER}.template.spec.volume: is unknown and will be ignored; did you mean volumes?",
        ),
        (
            with_template({"spec.containers.0.imagePullPolicys": ""}),
            f"{CONTAINERS}[0].imagePullPolicys: is unknown and will be ignored; did you mean imagePullPolicy?",
        ),
        (
            with_template({"containers": []}),
            f"{WORKER}.template.containers: is unknown and will be ignored; "
            "it belongs in spec.tfReplicaSpecs[...].template.spec",
        ),
    ],
)
def test_an_unknown_member_is_a_warning_with_a_hint(manifest: dict[str, Any], hint: str) -> None:
    assert errors(validate_manifest(manifest)) == ()
    assert warnings(manifest) == [hint]


def test_metadata_that_only_servers_write_is_known() -> None:
    job = tfjob({"Worker": {}})
    job["metadata"] |= {"managedFields": [], "selfLink": "", "generation": 1, "creationTimestamp": None}
    assert validate_manifest(job) == ()
    job["metadata"]["lables"] = {}
    assert warnings(job) == ["metadata.lables: is unknown and will be ignored; did you mean labels?"]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "spec",
                    "metadata",
                    "tfReplicaSpecs",
                    "Worker",
                    "template",
                    "containers",
                    "name",
                    "runPolicy",
                    "labels",
                    "x",
                ]
            ),
            children,
            max_size=3,
        )
    ),
)


@given(st.dictionaries(st.sampled_from(["spec", "metadata", "kind", "status", "?"]), anything))
def test_any_data_is_judged_without_an_exception(manifest: dict[str, Any]) -> None:
    assert all(str(problem) for problem in validate_manifest(manifest))


@given(
    st.dictionaries(
        st.sampled_from(["Worker", "worker", "PS", "Eval"]),
        st.none() | st.fixed_dictionaries({"template": anything, "replicas": st.none() | st.integers()}),
    )
)
def test_any_template_is_judged_without_an_exception(replicas: dict[str, Any]) -> None:
    validate_manifest(tfjob(replicas))
    validate(default(job_of(tfjob(replicas))))


def test_arguments_that_name_all_workers_do_not_go_with_workers_that_come_and_go() -> None:
    job = tfjob({"Worker": {"replicas": 2}}, clusterArguments=True)
    assert validate_manifest(job) == ()
    job["spec"]["enableDynamicWorker"] = True
    (warning,) = warnings(job)
    assert warning.startswith("spec.clusterArguments: names the workers that there are when a pod is made")


CLAIM = {"persistentVolumeClaim": {"claimName": "checkpoints"}}


@pytest.mark.parametrize(
    ("checkpoint", "complaint"),
    [
        ({"mountPath": "/c"}, "spec.checkpoint.volume: is required"),
        ({"volume": None, "mountPath": "/c"}, "spec.checkpoint.volume: is required"),
        ({"volume": [], "mountPath": "/c"}, "spec.checkpoint.volume: must be an object"),
        ({"volume": {}, "mountPath": "/c"}, "spec.checkpoint.volume: must have one kind of volume"),
        ({"volume": {"name": "v"}, "mountPath": "/c"}, "spec.checkpoint.volume: must have one kind of volume"),
        ({"volume": CLAIM | {"nfs": {}}, "mountPath": "/c"}, "spec.checkpoint.volume: must have one kind of volume"),
        ({"volume": CLAIM}, "spec.checkpoint.mountPath: is required"),
        ({"volume": CLAIM, "mountPath": "c"}, "spec.checkpoint.mountPath: must be an absolute path"),
        ({"volume": CLAIM, "mountPath": "/"}, "spec.checkpoint.mountPath: must be an absolute path"),
        ({"volume": CLAIM, "mountPath": "/c:d"}, "spec.checkpoint.mountPath: must be an absolute path"),
        ({"volume": CLAIM, "mountPath": "/" + "c" * 1024}, "spec.checkpoint.mountPath: must have at most 1024"),
        ("here", "spec.checkpoint: must be an object"),
    ],
)
def test_a_checkpoint_needs_one_volume_and_an_absolute_place(checkpoint: Any, complaint: str) -> None:
    (found,) = (str(problem) for problem in errors(validate_manifest(tfjob({"Worker": {}}, checkpoint=checkpoint))))
    assert found.startswith(complaint)


@pytest.mark.parametrize(
    ("volume", "warning"),
    [
        (CLAIM, ""),
        (CLAIM | {"nfs": None}, ""),
        (CLAIM | {"name": "mine"}, "spec.checkpoint.volume.name: has no effect"),
        ({"emptyDir": {}}, "spec.checkpoint.volume: an emptyDir is each pod's own and goes with it"),
    ],
)
def test_a_checkpoint_that_may_not_be_what_was_meant_is_a_warning(volume: dict[str, Any], warning: str) -> None:
    job = tfjob({"Worker": {}}, checkpoint={"volume": volume, "mountPath": "/checkpoint"})
    assert complaints(job) == []
    assert [text.startswith(warning) for text in warnings(job)] == ([True] if warning else [])
