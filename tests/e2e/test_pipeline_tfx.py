"""The pipelines that TFX's own tests compare with: all are read, and those whose programs have stand-ins run.

TFX's package has the files. Its programs are replaced by stand-ins that read and write TFX's protobuf messages.
"""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hack import strangers
from hack.film import Film, end_cluster, environment
from tfoperator.launcher import LaunchContext, ProcessPlatformConfig
from tfoperator.pipeline import AS_PROCESSES, Home, PipelineResult, PipelineRunner
from tfoperator.pipeline.kfp.reading import read_ir

pytestmark = pytest.mark.timeout(600)  # the sum of what it waits for at most

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "tests/contract/strangers"
MODULES = ("container/kubeflow_v2_run_executor", "file_based_example_gen/driver")
PROGRAM = ["python", "-m", "tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor"]
SHELL = {
    "produce": 'printf one >"$1"; printf 2 >"$2"; printf 3.5 >"$3"',
    "consume": 'echo "$@"',
    "producer": 'echo "$@"',
}
"""Programs of images that TFX's tests name."""
PARAMETERS = {"runtime_flag": "/data", "string_param": "a", "int_param": "1", "float_param": "2.5"}


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("golden")
    command = [strangers.find(strangers.TFX), SCRIPTS / "tfx_golden_files.py", place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return place


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the stand-ins for TFX's programs, and for the programs of the other images."""
    package = tmp_path / "packages/tfx/orchestration/kubeflow/v2"
    for module in MODULES:
        file = package / f"{module}.py"
        file.parent.mkdir(parents=True)
        file.write_text((SCRIPTS / "tfx_stand_in.py").read_text())
    for folder in (tmp_path / "packages/tfx").rglob(""):
        (folder / "__init__.py").touch()
    (tmp_path / "bin").mkdir()
    for name, script in SHELL.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    library = next(strangers.find(strangers.TFX).parents[1].glob("lib/python*/site-packages"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'packages'}:{library}")


def test_every_pipeline_of_the_tests_of_tfx_is_read(golden: Path) -> None:
    files = sorted(golden.glob("*.json"))
    assert len(files) == 50
    steps = {}
    for file in files:
        document = json.loads(file.read_text())
        root = document.get("pipelineSpec", document)["root"]
        parameters = root.get("inputDefinitions", {}).get("parameters", {})
        graph, _, _ = read_ir(str(file), {name: value for name, value in PARAMETERS.items() if name in parameters})
        steps[file.stem] = [step.name for step in graph.steps]
    for name in [name for name in steps if not name.startswith("legacy_")]:
        assert steps[f"legacy_{name}"] == steps[name]


def run(folder: Path, file: Path, **given: str) -> PipelineResult:
    """Run a pipeline as processes; an image with an entry point of its own has TFX's."""
    document = json.loads(file.read_text())
    spec = document.get("pipelineSpec", document)
    for executor in spec["deploymentSpec"]["executors"].values():
        if "container" in executor:
            executor["container"].setdefault("command", PROGRAM)
    changed = folder / file.name
    changed.write_text(json.dumps(document))
    graph, _, _ = read_ir(str(changed), given)
    graph = msgspec.structs.replace(graph, root=str(folder / "root" / file.stem))
    configs = {"default": [ProcessPlatformConfig()]}
    runner = PipelineRunner(AS_PROCESSES, configs, home=folder / "home", parallel=2, context=LaunchContext())
    return runner.run(graph)


def calls(folder: Path, file: Path) -> dict[str, Any]:
    """Return, by output, what the programs of the last run got."""
    calls_by_output: dict[str, Any] = {}
    for path in sorted((folder / "root" / file.stem).rglob("call.json")):
        step, output, _ = path.parts[-4:-1]
        calls_by_output[f"{step}.{output}"] = json.loads(path.read_text())
    return calls_by_output


def constants(file: Path) -> dict[str, dict[str, Any]]:
    """Return, by task, the constants that a file gives to its parameters, in either spelling."""
    spec = json.loads(file.read_text())["pipelineSpec"]
    constants_by_task: dict[str, dict[str, Any]] = {}
    for name, task in spec["root"]["dag"]["tasks"].items():
        constants_by_task[name] = {}
        for key, given in task.get("inputs", {}).get("parameters", {}).items():
            (value,) = given["runtimeValue"].values()
            constants_by_task[name][key] = value
            if isinstance(value, Mapping):
                ((kind, value),) = value.items()
                constants_by_task[name][key] = int(value) if kind == "intValue" else value
    return constants_by_task


@pytest.mark.parametrize("version", ["", "legacy_"])
@pytest.mark.usefixtures("stand_ins")
def test_the_taxi_pipeline_of_tfx_runs_and_its_second_run_finds_the_blessed_model(
    golden: Path, tmp_path: Path, version: str
) -> None:
    file = golden / f"{version}full_taxi_pipeline_job.json"
    first = run(tmp_path, file)
    assert {str(view.state) for view in first.steps.values()} == {"succeeded"}
    actual, wanted = calls(tmp_path, file), constants(file)
    examples = actual["CsvExampleGen.examples"]
    assert examples["outputs"]["examples"]["metadata"]["input_fingerprint"] == "seen"
    assert examples["parameters"]["input_fingerprint"] == "seen"
    assert float(examples["parameters"]["span"]) == 3
    for task in ("Transform", "Trainer", "Evaluator", "Pusher"):
        (call, *_) = [call for name, call in actual.items() if name.startswith(f"{task}.")]
        assert call["parameters"] == wanted[task]
    trained = actual["Trainer.model"]  # without an earlier model: it has no artifact as its base_model
    assert {name: [artifact["type"] for artifact in these] for name, these in trained["inputs"].items()} == {
        "examples": ["tfx.Examples"],
        "schema": ["tfx.Schema"],
        "transform_graph": ["tfx.TransformGraph"],
    }
    assert (
        trained["inputs"]["examples"][0]["uri"]
        == actual["Transform.transformed_examples"]["outputs"]["transformed_examples"]["uri"]
    )
    if version:
        return
    second = run(tmp_path, file)
    with Home(tmp_path / "home").store() as store:
        before, now = store.executions(first.run_id), store.executions(second.run_id)
    (model,) = before["Trainer"].outputs["model"]
    assert [now[step].inputs[name] for step, name in (("Trainer", "base_model"), ("Evaluator", "baseline_model"))] == [
        (model,),
        (model,),
    ]


@pytest.mark.parametrize("version", ["", "legacy_"])
@pytest.mark.usefixtures("stand_ins")
def test_values_dynamic_properties_and_exit_handlers_of_tfx(golden: Path, tmp_path: Path, version: str) -> None:
    consumed = run(tmp_path, golden / f"{version}pipeline_with_runtime_parameter.json", string_param="a")
    dynamic = run(tmp_path, golden / f"{version}two_step_pipeline_with_dynamic_execution_properties.json")
    ended = run(tmp_path, golden / f"{version}two_step_pipeline_with_exit_handler.json")
    with Home(tmp_path / "home").store() as store:
        logs = {result.run_id: Home(tmp_path / "home").logs for result in (consumed, ended)}
        example = store.executions(dynamic.run_id)["BigQueryExampleGen"]
    assert example.exec_properties["range_config"] == "start_span_number: 2"
    (line,) = logs[consumed.run_id].lines(consumed.run_id, "ConsumeByValue")
    assert line.split()[:4] == ["one", "2", "3.5", "a"]
    (line,) = logs[ended.run_id].lines(ended.run_id, "ExitHandlerComponent")
    assert '"state":"COMPLETE"' in line


def test_the_page_about_tfx_can_be_followed_and_ml_metadata_shows_the_lineage(tmp_path: Path) -> None:
    page, folder, variables = ROOT / "docs/tasks/tfx.md", tmp_path / "checkout", environment(tmp_path)
    shutil.copytree(ROOT / "examples/taxi", folder / "examples/taxi")
    film = Film(folder, variables)
    try:
        film.play(page)
    finally:
        film.close()
        end_cluster(variables)
    shown = "".join(text for _, kind, text in film.events if kind == "o")
    assert "Pusher: not run, after Evaluator, Trainer" in shown
    assert '{"features": ["fare", "tips", "trip_miles"], "steps": 100}' in shown
    command = [strangers.find(strangers.ML_METADATA), "lineage.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    events = [line.split() for line in done.stdout.splitlines()]
    models = [number for number, kind, step in events if (kind, step) == ("OUTPUT", "Trainer")]
    assert len(models) == 3
    assert [number for number, kind, step in events if (kind, step) == ("INPUT", "Pusher")] == [models[0], models[2]]
    assert [number for number, kind, step in events if (kind, step) == ("INPUT", "Trainer")] == models[:2]
