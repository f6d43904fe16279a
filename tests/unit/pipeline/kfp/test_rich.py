"""The parts of a file of Kubeflow Pipelines beside steps, run to its right end as processes."""

import copy
import json
from contextlib import suppress
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.pipeline.kfp.test_ir import ODD, paths
from tests.unit.pipeline.samples import home_of, runner, states
from tfoperator.launcher import ComponentError, DockerPlatformConfig, KubernetesPodPlatformConfig
from tfoperator.pipeline import (
    AS_PROCESSES,
    ON_DOCKER,
    ON_KUBERNETES,
    PipelineFailed,
    PipelineResult,
    PipelineRunner,
    RunRecord,
)
from tfoperator.pipeline.graph import Graph, Step, check_fixed
from tfoperator.pipeline.kfp.reading import read_ir
from tfoperator.pipeline.kfp.settings import MachineShare
from tfoperator.pipeline.run_folders import leads_out, workspace_of
from tfoperator.pipeline.runner.platforms import with_settings
from tfoperator.pipeline.values import Value

HERE = Path(__file__).parent


def read(folder: Path, name: str, **parameters: str) -> Graph:
    graph, _, _ = read_ir(str(HERE / f"{name}.yaml"), parameters)
    return msgspec.structs.replace(graph, root=str(folder / "root"))


def run(folder: Path, graph: Graph) -> PipelineResult:
    try:
        return runner(folder, launchers=AS_PROCESSES, parallel=8).run(graph)
    except PipelineFailed as error:
        return error.result


def lines(folder: Path, result: PipelineResult, step: str) -> list[str]:
    return list(home_of(folder).logs.lines(result.run_id, step))


def test_a_task_that_ignores_a_failure_gets_its_defaults_in_place_of_what_was_not_put_out(tmp_path: Path) -> None:
    result = run(tmp_path, read(tmp_path, "ignores"))
    assert states(result) == {"fail-before": "failed", "greet": "succeeded"}
    assert lines(tmp_path, result, "greet") == ["nothing came, without data"]


def test_without_a_default_such_a_task_fails_and_the_steps_beside_it_go_on(tmp_path: Path) -> None:
    graph = read(tmp_path, "ignores")
    beside = read(tmp_path, "ends").steps
    (text,) = [step.exec_properties["text"].args[0] for step in graph.steps if step.name == "greet"]
    steps = [
        msgspec.structs.replace(step, exec_properties={"text": text}) if step.name == "greet" else step
        for step in graph.steps
    ]
    result = run(tmp_path, msgspec.structs.replace(graph, steps=(*steps, *beside)))
    assert states(result) == {
        "fail-before": "failed",
        "greet": "failed",
        "exit-handler-1.greet": "succeeded",
        "last": "succeeded",
    }
    assert result.steps["greet"].message == "this step reads the output of step fail-before, which has not succeeded"


def test_an_exit_task_gets_the_words_of_a_cluster(tmp_path: Path) -> None:
    """The words of ML Metadata: the SDK's documentation has SUCCEEDED, which only its runner on one machine gives."""
    result = run(tmp_path, read(tmp_path, "ends"))
    (line,) = lines(tmp_path, result, "last")
    names = {"pipelineTaskName": "exit-handler-1", "pipelineJobResourceName": f"ends-{result.run_id}"}
    assert json.loads(line) == {"state": "COMPLETE", "error": {}, **names}
    result = run(tmp_path, read(tmp_path, "exits", message="out of ink"))
    (line,) = lines(tmp_path, result, "last")
    status = json.loads(line)
    assert (status["state"], status["error"]["code"], status["pipelineTaskName"]) == ("FAILED", 2, "exit-handler-1")
    assert status["error"]["message"].endswith("exit code 3: out of ink")


