"""Kubernetes options of a Kubeflow Pipelines file: each on a pod, in Docker and in a process, and what is refused."""

import copy
import json
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.pipeline.kfp.test_ir import ODD, paths
from tests.unit.pipeline.samples import home_of, states
from tfoperator.launcher import (
    ComponentError,
    DockerComponentLauncher,
    ExecutorContainerSpec,
    KubernetesPodComponentLauncher,
    KubernetesPodPlatformConfig,
    LaunchContext,
    Pod,
    ProcessComponentLauncher,
    RetryPolicy,
    TFJobComponentLauncher,
    TFJobPlatformConfig,
)
from tfoperator.launcher.platforms.kubernetes.layers import merge_layers
from tfoperator.pipeline import AS_PROCESSES, PipelineFailed, PipelineResult, PipelineRunner
from tfoperator.pipeline.graph import Graph
from tfoperator.pipeline.kfp.claims import claim_folder
from tfoperator.pipeline.kfp.machine_options import layer_of as machine_layer
from tfoperator.pipeline.kfp.machine_options import read_objects
from tfoperator.pipeline.kfp.pod_options import layer_of
from tfoperator.pipeline.kfp.reading import read_ir
from tfoperator.pipeline.kfp.settings import MachineShare, config_with, without_effect
from tfoperator.pipeline.values import Value

SPEC = ExecutorContainerSpec("busybox:1.36", ("true",))
MATCH = {"key": "disk", "operator": "In", "values": ["ssd"]}
TERM = {"matchExpressions": [MATCH]}

ON_PODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "pull policy": ({"imagePullPolicy": "Always"}, {"containers": [{"name": "main", "imagePullPolicy": "Always"}]}),
    "pull secrets, without the ones that a parameter leaves out": (
        {"imagePullSecret": [{"name": "a"}, {"name": None}, {"name": "a"}]},
        {"imagePullSecrets": [{"name": "a"}]},
    ),
    "an identity": (
        {"securityContext": {"runAsUser": "1000", "runAsGroup": 0, "runAsNonRoot": True}},
        {
            "containers": [
                {"name": "main", "securityContext": {"runAsUser": 1000, "runAsGroup": 0, "runAsNonRoot": True}}
            ]
        },
    ),
    "shared memory": (
        {"enabledSharedMemory": {"volumeName": "shm", "size": "1Gi"}},
        {
            "containers": [{"name": "main", "volumeMounts": [{"name": "kfp-0", "mountPath": "/dev/shm"}]}],
            "volumes": [{"name": "kfp-0", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
        },
    ),
    "an ephemeral volume": (
        {
            "genericEphemeralVolume": [
                {
                    "volumeName": "scratch",
                    "mountPath": "/scratch",
                    "accessModes": ["ReadWriteOnce"],
                    "size": "5Gi",
                    "storageClassName": "fast",
                    "metadata": {"labels": {"a": "b"}},
                },
            ]
        },
        {
            "containers": [{"name": "main", "volumeMounts": [{"name": "kfp-0", "mountPath": "/scratch"}]}],
            "volumes": [
                {
                    "name": "kfp-0",
                    "ephemeral": {
                        "volumeClaimTemplate": {
                            "metadata": {"labels": {"a": "b"}},
                            "spec": {
                                "accessModes": ["ReadWriteOnce"],
                                "resources": {"requests": {"storage": "5Gi"}},
                                "storageClassName": "fast",
                            },
                        }
                    },
                }
            ],
        },
    ),
    "tolerations, plain and as JSON of one or several": (
        {
            "tolerations": [
                {"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": "30"},
                {"tolerationJson": {"key": "a", "value": "b"}},
                {"tolerationJson": [{"operator": "Exists"}]},
                {"tolerationJson": None},
            ]
        },
        {
            "tolerations": [
                {"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
                {"key": "a", "value": "b"},
                {"operator": "Exists"},
            ]
        },
    ),
    "a node selector as JSON counts alone": (
        {"nodeSelector": {"labels": {"a": "b"}, "nodeSelectorJson": {"c": "d"}}},
        {"nodeSelector": {"c": "d"}},
    ),
    "node affinity, required and preferred": (
        {
            "nodeAffinity": [
                TERM,
                {**TERM, "weight": 7.0},
                {
                    "nodeAffinityJson": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": TERM}]
                    }
                },
            ]
        },
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 7, "preference": TERM},
                        {"weight": 1, "preference": TERM},
                    ],
                }
            }
        },
    ),
    "pod affinity and its opposite": (
        {
            "podAffinity": [
                {"topologyKey": "zone", "matchPodLabels": {"app": "x"}},
                {"topologyKey": "zone", "anti": True, "weight": 3, "namespaces": ["a"]},
            ]
        },
        {
            "affinity": {
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
                    ]
                },
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 3, "podAffinityTerm": {"topologyKey": "zone", "namespaces": ["a"]}}
                    ]
                },
            }
        },
    ),
}
"""Options, resolved, and the pod spec of each. Other options run on pods in tests/e2e and tests/cluster."""


