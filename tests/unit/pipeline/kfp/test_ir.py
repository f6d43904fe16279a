import copy
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.eventually import eventually
from tests.unit.pipeline.samples import home_of, runner, states
from tfoperator.launcher import Artifact, ComponentError, KubernetesPodPlatformConfig, TFJobPlatformConfig
from tfoperator.pipeline import AS_PROCESSES, ON_KUBERNETES, PipelineFailed, PipelineResult, PipelineRunner
from tfoperator.pipeline.graph import Graph
from tfoperator.pipeline.kfp.container import IRContainerSpec
from tfoperator.pipeline.kfp.reading import read_ir

HERE = Path(__file__).parent
SHAPES = yaml.safe_load((HERE / "shapes.yaml").read_text())


def shapes(folder: Path, **given: str) -> Graph:
    imported = folder / "imported"
    if not imported.exists():
        imported.write_text("one\n")
    graph, _, _ = read_ir(str(HERE / "shapes.yaml"), {"known": str(imported), **given})
    return msgspec.structs.replace(graph, root=str(folder / "root"))


def run(folder: Path, graph: Graph, resume: str = "") -> PipelineResult:
    return runner(folder, launchers=AS_PROCESSES, parallel=8).run(graph, resume=resume)


def values(folder: Path, result: PipelineResult) -> dict[str, Any]:
    with home_of(folder).store() as store:
        executions = store.executions(result.run_id)
    made = [
        (name, artifact)
        for name, execution in executions.items()
        for part in execution.outputs.values()
        for artifact in part
    ]
    return {name: artifact.properties["value"] for name, artifact in made if "value" in artifact.properties}


def test_a_pipeline_of_all_shapes_runs_as_processes_and_the_second_time_uses_what_it_has(tmp_path: Path) -> None:
    first = run(tmp_path, shapes(tmp_path))
    text = "{{$.inputs.parameters['n']}} $(HOME) `id`-yes"
    assert values(tmp_path, first) == {
        "numbers": [0, 1, 2],
        "count": 3,
        "count-2": 1,
        "say-5": f"{text}.",
        **{f"for-loop-1.twice.{step}.{at}": 2 * at for step in ("add", "add-2") for at in range(3)},
        "for-loop-1.condition-2.say.2": "it becomes 4.",
        "for-loop-4.add.0": 21,
        "for-loop-4.add.1": 43,
        "condition-branches-5.condition-6.say-2": text,
    }
    left_out = {name for name, state in states(first).items() if state == "left out"}
    assert left_out == {
        *{"for-loop-1.condition-2.say.0", "for-loop-1.condition-2.say.1"},
        *{"condition-branches-5.condition-7.say-3", "condition-branches-5.condition-8.say-4"},
    }
    assert first.results["paint"].outputs["data"][0].properties == {"hue": "red"}
    (tmp_path / "imported").write_text("one\ntwo\n")
    second = run(tmp_path, shapes(tmp_path))
    again = {name for name, state in states(second).items() if state == "succeeded"}
    assert again == {"count-2", "for-loop-1.condition-2.say.2"}  # another file, and a step that is not to be cached
    third = run(tmp_path, shapes(tmp_path, n="4"))
    assert states(third)["condition-branches-5.condition-8.say-4"] == "succeeded"
    assert values(tmp_path, third)["say-5"] == "four.."


def test_a_failure_says_the_last_line_and_what_runs_in_any_case_is_told_of_it(tmp_path: Path) -> None:
    graph, _, _ = read_ir(str(HERE / "exits.yaml"), {"message": "out of ink"})
    with pytest.raises(PipelineFailed, match="exit code 3: out of ink") as failed:
        run(tmp_path, msgspec.structs.replace(graph, root=str(tmp_path / "root")))
    assert states(failed.value.result) == {"exit-handler-1.fail": "failed", "last": "succeeded"}
    (line,) = home_of(tmp_path).logs.lines(failed.value.result.run_id, "last")
    status = json.loads(line)
    assert (status["state"], "out of ink" in status["error"]["message"]) == ("FAILED", True)


KILLED = """
import sys
from pathlib import Path
from tests.unit.pipeline.kfp.test_ir import run, shapes
folder = Path(sys.argv[1])
run(folder, shapes(folder, n="6"))
"""


def test_a_run_whose_runner_was_killed_in_a_loop_goes_on_with_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "imported").write_text("one\n")
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)]) as first:
        done = tmp_path / "root" / "for-loop-1.twice.add.2"
        eventually(done.is_dir, within=180, what="the loop is under way")
        first.send_signal(signal.SIGKILL)
    result = run(tmp_path, shapes(tmp_path, n="6"), resume="latest")
    totals = values(tmp_path, result)
    assert [totals[f"for-loop-1.twice.add-2.{at}"] for at in range(6)] == [2 * at for at in range(6)]
    assert sorted(path.name for path in (tmp_path / "root" / "paint" / "data").iterdir()) == [result.run_id]


