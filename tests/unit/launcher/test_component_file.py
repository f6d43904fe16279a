from pathlib import Path
from typing import Any

import pytest

from tfoperator.launcher import (
    Artifact,
    ComponentError,
    DockerPlatformConfig,
    ExecutorContainerSpec,
    KubernetesPodPlatformConfig,
    TFJobPlatformConfig,
)
from tfoperator.launcher.component_file import ComponentFile, load_component_file

FULL = """
name: count
inputs: {text: null, extra: /default}
outputs: [counts]
parameters: {lines: 10, ratio: 0.5, label: none, flag: true, must: null}
container:
  image: busybox:1.36
  command: [wc]
  args: ["{{ inputs.text.uri }}"]
platforms:
  docker: {mem_limit: 1g}
  kubernetes: {metadata: {labels: {a: b}}, spec: {hostNetwork: false}}
  tfjob: {replicas: {Worker: 2}, spec: {runPolicy: {backoffLimit: 1}}, pod: {spec: {priority: 0}}}
"""


def load(tmp_path: Path, text: str) -> ComponentFile:
    path = tmp_path / "component.yaml"
    path.write_text(text)
    return load_component_file(str(path))


def test_a_file_says_what_a_program_would(tmp_path: Path) -> None:
    file = load(tmp_path, FULL)
    docker, pod, job = file.configs
    given = {"lines": "3", "must": "007", "flag": "false"}
    component = file.component({"text": ["/a", "/b"]}, {"counts": ["/c"]}, given)
    assert component.executor_spec == ExecutorContainerSpec("busybox:1.36", ("wc",), ("{{ inputs.text.uri }}",))
    assert component.inputs == {"text": (Artifact("/a"), Artifact("/b")), "extra": (Artifact("/default"),)}
    assert component.exec_properties == {"lines": 3, "ratio": 0.5, "label": "none", "flag": False, "must": "007"}
    assert isinstance(docker, DockerPlatformConfig)
    assert type(pod) is KubernetesPodPlatformConfig
    assert pod.as_json() == {"layers": [{"metadata": {"labels": {"a": "b"}}, "spec": {"hostNetwork": False}}]}
    assert isinstance(job, TFJobPlatformConfig)
    assert job.replicas == {"Worker": 2}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "component.yaml: "),
        ("[1", "component.yaml:2:1: is not valid YAML"),
        ("name: a", "either a container or a class"),
        ("{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: a}}", "is not a component, but a TFJob"),
        ("{name: a, container: {image: i}, class: 'x:Y'}", "either a container or a class"),
        ("{name: a, container: {imgae: i}}", "imgae|image"),
        ("{name: a, container: {image: i, args: text}}", "container.args"),
        ("{name: a, container: {image: i}, plattforms: {}}", "plattforms"),
        ("{name: default, container: {image: i}}", "default"),
        ("{name: a, container: {image: ''}}", "image"),
        ("{name: a, container: {image: i}, inputs: [x, x]}", "must differ"),
        ("{name: a, container: {image: i}, parameters: {tmp_path: /x}}", "tmp_path"),
        ("{name: a, container: {image: i}, platforms: {docker: {image: x}}}", "platforms.docker: .*image"),
        ("{name: a, container: {image: i}, platforms: {tfjob: {replicas: {Worker: -1}}}}", "platforms.tfjob: .*Worker"),
        ("{name: a, class: 'nowhere'}", "nowhere.* is not the path of a class: use the form package.module:Class"),
        ("name: !!python/object/apply:os.system [id]", "tag .* is not supported"),
    ],
)
def test_a_mistake_in_a_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ComponentError, match=words):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "input 'text' is missing: --input text=URI"),
        ({}, "output 'counts' is missing"),
        ({}, "parameter 'must' is missing"),
        ({"inputs": {"txet": ["/a"]}}, "no input 'txet'; there are extra, text"),
        ({"parameters": {"lines": "many"}}, "'lines' must be int, as its default, but is 'many'"),
        ({"parameters": {"lines": "true"}}, "'lines' must be int"),
        ({"parameters": {"nope": "1"}}, "no parameter 'nope'"),
    ],
)
def test_what_is_missing_or_unknown_is_listed(tmp_path: Path, given: Any, words: str) -> None:
    with pytest.raises(ComponentError, match=words):
        load(tmp_path, FULL).component(**given)