@pytest.mark.parametrize("what", ON_PODS)
def test_an_option_becomes_a_part_of_the_pod(what: str) -> None:
    options, spec = ON_PODS[what]
    assert layer_of("step", options).spec == spec


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"a": value}
    return value


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a claim by a path": ({"pvcMount": [{"name": "../x", "mountPath": "/d"}]}, "is not a valid name of an object"),
    "a claim by dots": ({"pvcMount": [{"name": "..", "mountPath": "/d"}]}, "is not a valid name of an object"),
    "a mount at the root": ({"pvcMount": [{"name": "x", "mountPath": "/"}]}, "must be an absolute path below /"),
    "a relative mount": ({"pvcMount": [{"name": "x", "mountPath": "d"}]}, "must be an absolute path below /"),
    "a mount that leads out": (
        {"pvcMount": [{"name": "x", "mountPath": "/a/../b"}]},
        "must be an absolute path below /",
    ),
    "a mount with a mode": ({"pvcMount": [{"name": "x", "mountPath": "/d:rw"}]}, "must be an absolute path below /"),
    "a mount without a path": ({"secretAsVolume": [{"name": "x"}]}, "must be an absolute path below /"),
    "a part that leads out": ({"pvcMount": [{"name": "x", "mountPath": "/d", "subPath": "a/../.."}]}, "subPath"),
    "an absolute part": ({"pvcMount": [{"name": "x", "mountPath": "/d", "subPath": "/etc"}]}, "subPath"),
    "a directive of a merge": ({"podMetadata": {"labels": {"$patch": "delete"}}}, "is not a valid name of a label"),
    "a label of the launcher": (
        {"podMetadata": {"labels": {"tfoperator.launcher/run": "x"}}},
        "must not be set here, because the launcher sets it",
    ),
    "a selector's directive": (
        {"nodeSelector": {"nodeSelectorJson": {"$patch": "x"}}},
        "is not a valid name of a label",
    ),
    "a selector of another form": ({"nodeSelector": {"nodeSelectorJson": [1]}}, "is no dict"),
    "a label's value": ({"podMetadata": {"labels": {"a": "b c"}}}, "is not a valid value of a label"),
    "root by a negative number": ({"securityContext": {"runAsUser": -1}}, "must be a whole number from 0"),
    "a deadline": ({"activeDeadlineSeconds": "1e3"}, "must be a whole number from 0"),
    "a policy": ({"imagePullPolicy": "Sometimes"}, "none of Always"),
    "a field of the node": (
        {"fieldPathAsEnv": [{"name": "A", "fieldPath": "spec.containers"}]},
        "not a field of a pod",
    ),
    "a variable": (
        {"fieldPathAsEnv": [{"name": "A=B", "fieldPath": "metadata.name"}]},
        "is not a valid name of a variable",
    ),
    "a key": (
        {"secretAsEnv": [{"name": "x", "keyToEnv": [{"secretKey": "../k", "envVar": "A"}]}]},
        "is not a valid key",
    ),
    "an unknown field of a toleration": (
        {"tolerations": [{"tolerationJson": {"x": "y"}}]},
        r"\.x: is not supported in pipelines",
    ),
    "an unknown rule of affinity": (
        {"nodeAffinity": [{"nodeAffinityJson": {"x": {}}}]},
        r"\.x: is not supported in pipelines",
    ),
    "a weight": ({"nodeAffinity": [{**TERM, "weight": 101}]}, "must be a whole number from 1 to 100"),
    "an empty term": ({"nodeAffinity": [{}]}, "a term must have matchExpressions or matchFields"),
    "a medium": ({"emptyDirMounts": [{"mountPath": "/d", "medium": "Disk"}]}, "none of Memory"),
    "a limit": ({"emptyDirMounts": [{"mountPath": "/d", "sizeLimit": "lots"}]}, "must be an amount"),
    "too many annotations": (
        {"podMetadata": {"annotations": {f"a{number}": "x" * 4000 for number in range(80)}}},
        r"step\.podMetadata\.annotations: its names and values must have at most 262144 characters together",
    ),
    "a list of tolerations without an end": ({"tolerations": [{"tolerationJson": [{}] * 5000}]}, "at most 100"),
    "a value without an end": ({"nodeSelector": {"nodeSelectorJson": nested(900)}}, "more than 20 levels of nesting"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_pod_must_not_get_from_a_file_is_refused_by_name(what: str) -> None:
    options, words = REFUSED[what]
    with pytest.raises(ComponentError, match=words):
        layer_of("step", options)


def pipeline(options: dict[str, Any], script: str = "true", image: str = "busybox:1.36") -> str:
    """A file of one task with these options."""
    task = {"componentRef": {"name": "comp-say"}, "cachingOptions": {"enableCache": True}}
    first = {
        "pipelineInfo": {"name": "p"},
        "root": {"dag": {"tasks": {"say": task}}, "inputDefinitions": {"parameters": {"name": NAME}}},
        "components": {"comp-say": {"executorLabel": "exec-say"}},
        "deploymentSpec": {
            "executors": {"exec-say": {"container": {"image": image, "command": ["sh", "-ec", script]}}}
        },
    }
    second = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": {"exec-say": options}}}}}
    return f"{json.dumps(first)}\n---\n{json.dumps(second)}"


NAME = {"parameterType": "STRING", "defaultValue": "login"}
BY_NAME = {"componentInputParameter": "name"}


def read(folder: Path, text: str) -> Graph:
    (folder / "file.yaml").write_text(text)
    return read_ir(str(folder / "file.yaml"), {})[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hostPath": [{"path": "/"}]}, r"exec-say\.hostPath: is not supported in pipelines here"),
        ({"securityContext": {"privileged": True}}, r"securityContext\.privileged: is not supported in pipelines here"),
        ({"serviceAccount": "admin"}, "serviceAccount: is not supported in pipelines here"),
        ({"pvcMount": [{"constant": "x", "mountPath": "/d"}] * 101}, "at most 100 are allowed"),
        ({"secretAsEnv": [{"secretName": "x" * 5000}]}, "has 5000 characters"),
        ({"secretAsEnv": [{"secretNameParameter": {"componentInputParameter": "none"}}]}, "there is no 'none'"),
        ({"pvcMount": [{"constant": "x", "mountPath": "/"}]}, "must be an absolute path below /"),
        (
            {"secretAsEnv": [{"secretNameParameter": {"taskOutputParameter": {"producerTask": "no"}}}]},
            r"root\.say: refers to the task 'no', which does not exist",
        ),
    ],
)
def test_a_file_that_asks_for_more_is_refused_before_the_run(tmp_path: Path, options: Any, words: str) -> None:
    with pytest.raises(ComponentError, match=words):
        read(tmp_path, pipeline(options))


