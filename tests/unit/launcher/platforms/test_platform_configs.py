from typing import Any

import pytest
from kubernetes.client import V1Container, V1EnvVar, V1PodSpec

from tfoperator.launcher import (
    DockerPlatformConfig,
    KubernetesPodPlatformConfig,
    PlatformConfigError,
    Pod,
    TFJobPlatformConfig,
)


def test_docker_arguments_merge_deeply_and_the_new_ones_win_but_configs_of_two_platforms_do_not() -> None:
    volumes = {"/x": {"bind": "/y"}}
    default = DockerPlatformConfig(environment={"A": "1", "B": "2"}, volumes=volumes, privileged=True)
    merged = default.merge(DockerPlatformConfig(environment={"B": "", "C": "3"}, privileged=False, mem_limit="1g"))
    environment = {"A": "1", "B": "", "C": "3"}
    expected = {"environment": environment, "volumes": volumes, "privileged": False, "mem_limit": "1g"}
    assert merged.run_kwargs == expected
    assert default.run_kwargs["environment"] == {"A": "1", "B": "2"}
    for config, other in (
        (DockerPlatformConfig(), KubernetesPodPlatformConfig()),
        (KubernetesPodPlatformConfig(), TFJobPlatformConfig()),
        (TFJobPlatformConfig(), KubernetesPodPlatformConfig()),
    ):
        with pytest.raises(PlatformConfigError, match="same type"):
            config.merge(other)


@pytest.mark.parametrize("argument", ["image", "command", "entrypoint", "name", "detach", "auto_remove"])
def test_what_the_launcher_decides_about_docker_is_refused(argument: str) -> None:
    with pytest.raises(PlatformConfigError, match=argument):
        DockerPlatformConfig(**{argument: "x"})
    with pytest.raises(PlatformConfigError, match="pull"):
        DockerPlatformConfig(pull="sometimes")


def test_a_model_of_the_kubernetes_package_keeps_its_falsy_values_and_leaves_out_the_unset_ones() -> None:
    container = V1Container(name="main", args=[], tty=False, env=[V1EnvVar(name="A", value="")])
    model = V1PodSpec(containers=[container], host_network=False, termination_grace_period_seconds=0)
    (layer,) = KubernetesPodPlatformConfig(model, labels={"a": ""}).layers
    main = {"name": "main", "args": [], "tty": False, "env": [{"name": "A", "value": ""}]}
    spec = {"containers": [main], "hostNetwork": False, "terminationGracePeriodSeconds": 0}
    assert layer.patch == {"metadata": {"labels": {"a": ""}}, "spec": spec}


@pytest.mark.parametrize("memory", ["x", "1 gigabyte", "512 mb", "", True])
def test_what_is_no_quantity_and_no_pod_spec_is_refused(memory: Any) -> None:
    with pytest.raises(PlatformConfigError, match="must be a quantity such as 2, 500m"):
        Pod(memory=memory)
    with pytest.raises(PlatformConfigError, match="pod spec"):
        KubernetesPodPlatformConfig(["x"])


def test_a_tfjobs_replicas_and_spec_merge_beside_its_pods() -> None:
    default = TFJobPlatformConfig({"Worker": 2}, spec={"runPolicy": {"backoffLimit": 3}}, pod_spec={"priority": 1})
    policy = {"runPolicy": {"cleanPodPolicy": "All"}}
    merged = default.merge(TFJobPlatformConfig({"PS": 1, "Worker": 4}, spec=policy, labels={"a": "b"}))
    assert merged.replicas == {"Worker": 4, "PS": 1}
    assert merged.spec == {"runPolicy": {"backoffLimit": 3, "cleanPodPolicy": "All"}}
    assert [layer.patch for layer in merged.layers] == [{"spec": {"priority": 1}}, {"metadata": {"labels": {"a": "b"}}}]
    with pytest.raises(PlatformConfigError, match="Worker"):
        TFJobPlatformConfig({"Worker": -1})


def test_the_builder_says_a_pod_spec_in_words_and_is_not_changed_by_what_is_built_on_it() -> None:
    base = Pod(cpu=2, memory="1Gi", gpu=1)
    pod = (
        base.env("A", "1")
        .use_gcp_secret()
        .secret_env("P", "db", "password")
        .claim("data", "/data")
        .claim("data", "/part", sub_path="root")
        .service_account("runner")
        .node_selector(disk="ssd")
        .toleration("gpu")
        .toleration("team", value="vision", effect="NoExecute")
        .image_pull_secret("registry")
    )
    spec = pod.spec()
    (main,) = spec["containers"]
    amounts = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}
    assert main["resources"] == {"limits": amounts, "requests": amounts}
    assert {variable["name"] for variable in main["env"]} == {"A", "P", "GOOGLE_APPLICATION_CREDENTIALS"}
    mounts = {mount["mountPath"]: mount.get("subPath") for mount in main["volumeMounts"]}
    assert mounts == {"/secret/user-gcp-sa": None, "/data": None, "/part": "root"}
    assert {volume["name"] for volume in spec["volumes"]} == {"secret-user-gcp-sa", "data"}
    assert [toleration["key"] for toleration in spec["tolerations"]] == ["gpu", "team"]
    assert (spec["serviceAccountName"], spec["nodeSelector"]) == ("runner", {"disk": "ssd"})
    assert "env" not in base.spec()["containers"][0]
    assert Pod().env("A", "1").spec() == {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]}
    assert Pod().spec() == {}


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        *(({"memory": memory}, limit) for memory, limit in (("1GB", "1G"), ("512MB", "512M"), ("64kB", "64k"))),
        *(({"memory": memory}, limit) for memory, limit in (("1GiB", "1Gi"), ("2Gi", "2Gi"))),
        *(({"cpu": cpu}, str(cpu)) for cpu in (2, 0.5, "500m", "1e3", "2.")),
    ],
)
def test_amounts_as_people_and_kubernetes_write_them_are_quantities(given: Any, limit: str) -> None:
    assert Pod(**given).spec()["containers"][0]["resources"]["limits"] == dict.fromkeys(given, limit)