def changed(change: Callable[[dict[str, Any]], object], second: Any = None) -> str:
    """The file with a change, as text."""
    document = json.loads(json.dumps(SHAPES))
    change(document)
    return json.dumps(document) + (f"\n---\n{json.dumps(second)}" if second is not None else "")


def put(path: str, **fields: Any) -> Callable[[dict[str, Any]], object]:
    """A change of these fields of what is at a path."""
    return lambda document: reduce(dict.__getitem__, filter(None, path.split("/")), document).update(fields)


def task(name: str, **fields: Any) -> Callable[[dict[str, Any]], object]:
    return put(f"root/dag/tasks/{name}", **fields)


def nested(document: dict[str, Any], width: int) -> None:
    """DAGs in DAGs, of which each has so many of the next."""
    for depth in range(60):
        tasks = {f"t{at}": {"componentRef": {"name": f"d{depth + 1}"}} for at in range(width)}
        document["components"][f"d{depth}"] = {"dag": {"tasks": tasks}}
    document["components"]["d60"] = document["components"]["comp-add"]
    document["root"]["dag"]["tasks"]["deep"] = {"componentRef": {"name": "d0"}}


NUMBERS = SHAPES["root"]["dag"]["tasks"]["numbers"]
EXECUTOR = "deploymentSpec/executors/exec-add"
CODE = "__import__('os')"
REFUSED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "an executor of another kind": (
        put(EXECUTOR, customJob={}),
        r"deploymentSpec\.executors\.exec-add\.customJob: is not supported in pipelines here",
    ),
    "cache key": (task("numbers", cachingOptions={"cacheKey": "x"}), r"numbers\.cachingOptions\.cacheKey"),
    "artifact iterator": (task("numbers", artifactIterator={}), r"numbers\.artifactIterator\.items: there is no"),
    "a number": (task("numbers", iteratorPolicy={"parallelismLimit": "2"}), r"parallelismLimit: '2' is no int"),
    "no component": (task("numbers", componentRef={"name": "gone"}), "numbers: there is no component 'gone'"),
    "no task": (task("numbers", dependentTasks=["gone"]), "numbers: refers to the task 'gone', which does not exist"),
    "a cycle": (task("numbers", dependentTasks=["for-loop-1"]), "wait for each other"),
    "a name": (put("root/dag/tasks", **{"../up": NUMBERS}), "not a valid name for a component"),
    "a name of another": (put("root/dag/tasks", **{"say.5": NUMBERS}), "several steps are named say-5"),
    "a pipeline's name": (put("pipelineInfo", name="../up"), "not a valid name for a component"),
    "an output's name": (
        put("components/comp-add/outputDefinitions/parameters", **{"../up": {}}),
        r"'\.\./up' can't be the name",
    ),
    "a condition": (task("numbers", triggerPolicy={"condition": CODE}), "condition .* can't be read"),
    "a deep condition": (
        task("numbers", triggerPolicy={"condition": "(" * 900 + "1" + ")" * 900}),
        "can't be read: too many",
    ),
    "a selector": (
        put("components/comp-for-loop-4/dag/tasks/add/inputs/parameters/a", parameterExpressionSelector=CODE),
        r"add: a\.parameterExpressionSelector: .* is not supported here",
    ),
    "a placeholder": (
        put(f"{EXECUTOR}/container", args=["{{$.pipeline_job_uuid}}"]),
        "is not a placeholder that is supported here",
    ),
    "an import from nowhere": (
        put("deploymentSpec/executors/exec-importer/importer", artifactUri={"constant": ""}),
        "importer.artifactUri: must have a value",
    ),
    "other objects": (put("", defaultPipelineRoot="minio://bucket/x"), "defaultPipelineRoot minio://bucket/x"),
    "a missing parameter": (put("root/inputDefinitions/parameters", n={}), "'n' is missing"),
    "depth": (lambda d: nested(d, 1), "has more than 30 levels of nested DAGs"),
    "many tasks": (lambda d: nested(d, 3), "more than 30 levels of nested DAGs|more than 2000 tasks"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_ir_can_say_and_pipelines_here_can_not_is_refused_by_name(tmp_path: Path, what: str) -> None:
    change, message = REFUSED[what]
    file = tmp_path / "pipeline.yaml"
    file.write_text(changed(change))
    with pytest.raises(ComponentError, match=message) as refused:
        read_ir(str(file), {})
    assert str(refused.value).startswith(f"{file}: ")


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *[path for key, member in members for path in paths(member, (*at, key))]]