def test_a_pipeline_of_all_that_a_file_may_have_beside_steps(tmp_path: Path) -> None:
    (tmp_path / "known").write_text("a\nb\nc\n")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/of-nobody").write_text("x\n")
    graph = read(tmp_path, "rich", known=str(tmp_path / "known"))
    result = run(tmp_path, graph)
    assert set(states(result).values()) == {"succeeded"}
    what, items, text = lines(tmp_path, result, "show")
    assert json.loads(what) == {"hue": "green", "asked": [1, "2G"]}
    assert json.loads(items) == ["green", {"run": result.run_id}, 2.5]
    assert text == f"show rich-{result.run_id} {tmp_path}/root"
    looked = [lines(tmp_path, result, f"for-loop-1.look.{at}") for at in range(2)]
    assert looked == [['1 {"hue":"red"}'], ['2 {"hue":"red"}']]
    (all_of_them,) = lines(tmp_path, result, "look-at-all")
    artifacts = json.loads(all_of_them)
    assert [Path(artifact["uri"]).read_text() for artifact in artifacts] == ["0\n", "0\n1\n"]
    assert lines(tmp_path, result, "look-2") == ["3 {}"]
    assert lines(tmp_path, result, "look-3") == ['1 {"2G":1.0,"hue":"green"}']
    assert lines(tmp_path, result, "read") == ["kept"]


def test_resources_that_another_step_decides_are_known_once_it_has_ended(tmp_path: Path) -> None:
    graph = read(tmp_path, "rich", known="/x")
    (say,) = [step for step in graph.steps if step.name == "say"]
    assert isinstance(say.settings["resources"], Value)
    assert "hand-on" in say.after
    with pytest.raises(ComponentError, match="settings that come from another step"):
        check_fixed(msgspec.structs.replace(graph, steps=(say,)))
    (read_now,) = [step for step in read_ir(str(HERE / "shapes.yaml"), {})[0].steps if step.name == "paint"]
    assert read_now.settings == {}

    def made(config: Any, **resources: Any) -> Any:
        launchers = ON_DOCKER if isinstance(config, DockerPlatformConfig) else ON_KUBERNETES
        chooser = PipelineRunner(launchers, {"default": [config]}, home=tmp_path / "other")
        step: Step = msgspec.structs.replace(say, settings={"resources": resources})
        info = chooser.launch_info(graph.component(step, "RUN"), "")
        return with_settings(info, step, MachineShare()).platform_config

    docker = made(DockerPlatformConfig(mem_limit=5), resourceCpuLimit="500m", resourceMemoryLimit="2G")
    assert docker.as_json() == {"nano_cpus": 500_000_000, "mem_limit": 5}  # what the user says of a platform wins
    pod = made(KubernetesPodPlatformConfig(labels={"a": "b"}), accelerator={"resourceType": "x.com/gpu"})
    (main,) = pod.as_json()["layers"][0]["spec"]["containers"]
    assert main["resources"]["limits"] == {"x.com/gpu": "1"}


@pytest.mark.parametrize("amount", ["", "many", "-1", "1e30", "{{$}}"])
def test_resources_that_are_no_amounts_fail_the_step_and_not_the_run(tmp_path: Path, amount: str) -> None:
    graph = read(tmp_path, "rich", known="/x")
    steps = {step.name: step for step in graph.steps}
    first = msgspec.structs.replace(steps["hand-on"], exec_properties={"text": amount})
    result = run(tmp_path, msgspec.structs.replace(graph, steps=(first, steps["say"])))
    assert states(result)["say"] == ("succeeded" if amount == "" else "failed")
    assert amount == "" or "must be an amount" in result.steps["say"].message


def test_an_artifact_is_given_to_a_pipeline_by_its_uri(tmp_path: Path) -> None:
    with pytest.raises(ComponentError, match=r"artifact 'known' is missing: --param known=URI"):
        read(tmp_path, "rich")
    with pytest.raises(ComponentError, match="must have a URI"):
        read(tmp_path, "rich", known="")
    _, recorded, _ = read_ir(str(HERE / "rich.yaml"), {"known": "/data/x"})
    assert recorded == {"known": "/data/x", "cpus": "500m", "hue": "green"}