def test_a_step_that_mounts_a_claim_is_not_cached(tmp_path: Path) -> None:
    (plain,) = read(tmp_path, pipeline({"secretAsEnv": [{"secretName": "x"}]})).steps
    (mounts,) = read(tmp_path, pipeline({"pvcMount": [{"constant": "x", "mountPath": "/d"}]})).steps
    assert (plain.cache, mounts.cache) == (True, False)


def test_the_user_s_own_layers_win_over_the_file_s(tmp_path: Path) -> None:
    options = {"nodeSelector": {"labels": {"disk": "ssd"}}, "activeDeadlineSeconds": "5"}
    mine = KubernetesPodPlatformConfig({"nodeSelector": {"disk": "mine"}}, labels={"a": "b"})
    config = config_with("step", options, mine, KubernetesPodComponentLauncher, SPEC, MachineShare())
    assert isinstance(config, KubernetesPodPlatformConfig)
    pod = merge_layers({"metadata": {}, "spec": {"containers": [{"name": "main"}]}}, config.layers).pod
    assert pod["spec"]["nodeSelector"] == {"disk": "mine"}
    assert pod["spec"]["activeDeadlineSeconds"] == 5
    job = config_with("step", options, TFJobPlatformConfig({"Worker": 2}), TFJobComponentLauncher, SPEC, MachineShare())
    assert isinstance(job, TFJobPlatformConfig)
    assert job.spec == {"runPolicy": {"activeDeadlineSeconds": 5}}
    assert job.pod_spec == {"nodeSelector": {"disk": "ssd"}}