PATHS = paths(SHAPES)[1:]
ODD = st.sampled_from([None, {}, [], "", "{{$}}", "pipelinechannel--x", -1, 1e300, True, [{}], {"x": {}}])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PATHS), ODD | st.just(...)), min_size=1, max_size=3))
def test_whatever_is_wrong_with_a_file_the_error_is_one_of_ours(tmp_path_factory: Any, changes: list[Any]) -> None:
    def change(document: dict[str, Any]) -> None:
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
    file.write_text(changed(change))
    with suppress(ComponentError):
        read_ir(str(file), {})


def test_resources_variables_and_our_platform_become_platform_configs(tmp_path: Path) -> None:
    accelerator = {"type": "nvidia.com/gpu", "count": "2"}
    change = put("deploymentSpec/executors/exec-paint/container/resources", accelerator=accelerator)
    ours = {"exec-add": {"tfjob": {"replicas": {"Worker": 2}}, "docker": {"network": "none"}}}
    file = tmp_path / "pipeline.yaml"
    file.write_text(changed(change, {"platforms": {"tfoperator": {"deploymentSpec": {"executors": ours}}}}))
    graph, parameters, configs = read_ir(str(file), {"n": "5"})
    assert (parameters["n"], graph.name, graph.root) == (5, "shapes", "shapes-root")
    (pod,) = configs["kubernetes"]["paint"]
    limits = {"cpu": "500m", "memory": "1G", "nvidia.com/gpu": "2"}
    (main,) = pod.as_json()["layers"][0]["spec"]["containers"]
    assert isinstance(pod, KubernetesPodPlatformConfig)
    assert (main["resources"]["limits"], main["env"]) == (limits, [{"name": "HUE", "value": "$$(x)"}])
    (docker,) = configs["docker"]["paint"]
    limits = {"nano_cpus": 500_000_000, "mem_limit": 1_000_000_000}
    gpus = {"device_requests": [{"Count": 2, "Capabilities": [["gpu"]]}]}
    assert docker.as_json() == {"environment": {"HUE": "$(x)"}, **limits, **gpus}
    assert configs["process"]["paint"][0].as_json() == {"environment": {"HUE": "$(x)"}}
    (job,) = configs["kubernetes"]["for-loop-1.twice.add"]
    assert isinstance(job, TFJobPlatformConfig)
    assert job.replicas == {"Worker": 2}
    assert configs["docker"]["for-loop-1.twice.add"][0].as_json()["network"] == "none"
    assert {step.name: step for step in graph.steps}["count"].retry is not None
    shown = PipelineRunner(ON_KUBERNETES, configs["kubernetes"], home=tmp_path / "home").check(graph)
    assert yaml.safe_load(shown["for-loop-1.twice.add"])["kind"] == "TFJob"
    ours["exec-add"] = {"slurm": {}}
    file.write_text(changed(change, {"platforms": {"tfoperator": {"deploymentSpec": {"executors": ours}}}}))
    with pytest.raises(ComponentError, match=r"executors\.exec-add: .*slurm"):
        read_ir(str(file), {})


def test_placeholders_are_replaced_once_and_the_program_gets_values_as_they_are() -> None:
    command = ["{{$.inputs.parameters['x']}}/{{$.outputs.artifacts['o'].path}}", "{{$.inputs.artifacts['i'].metadata}}"]
    spec = IRContainerSpec(
        "busybox",
        command,
        ["{{$}}", "{{ inputs.i.uri }}", '{"Concat": ["a", "{{$.inputs.parameters[\'n\']}}"]}'],
        task="t",
        parameters=("x", "n"),
        artifacts={"i": {}, "o": {}},
    )
    inputs, outputs = {"i": (Artifact("/i", {"rows": 3}),)}, {"o": (Artifact("/o"),)}
    text = "{{$.inputs.parameters['n']}}"
    words = spec.words(inputs, outputs, {"x": text, "n": [1], "tmp_path": "/tmp/t"})
    assert (words[0], words[1][1:]) == ([f"{text}//o", '{"rows":3}'], ["{{ inputs.i.uri }}", "a[1]"])
    assert json.loads(words[1][0])["inputs"]["parameterValues"] == {"x": text, "n": [1]}
    for path in ("inputs.artifacts['i'].metadata['a']['b']", "outputs.artifacts['o'].path.suffix"):
        with pytest.raises(ComponentError, match="not a placeholder"):
            IRContainerSpec("busybox", ["{{$." + path + "}}"], [], task="t", artifacts={"i": {}, "o": {}})
    with pytest.raises(ComponentError, match="argument must have fewer than"):
        spec.words(inputs, outputs, {"x": "x" * 140_000, "n": 1, "tmp_path": "/t"})