RICH, WORKSPACE = yaml.safe_load_all((HERE / "rich.yaml").read_text())
TASKS = "root/dag/tasks"
RUN_ID = "{{$.pipeline_job_uuid}}"
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "an unknown fact": (
        f"{TASKS}/keep/inputs/parameters/folder/runtimeValue",
        {"constant": "{{$.pipeline_x}}"},
        "pipeline_x",
    ),
    "a fact deep in a list": (
        f"{TASKS}/show/inputs/parameters/items/runtimeValue",
        {"constant": [[["{{$.workspace_x}}"]]]},
        "workspace_x",
    ),
    "an input that is not there": (
        f"{TASKS}/show/inputs/parameters/what/runtimeValue",
        {"constant": {"{{$.inputs.parameters['gone']}}": 1}},
        "there is no 'gone'",
    ),
    "many facts": (
        f"{TASKS}/show/inputs/parameters/items/runtimeValue",
        {"constant": [RUN_ID] * 30_000},
        "more than 20000 parts",
    ),
    "artifacts that no step makes": (
        f"{TASKS}/for-loop-1/inputs/artifacts/pipelinechannel--paints-Output",
        {"taskOutputArtifact": {"producerTask": "importer", "outputArtifactKey": "artifact"}},
        "the artifact of an importer can only be the input of a step",
    ),
    "a place of an importer": (
        "deploymentSpec/executors/exec-importer/importer",
        {"artifactUri": {"constant": [RUN_ID]}},
        r"artifactUri\.constant: .* is no str",
    ),
    "resources": (
        "deploymentSpec/executors/exec-say/container",
        {"resources": {"resourceCpuLimit": "{{$.inputs.parameters['gone']}}"}},
        "there is no 'gone'",
    ),
    "an amount": (
        "deploymentSpec/executors/exec-say/container",
        {"resources": {"accelerator": {"resourceType": "x", "resourceCount": "-1"}}},
        r"accelerator: '-1' must be an amount",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_can_not_be_is_refused_by_name_before_the_run(tmp_path: Path, what: str) -> None:
    path, fields, words = REFUSED[what]
    document = json.loads(json.dumps(RICH))
    reduce(dict.__getitem__, path.split("/"), document).update(fields)
    (tmp_path / "file.yaml").write_text(json.dumps(document))
    with pytest.raises(ComponentError, match=words):
        read_ir(str(tmp_path / "file.yaml"), {"known": "/x"})


def test_a_workspace_needs_a_folder_and_its_place_is_not_the_file_s_to_choose(tmp_path: Path) -> None:
    for change, words in (
        ({"kubernetes": {"pvcSpecPatch": {}, "path": "/etc"}}, r"kubernetes\.path: is not supported in pipelines"),
        ({"size": 3}, "is no str"),
    ):
        second = json.loads(json.dumps(WORKSPACE))
        second["platforms"]["kubernetes"]["pipelineConfig"]["workspace"].update(change)
        (tmp_path / "file.yaml").write_text(f"{json.dumps(RICH)}\n---\n{json.dumps(second)}")
        with pytest.raises(ComponentError, match=words):
            read_ir(str(tmp_path / "file.yaml"), {"known": "/x"})
    run = RunRecord("r", "p", "running", "s3://bucket/x", "", datetime.now(UTC))
    with pytest.raises(
        ComponentError, match="a workspace needs a pipeline_root that is a directory, but pipeline_root is"
    ):
        workspace_of(run)


def test_a_link_that_a_program_has_left_does_not_lead_a_workspace_out_of_the_root(tmp_path: Path) -> None:
    graph = read(tmp_path, "rich", known="/x")
    (keep,) = [step for step in graph.steps if step.name == "keep"]
    (tmp_path / "root").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "root/.workspace").symlink_to(tmp_path / "elsewhere")
    result = run(tmp_path, msgspec.structs.replace(graph, steps=(keep,)))
    assert "is outside of pipeline_root, because of a symbolic link" in result.message
    assert not [*(tmp_path / "elsewhere").iterdir()]
    for root in (f"{tmp_path}/root", f"file://{tmp_path}/root"):
        assert leads_out(root, f"{tmp_path}/root/.workspace/r")
        assert not leads_out(root, f"{tmp_path}/root/.tmp/r")


PATHS = paths(RICH)[1:]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PATHS), ODD | st.just(...)), min_size=1, max_size=3))
def test_whatever_is_wrong_with_such_a_file_the_error_is_one_of_ours(tmp_path_factory: Any, changes: list[Any]) -> None:
    document = json.loads(json.dumps(RICH))
    for path, value in changes:
        place: Any = document
        with suppress(KeyError, IndexError, TypeError):
            for key in path[:-1]:
                place = place[key]
            if value is ...:
                del place[path[-1]]
            else:
                place[path[-1]] = copy.deepcopy(value)
    file = tmp_path_factory.mktemp("ir") / "pipeline.yaml"
    file.write_text(json.dumps(document))
    with suppress(ComponentError):
        read_ir(str(file), {"known": "/x"})