def test_the_file_can_not_mount_a_claim_of_which_the_user_mounts_a_part() -> None:
    """The other parts may hold the records of runs."""
    mine = KubernetesPodPlatformConfig(Pod().claim("pipeline", "/data/root", sub_path="root").spec())
    whole = KubernetesPodPlatformConfig(Pod().claim("pipeline", "/data").spec())
    for part in ({}, {"subPath": "records"}):
        options = {"pvcMount": [{"name": "pipeline", "mountPath": "/x", **part}]}
        with pytest.raises(ComponentError, match="your platform config mounts only a part of claim pipeline"):
            config_with("step", options, mine, KubernetesPodComponentLauncher, SPEC, MachineShare())
        assert config_with("step", options, whole, KubernetesPodComponentLauncher, SPEC, MachineShare())


OBJECTS = {("Secret", "login"): {"password": b"pw"}, ("ConfigMap", "modes"): {"mode": b"fast"}}


def test_docker_gets_claims_secrets_and_its_own_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = {
        "pvcMount": [{"name": "data", "mountPath": "/data"}],
        "secretAsVolume": [{"name": "login", "mountPath": "/login"}],
        "configMapAsEnv": [{"name": "modes", "keyToEnv": [{"configMapKey": "mode", "envVar": "MODE"}]}],
        "emptyDirMounts": [{"mountPath": "/scratch"}],
        "imagePullPolicy": "Never",
        "securityContext": {"runAsUser": "7", "runAsGroup": "8"},
        "enabledSharedMemory": {"size": "1Gi"},
        "nodeSelector": {"labels": {"a": "b"}},
    }
    made = MachineShare(OBJECTS, tmp_path / "work")
    config = config_with("step", options, None, DockerComponentLauncher, SPEC, made)
    assert config is not None
    work = tmp_path / "work/mounts"
    assert config.as_json() == {
        "environment": {"MODE": "fast"},
        "mounts": [
            {"Type": "bind", "Source": f"{tmp_path}/.tfoperator/claims/data", "Target": "/data", "ReadOnly": False},
            {"Type": "bind", "Source": f"{work}/secret-0", "Target": "/login", "ReadOnly": True},
            {"Type": "bind", "Source": f"{work}/emptyDirMounts-0", "Target": "/scratch", "ReadOnly": False},
        ],
        "pull": "never",
        "user": "7:8",
        "shm_size": "1Gi",
    }
    assert (work / "secret-0/password").read_text() == "pw"
    assert stat.S_IMODE((tmp_path / ".tfoperator").stat().st_mode) == 0o700
    assert without_effect(options, DockerComponentLauncher, SPEC) == ["nodeSelector"]
    assert without_effect(options, KubernetesPodComponentLauncher, SPEC) == []
    part = {"pvcMount": [{"name": "data", "mountPath": "/data", "subPath": "part"}]}
    with pytest.raises(ComponentError, match="can't be used with Docker on this machine"):
        config_with("step", part, None, DockerComponentLauncher, SPEC, made)


def test_before_a_launch_nothing_is_made_and_no_value_of_a_secret_is_shown(tmp_path: Path) -> None:
    options = {
        "secretAsEnv": [{"name": "login", "keyToEnv": [{"secretKey": "password", "envVar": "PASSWORD"}]}],
        "pvcMount": [{"name": "never-made", "mountPath": "/data"}],
    }
    config = config_with("step", options, None, ProcessComponentLauncher, SPEC, MachineShare(OBJECTS))
    assert config is not None
    assert config.as_json()["environment"]["PASSWORD"] == "(key password of Secret login)"
    assert not claim_folder("never-made").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"secretAsVolume": [{"name": "none", "mountPath": "/d"}]},
            "Secret none is missing on this machine: add --manifest",
        ),
        (
            {"secretAsEnv": [{"name": "login", "keyToEnv": [{"secretKey": "no", "envVar": "A"}]}]},
            "Secret login has no key no",
        ),
        (
            {"secretAsEnv": [{"name": "bytes", "keyToEnv": [{"secretKey": "b", "envVar": "A"}]}]},
            "its value must be text",
        ),
        ({"pvcMount": [{"name": "linked", "mountPath": "/d"}]}, "must not be a symbolic link: remove the link"),
        (
            {"pvcMount": [{"name": "data", "mountPath": "/d", "subPath": "out"}]},
            "must be a folder, and not a symbolic link",
        ),
        (
            {"pvcMount": [{"name": "data", "mountPath": "/d"}, {"name": "data", "mountPath": "/d"}]},
            "two volumes are mounted at /d",
        ),
    ],
)
def test_on_this_machine_names_lead_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Any, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    claims = tmp_path / ".tfoperator/claims"
    (claims / "data").mkdir(parents=True)
    (claims / "linked").symlink_to("/etc")
    (claims / "data/out").symlink_to("/etc")
    objects = {**OBJECTS, ("Secret", "bytes"): {"b": b"\xff"}}
    with pytest.raises(ComponentError, match=words):
        machine_layer("step", options, objects, tmp_path / "work", {})


