"""The objects that each launcher would create, seen through its dry run."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tfoperator.launcher import (
    Component,
    DockerComponentLauncher,
    DockerPlatformConfig,
    ExecutorContainerSpec,
    KubernetesPodComponentLauncher,
    KubernetesPodPlatformConfig,
    LaunchContext,
    NoLauncherError,
    PlatformConfigError,
    TFJobComponentLauncher,
    TFJobPlatformConfig,
)
from tfoperator.launcher.container.backend import object_name

STEP = Component("My_Step", ExecutorContainerSpec("i:1", ["run"], ["{{ exec_props.tmp_path }}"]))


def shown(launcher: Any, config: Any = None, *, step: Component = STEP, **options: Any) -> Any:
    return yaml.safe_load(launcher(step, config, context=LaunchContext(work_dir=Path("/w"), **options)).dry_run())


def test_a_pod_without_a_config_is_the_component_alone() -> None:
    message = {"terminationMessagePath": "/w/tmp/output.json"}
    main = {"name": "main", "image": "i:1", "command": ["run"], "args": ["/w/tmp"], **message}
    pod = shown(KubernetesPodComponentLauncher)
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    assert pod["metadata"] == {"name": "my-step-RUN-1", "labels": {"tfoperator.launcher/component": "My_Step"}}
    assert pod["spec"] == {"restartPolicy": "Never", "containers": [main]}


def test_dollars_of_values_are_escaped_where_the_platform_expands_them_and_nowhere_else() -> None:
    spec = ExecutorContainerSpec("i:1", ["run"], ["{{ exec_props.v }}"])
    step = Component("s", spec, exec_properties={"v": "$(HOME)"})
    pod = shown(KubernetesPodComponentLauncher, step=step)
    assert pod["spec"]["containers"][0]["args"] == ["$$(HOME)"]
    job = shown(TFJobComponentLauncher, TFJobPlatformConfig({"Worker": 1}), step=step)
    template = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    assert template["spec"]["containers"][0]["args"] == ["$$(HOME)"]
    assert shown(DockerComponentLauncher, step=step)["containers.create"]["command"] == ["$(HOME)"]


@pytest.mark.parametrize(("place", "volumes"), [("/shared", ["/shared"]), ("s3://bucket/tmp", [])])
def test_a_shared_directory_and_objects_need_no_termination_message(place: str, volumes: list[str]) -> None:
    (main,) = shown(KubernetesPodComponentLauncher, tmp_path=place)["spec"]["containers"]
    assert main["args"] == [place]
    assert "terminationMessagePath" not in main
    assert list(shown(DockerComponentLauncher, tmp_path=place)["containers.create"].get("volumes", ())) == volumes


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"restartPolicy": "Always"}, "would restart the component without end"),
        ({"containers": [{"name": "main", "$patch": "delete"}]}, "must have a container 'main'"),
        ({"containers": [{"name": "main", "image": None}]}, "must have a container 'main' with an image"),
        ({"containers": None}, "must have a container 'main'"),
    ],
)
def test_a_config_that_leaves_nothing_to_run_is_refused(spec: Any, words: str) -> None:
    with pytest.raises(PlatformConfigError, match=words):
        shown(KubernetesPodComponentLauncher, KubernetesPodPlatformConfig(spec))


def test_a_docker_call_has_the_config_and_the_directory() -> None:
    more = {"environment": {"A": "1"}, "volumes": ["/x:/y"]}
    call = shown(DockerComponentLauncher, DockerPlatformConfig(docker_server_url="tcp://h:1", pull="never", **more))
    assert (call["engine"], call["pull"]) == ("tcp://h:1", "never")
    own = {"name": "my-step-RUN-1", "image": "i:1", "entrypoint": ["run"], "command": ["/w/tmp"]}
    assert call["containers.create"] == {**more, **own, "volumes": ["/x:/y", "/w/tmp:/w/tmp:rw"]}
    mounted = DockerPlatformConfig(volumes={"/host": {"bind": "/w/tmp"}})
    assert shown(DockerComponentLauncher, mounted)["containers.create"]["volumes"] == {"/host": {"bind": "/w/tmp"}}


def test_a_tfjob_runs_the_container_in_every_replica_and_is_refused_with_its_fields_if_it_is_not_valid() -> None:
    config = TFJobPlatformConfig(
        {"Worker": 2, "PS": 1},
        spec={"runPolicy": {"backoffLimit": 1}, "tfReplicaSpecs": {"PS": {"restartPolicy": "Always"}}},
        pod_spec={"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]},
        labels={"team": "vision"},
    )
    job = shown(TFJobComponentLauncher, config)
    assert job["spec"]["runPolicy"] == {"backoffLimit": 1}
    replicas = job["spec"]["tfReplicaSpecs"]
    assert {kind: replica["replicas"] for kind, replica in replicas.items()} == {"Worker": 2, "PS": 1}
    assert replicas["PS"]["restartPolicy"] == "Always"
    (container,) = replicas["Worker"]["template"]["spec"]["containers"]
    assert (container["name"], container["image"], container["command"]) == ("tensorflow", "i:1", ["run"])
    assert container["resources"] == {"limits": {"cpu": "1"}}
    assert replicas["PS"]["template"]["metadata"]["labels"]["team"] == "vision"
    config = TFJobPlatformConfig({"Wroker": 1}, spec={"runPolicy": {"backoffLimit": -1}})
    with pytest.raises(PlatformConfigError, match=r"(?s)backoffLimit.*Wroker|Wroker.*backoffLimit"):
        shown(TFJobComponentLauncher, config)


def test_who_launches_what() -> None:
    for launcher, own, other in (
        (DockerComponentLauncher, DockerPlatformConfig(), KubernetesPodPlatformConfig()),
        (KubernetesPodComponentLauncher, KubernetesPodPlatformConfig(), DockerPlatformConfig()),
        (KubernetesPodComponentLauncher, KubernetesPodPlatformConfig(), TFJobPlatformConfig()),
        (TFJobComponentLauncher, TFJobPlatformConfig(), KubernetesPodPlatformConfig()),
    ):
        assert launcher.can_launch(STEP.executor_spec, own)
        assert not launcher.can_launch(STEP.executor_spec, other)
        with pytest.raises(NoLauncherError):
            launcher(STEP, other)
    assert not TFJobComponentLauncher.can_launch(STEP.executor_spec)


@pytest.mark.parametrize(
    ("name", "shown_as"),
    [("a", "a-r-1"), ("My_Step.2", "my-step-2-r-1"), ("2nd", "c-2nd-r-1"), ("x" * 200, "x" * 40 + "-r-1")],
)
def test_names_are_dns_labels(name: str, shown_as: str) -> None:
    assert object_name(name, "r", 1) == shown_as
