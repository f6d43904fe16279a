"""A stranger's file of Kubeflow Pipelines must not choose by itself what its containers reach of this machine."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tfoperator.launcher import ComponentError, DockerPlatformConfig
from tfoperator.pipeline.graph import Graph, made_graph
from tfoperator.pipeline.kfp.demands import foreign_root, privileges
from tfoperator.pipeline.kfp.reading import read_ir

EXITS = yaml.safe_load((Path(__file__).parent / "exits.yaml").read_text())


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/out").symlink_to(tmp_path)
    return tmp_path / "work"


@pytest.mark.parametrize(
    "root",
    [
        "/",
        "/etc",
        "../..",
        "..",
        "out",
        "out/x",
        "file:///home/me/.ssh",
        "{here}/../x",
        "file://localhost/etc",
        "s3://b/x",
    ],
)
def test_a_root_outside_of_the_current_folder_is_found(here: Path, root: str) -> None:
    graph = Graph("p", root.format(here=here), ())
    assert foreign_root(graph, here) == root.format(here=here)


@pytest.mark.parametrize("root", ["p-root", "a/../b", "{here}", "{here}/data"])
def test_a_root_in_it_is_not(here: Path, root: str) -> None:
    assert foreign_root(Graph("p", root.format(here=here), ()), here) == ""


def test_the_root_of_the_machine_is_not_the_current_folder() -> None:
    graph = made_graph("p", "/", (), enable_cache=False)
    assert graph.root == "/"
    assert graph.output_uri("step", "out", "run") == "/step/out/run"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"environment": {"A": "1"}, "mem_limit": 1, "shm_size": "1g"}, []),
        ({"privileged": True}, ["privileged"]),
        ({"privileged": False}, ["privileged"]),
        ({"volumes": {"/etc": {"bind": "/x", "mode": "rw"}}}, ["volumes: /etc"]),
        ({"volumes": ["/var/run/docker.sock:/sock", "{here}/data:/data"]}, ["volumes: /var/run/docker.sock"]),
        ({"volumes": ["other-volume:/x"]}, ["volumes: //other-volume"]),
        ({"volumes": ["{here}/out:/x"]}, ["volumes: {here}/out"]),
        ({"volumes": "/etc:/x"}, ["volumes: /etc"]),
        ({"pid_mode": "host", "cap_add": ["ALL"], "devices": ["/dev/sda"]}, ["cap_add", "devices", "pid_mode"]),
        ({"network": "host"}, ["network"]),
        ({"docker_server_url": "tcp://elsewhere:2375"}, ["docker_server_url"]),
        ({"an_option_of_tomorrow": 1}, ["an_option_of_tomorrow"]),
    ],
)
def test_an_option_that_reaches_more_of_the_machine_is_named_with_its_step(
    here: Path, options: dict[str, Any], named: list[str]
) -> None:
    def placed(value: Any) -> Any:
        return yaml.safe_load(yaml.safe_dump(value).replace("{here}", str(here)))

    platforms = {"docker": {"step": [DockerPlatformConfig(**placed(options))]}, "process": {}}
    assert privileges(platforms, "docker", here) == [f"step: docker: {option.format(here=here)}" for option in named]
    assert privileges(platforms, "process", here) == []


def test_the_second_document_of_a_file_is_looked_at(here: Path) -> None:
    [label, *_] = EXITS["deploymentSpec"]["executors"]
    ours = {"platforms": {"tfoperator": {"deploymentSpec": {"executors": {label: {"docker": {"privileged": True}}}}}}}
    file = here / "pipeline.yaml"
    file.write_text(yaml.safe_dump_all([copy.deepcopy(EXITS), ours]))
    try:
        graph, _, platforms = read_ir(str(file), {"message": "x"})
    except ComponentError as error:
        raise AssertionError(error) from None
    assert foreign_root(graph, here) == "/exits-root"
    assert any(privilege.endswith(": docker: privileged") for privilege in privileges(platforms, "docker", here))