def run(folder: Path, *texts: str, **given: Any) -> list[PipelineResult]:
    results = []
    for text in texts:
        (folder / "file.yaml").write_text(text)
        graph, _, configs = read_ir(str(folder / "file.yaml"), {})
        context = LaunchContext(retry=RetryPolicy(attempts=1))
        runner = PipelineRunner(AS_PROCESSES, configs["process"], home=folder / "home", context=context, **given)
        try:
            results.append(runner.run(graph))
        except PipelineFailed as error:
            results.append(error.result)
    return results


def test_without_mounts_a_process_finds_its_folders_by_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = {
        "secretAsVolume": [{"secretNameParameter": BY_NAME, "mountPath": "/mnt/login"}],
        "pvcMount": [{"constant": "data", "mountPath": "/data"}],
    }
    script = 'cat "$TFOPERATOR_MOUNT_MNT_LOGIN/password"; echo x >"$TFOPERATOR_MOUNT_DATA/file"'
    (result,) = run(tmp_path, pipeline(options, script), objects=OBJECTS)
    assert states(result) == {"say": "succeeded"}
    assert list(home_of(tmp_path).logs.lines(result.run_id, "say")) == ["pw"]
    assert (tmp_path / ".tfoperator/claims/data/file").read_text() == "x\n"
    assert not [*tmp_path.glob("home/runs/*/steps/say/mounts")]  # the Secret is gone


def claim_task(action: str, **parameters: Any) -> str:
    definitions = {
        name: {"parameterType": "LIST" if isinstance(parameter, list) else "STRING"}
        for name, parameter in parameters.items()
    }
    given = {name: {"runtimeValue": {"constant": parameter}} for name, parameter in parameters.items()}
    outputs = {"parameters": {"name": {"parameterType": "STRING"}}}
    component = {"executorLabel": "exec", "inputDefinitions": {"parameters": definitions}}
    first = {
        "pipelineInfo": {"name": "p"},
        "root": {"dag": {"tasks": {"it": {"componentRef": {"name": "comp"}, "inputs": {"parameters": given}}}}},
        "components": {"comp": {**component, **({"outputDefinitions": outputs} if action == "create" else {})}},
        "deploymentSpec": {"executors": {"exec": {"container": {"image": f"argostub/{action}pvc"}}}},
    }
    return json.dumps(first)


NEW = {"access_modes": ["ReadWriteOnce"], "size": "1Gi"}


def test_only_claims_that_a_pipeline_has_made_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    claims = tmp_path / ".tfoperator/claims"
    (claims / "theirs").mkdir(parents=True)
    made, again, gone, gone_again, theirs, taken = run(
        tmp_path,
        claim_task("create", pvc_name="data", **NEW),
        claim_task("create", pvc_name="data", **NEW),
        claim_task("delete", pvc_name="data"),
        claim_task("delete", pvc_name="data"),
        claim_task("delete", pvc_name="theirs"),
        claim_task("create", pvc_name="theirs", **NEW),
    )
    assert [result.state for result in (made, again, gone, gone_again)] == ["succeeded"] * 4
    assert not (claims / "data").exists()
    assert "was not created by a pipeline" in theirs.message
    assert "exists already" in taken.message
    assert (claims / "theirs").is_dir()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"pvc_name": "../x", **NEW}, "is not a valid name of an object"),
        ({"pvc_name": "a", "pvc_name_suffix": "b", **NEW}, "either pvc_name or pvc_name_suffix"),
        (NEW, "either pvc_name or pvc_name_suffix"),
    ],
)
def test_a_claim_needs_a_name_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parameters: Any, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (result,) = run(tmp_path, claim_task("create", **parameters))
    assert words in result.message
    assert not (tmp_path / ".tfoperator/claims").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Pod\nmetadata: {name: a}", "may contain Secrets and ConfigMaps only, but has 'Pod'"),
        ("kind: Secret\nmetadata: {name: ../a}", "is not a valid name of an object"),
        ("kind: Secret\nmetadata: {name: a}\nstringData: {../k: v}", "is not a valid key"),
        ("kind: Secret\nmetadata: {name: a}\ndata: {k: '%'}", "base64"),
        ("kind: Secret\nmetadata: {name: a}\n---\nkind: Secret\nmetadata: {name: a}", "Secret a is there twice"),
        ("3", "object"),
        ("a: [", "file.yaml"),
    ],
)
def test_a_manifest_with_anything_else_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "file.yaml").write_text(text)
    with pytest.raises(ComponentError, match=words):
        read_objects([str(tmp_path / "file.yaml")])


def test_a_manifest_has_texts_and_bytes(tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_text(
        "kind: Secret\nmetadata: {name: a}\ndata: {k: eA==}\nstringData: {l: y}\n---\n"
        "kind: ConfigMap\nmetadata: {name: a}\ndata: {k: z}\nbinaryData: {b: /w==}"
    )
    assert read_objects([str(tmp_path / "file.yaml")]) == {
        ("Secret", "a"): {"k": b"x", "l": b"y"},
        ("ConfigMap", "a"): {"k": b"z", "b": b"\xff"},
    }


ALL: dict[str, Any] = {
    "secretAsVolume": [{"secretNameParameter": BY_NAME, "mountPath": "/a", "optional": True}],
    "secretAsEnv": [{"secretName": "x", "keyToEnv": [{"secretKey": "k", "envVar": "A"}]}],
    "configMapAsVolume": [{"configMapName": "x", "mountPath": "/b"}],
    "configMapAsEnv": [{"configMapNameParameter": BY_NAME, "keyToEnv": [{"configMapKey": "k", "envVar": "B"}]}],
    "pvcMount": [{"pvcNameParameter": BY_NAME, "componentInputParameter": "name", "mountPath": "/c", "subPath": "p"}],
    "emptyDirMounts": [{"volumeName": "v", "mountPath": "/d", "medium": "Memory", "sizeLimit": "1Gi"}],
    "genericEphemeralVolume": [
        {
            "volumeName": "e",
            "mountPath": "/e",
            "accessModes": ["ReadWriteOnce"],
            "size": "1Gi",
            "metadata": {"labels": {}},
        }
    ],
    "enabledSharedMemory": {"volumeName": "shm", "size": "1Gi"},
    "fieldPathAsEnv": [{"name": "C", "fieldPath": "metadata.name"}],
    "podMetadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
    "nodeSelector": {"labels": {"a": "b"}, "nodeSelectorJson": {"runtimeValue": {"constant": {"a": "b"}}}},
    "tolerations": [
        {"key": "k", "tolerationSeconds": "1"},
        {"tolerationJson": {"runtimeValue": {"constant": [{"key": "k"}]}}},
    ],
    "nodeAffinity": [TERM, {"nodeAffinityJson": {"runtimeValue": {"constant": {}}}}],
    "podAffinity": [{"topologyKey": "zone", "matchPodLabels": {"a": "b"}, "matchNamespaceExpressions": [MATCH]}],
    "imagePullSecret": [{"secretName": "x", "secretNameParameter": BY_NAME}],
    "imagePullPolicy": "Always",
    "activeDeadlineSeconds": "30",
    "securityContext": {"runAsUser": "1", "runAsGroup": "1", "runAsNonRoot": True},
}
PATHS = paths(ALL)[1:]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PATHS), ODD | st.just(...)), max_size=3))
def test_whatever_is_wrong_with_the_options_the_error_is_one_of_ours(tmp_path_factory: Any, changes: list[Any]) -> None:
    options = copy.deepcopy(ALL)
    for path, value in changes:
        place: Any = options
        with suppress(KeyError, IndexError, TypeError):
            for key in path[:-1]:
                place = place[key]
            if value is ...:
                del place[path[-1]]
            else:
                place[path[-1]] = copy.deepcopy(value)
    folder = tmp_path_factory.mktemp("ir")
    with suppress(ComponentError):
        (step,) = read(folder, pipeline(options)).steps
        assert not any(isinstance(setting, Value) for setting in step.settings.values())
        machine_layer("step", dict(step.settings), OBJECTS, None, {})
