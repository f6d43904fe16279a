import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.pipeline.samples import home_of, runner, states
from tfoperator.launcher import ComponentError, ExecutorContainerSpec, ProcessComponentLauncher
from tfoperator.pipeline import AS_PROCESSES, PipelineFailed, PipelineResult
from tfoperator.pipeline.graph import FromOutside, Graph, Step
from tfoperator.pipeline.kfp.reading import read_ir

Json = dict[str, Any]
ARTIFACT = {"artifactType": {"schemaTitle": "system.Artifact", "schemaVersion": "0.0.1"}}
IMPORTER = {"importer": {"artifactUri": {"constant": "/data/x"}, "typeSchema": ARTIFACT["artifactType"]}}
TO_THE_END = {"triggerPolicy": {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}}


def shell(script: str, *args: str, image: str = "busybox:1.36") -> Json:
    return {"container": {"image": image, "command": ["sh", "-ec", script], "args": list(args)}}


def task(component: str, after: Sequence[str] = (), **more: Any) -> Json:
    return {"componentRef": {"name": component}, "dependentTasks": list(after), **more}


def component(name: str, inputs: Mapping[str, Any] | None = None, outputs: Mapping[str, Any] | None = None) -> Json:
    return {"executorLabel": name, "inputDefinitions": inputs or {}, "outputDefinitions": outputs or {}}


def artifact(producer: str, output: str = "artifact") -> Json:
    return {"taskOutputArtifact": {"producerTask": producer, "outputArtifactKey": output}}


def parameter(producer: str, output: str) -> Json:
    return {"taskOutputParameter": {"producerTask": producer, "outputParameterKey": output}}


def read(
    folder: Path,
    tasks: Json,
    components: Json,
    executors: Json,
    root: Json | None = None,
    options: Json | None = None,
    **given: str,
) -> Graph:
    """A pipeline with these parts. Each executor also is a component of this name, without inputs and outputs."""
    document = {
        "pipelineInfo": {"name": "p"},
        "root": {"dag": {"tasks": tasks}, "inputDefinitions": root or {}},
        "components": {**{name: component(name) for name in executors}, **components},
        "deploymentSpec": {"executors": executors},
        "schemaVersion": "2.1.0",
    }
    file = folder / "pipeline.yaml"
    second = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": options or {}}}}}
    file.write_text(f"{json.dumps(document)}\n---\n{json.dumps(second)}")
    graph, _, _ = read_ir(str(file), given)
    return msgspec.structs.replace(graph, root=str(folder / "root"))


def run(folder: Path, graph: Graph) -> PipelineResult:
    return runner(folder, launchers=AS_PROCESSES).run(graph)


def image_of(step: Step) -> str:
    assert isinstance(step.executor_spec, ExecutorContainerSpec)
    return step.executor_spec.image


def lines(folder: Path, result: PipelineResult, step: str) -> list[str]:
    return list(home_of(folder).logs.lines(result.run_id, step))


def test_a_task_after_an_importer_waits_for_the_tasks_before_the_importer(tmp_path: Path) -> None:
    components = {
        "load": component("load", outputs={"artifacts": {"artifact": ARTIFACT}}),
        "show": component("show", {"artifacts": {"x": ARTIFACT}}),
        "inner": {
            "dag": {
                "tasks": {"importer": task("load")},
                "outputs": {
                    "artifacts": {
                        "out": {"artifactSelectors": [{"producerSubtask": "importer", "outputArtifactKey": "artifact"}]}
                    }
                },
            }
        },
    }
    tasks = {
        "make": task("make"),
        "importer": task("load", ["make"]),
        "show": task("show", ["importer"], inputs={"artifacts": {"x": artifact("importer")}}),
        "inner": task("inner", ["make"]),
        "show-2": task("show", ["inner"], inputs={"artifacts": {"x": artifact("inner", "out")}}),
    }
    graph = read(tmp_path, tasks, components, {"make": shell("true"), "load": IMPORTER, "show": shell("true")})
    assert {step.name: step.after for step in graph.steps} == {"make": set(), "show": {"make"}, "show-2": {"make"}}


def test_a_step_after_a_loop_without_items_waits_for_the_steps_before_the_loop(tmp_path: Path) -> None:
    loop = {"parameterIterator": {"itemInput": "item", "items": {"inputParameter": "items"}}}
    inputs = {"parameters": {"items": {"componentInputParameter": "items"}}}
    tasks = {
        "fetch": task("fetch"),
        "loop": task("loop", ["fetch"], inputs=inputs, **loop),
        "publish": task("publish", ["loop"]),
    }
    listed = {"parameters": {"items": {"parameterType": "LIST"}}}
    components = {
        "loop": {"dag": {"tasks": {"one": task("one"), "two": task("one", ["one"])}}, "inputDefinitions": listed}
    }
    executors = {"fetch": shell("exit 3"), "one": shell("true"), "publish": shell("true")}
    with pytest.raises(PipelineFailed) as failed:
        run(tmp_path, read(tmp_path, tasks, components, executors, listed, items="[]"))
    assert states(failed.value.result) == {"fetch": "failed", "publish": "skipped"}


NUMBER = {"parameters": {"n": {"parameterType": "NUMBER_INTEGER"}}}
STATUS = {"parameters": {"status": {"parameterType": "TASK_FINAL_STATUS", "isOptional": True}}}


@pytest.mark.parametrize("failing", ["before it begins", "before the group"])
def test_an_exit_handler_is_told_of_a_step_that_has_not_begun(tmp_path: Path, failing: str) -> None:
    components = {
        "silent": component("silent", outputs=NUMBER),
        "reader": component("reader", NUMBER),
        "last": component("last", STATUS),
        "group": {
            "dag": {
                "tasks": {
                    "silent": task("silent"),
                    "reader": task("reader", ["silent"], inputs={"parameters": {"n": parameter("silent", "n")}}),
                }
            }
        },
    }
    ended = {"parameters": {"status": {"taskFinalStatus": {"producerTask": "group"}}}}
    tasks = {
        "first": task("first"),
        "group": task("group", ["first"]),
        "last": task("last", ["group"], inputs=ended, **TO_THE_END),
    }
    executors = {
        "first": shell("exit 3" if failing == "before the group" else "true"),
        "silent": shell("true"),
        "reader": shell("true", "{{$.inputs.parameters['n']}}"),
        "last": shell('echo "$0"', "{{$.inputs.parameters['status']}}"),
    }
    with pytest.raises(PipelineFailed) as failed:
        run(tmp_path, read(tmp_path, tasks, components, executors))
    result = failed.value.result
    status = json.loads(lines(tmp_path, result, "last")[0])
    unread = "group.reader: step group.silent has succeeded, but has written no value as its output n"
    skipped = "group.silent: was skipped, because an earlier step failed"
    assert status["state"] == "FAILED"
    assert (skipped if failing == "before the group" else unread) in status["error"]["message"]
    with home_of(tmp_path).store() as store:
        reader = store.executions(result.run_id).get("group.reader")
    assert (reader.state if reader else "not run") == ("FAILED" if failing == "before it begins" else "not run")


def test_an_option_that_names_an_unknown_task_is_refused(tmp_path: Path) -> None:
    unknown = {"secretNameParameter": {"taskFinalStatus": {"producerTask": "gone"}}}
    with pytest.raises(ComponentError, match="Kubernetes options: there is no task 'gone'"):
        read(tmp_path, {"a": task("a")}, {}, {"a": shell("true")}, options={"a": {"secretAsEnv": [unknown]}})


def test_a_result_is_not_reused_for_an_output_of_another_type_or_with_another_root(tmp_path: Path) -> None:
    def graph(kind: str, root: str) -> Graph:
        output = {"parameters": {"n": {"parameterType": kind}}}
        executor = shell('echo -n 3 >"$0"', "{{$.outputs.parameters['n'].output_file}}")
        tasks = {"make": task("make", cachingOptions={"enableCache": True})}
        made = read(tmp_path, tasks, {"make": component("make", outputs=output)}, {"make": executor})
        return msgspec.structs.replace(made, root=str(tmp_path / root))

    turns = (("STRING", "root"), ("STRING", "root"), ("NUMBER_INTEGER", "root"), ("NUMBER_INTEGER", "other"))
    results = [run(tmp_path, graph(*turn)) for turn in turns]
    assert [states(result)["make"] for result in results] == ["succeeded", "cached", "succeeded", "succeeded"]
    with home_of(tmp_path).store() as store:
        outputs = [store.executions(result.run_id)["make"].outputs["n"][0] for result in results]
    assert [output.properties["value"] for output in outputs] == ["3", "3", 3, 3]
    assert outputs[3].uri.startswith(f"{tmp_path}/other/")


@pytest.mark.parametrize("form", ["data.txt", "file://{folder}/data.txt", "{folder}/data.txt"])
def test_a_program_gets_the_path_of_a_given_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.chdir(tmp_path)
    inputs = {"artifacts": {"x": ARTIFACT}}
    tasks = {"show": task("show", inputs={"artifacts": {"x": {"componentInputArtifact": "x"}}})}
    graph = read(
        tmp_path,
        tasks,
        {"show": component("show", inputs)},
        {"show": shell("true")},
        inputs,
        x=form.format(folder=tmp_path),
    )
    (source,) = [source for step in graph.steps for source in step.inputs.values()]
    assert isinstance(source, FromOutside)
    assert [artifact.uri for artifact in source.artifacts] == [f"{tmp_path}/data.txt"]


TEXT = {"parameters": {"image": {"parameterType": "STRING"}}}
NAMED = "{{$.inputs.parameters['image']}}"


def test_a_parameter_chooses_the_image(tmp_path: Path) -> None:
    tasks = {"a": task("a", inputs={"parameters": {"image": {"componentInputParameter": "image"}}})}
    executors = {"a": shell("true", image=NAMED)}
    (step,) = read(tmp_path, tasks, {"a": component("a")}, executors, TEXT, image="python:3.12").steps
    assert (image_of(step), dict(step.settings)) == ("python:3.12", {})


def test_another_step_chooses_the_image(tmp_path: Path) -> None:
    script = 'echo -n "$1" >"$0"'
    tasks = {
        "pick": task("pick"),
        "use": task("use", ["pick"], inputs={"parameters": {"image": parameter("pick", "image")}}),
    }
    executors = {
        "pick": shell(script, "{{$.outputs.parameters['image'].output_file}}", "python:3.12"),
        "use": shell("true", image=f"registry/{NAMED}"),
    }
    graph = read(tmp_path, tasks, {"pick": component("pick", outputs=TEXT)}, executors)
    images: list[str] = []

    class Noting(ProcessComponentLauncher):
        def check(self) -> None:
            super().check()
            images.append(self.container.image)

    runner(tmp_path, launchers=(Noting,)).run(graph)
    assert [image for image in dict.fromkeys(images) if image != "busybox:1.36"] == [
        "text(registry/, pick.image)",
        "registry/python:3.12",
    ]
    executors["use"] = shell("true", image=NAMED)
    executors["pick"] = shell(script, "{{$.outputs.parameters['image'].output_file}}", "")
    with pytest.raises(PipelineFailed, match="step use: image: must be the name of an image, but is ''"):
        run(tmp_path, read(tmp_path, tasks, {"pick": component("pick", outputs=TEXT)}, executors))


def test_another_placeholder_in_an_image_is_refused(tmp_path: Path) -> None:
    executors = {"a": shell("true", image="{{$.inputs.artifacts['x'].uri}}")}
    with pytest.raises(ComponentError, match=r"image: .* is not a placeholder that is supported here"):
        read(tmp_path, {"a": task("a")}, {}, executors)


INNER = {"dag": {"tasks": {"two": task("good"), "three": task("good", ["two"], **TO_THE_END)}}}
BROKEN = {"dag": {"tasks": {"one": task("bad"), "two": task("good", ["one"])}}}
ORDERS: dict[str, tuple[Json, Json, dict[str, str]]] = {
    "a task after a task that ignores a failure": (
        {
            "one": task("bad"),
            "two": task("good", ["one"]),
            "three": task("good", ["two"], **TO_THE_END),
            "four": task("good", ["three"]),
        },
        {},
        {"one": "failed", "two": "skipped", "three": "succeeded", "four": "succeeded"},
    ),
    "a task that ignores a failure, in a pipeline that has not begun": (
        {"one": task("bad"), "inner": task("inner", ["one"])},
        {"inner": INNER},
        {"one": "failed", "inner.two": "skipped", "inner.three": "skipped"},
    ),
    "tasks in a pipeline that ignores a failure": (
        {"zero": task("bad"), "inner": task("inner", ["zero"], **TO_THE_END)},
        {"inner": BROKEN},
        {"zero": "failed", "inner.one": "failed", "inner.two": "skipped"},
    ),
}


@pytest.mark.parametrize("what", ORDERS)
def test_a_failure_skips_the_tasks_that_depend_on_it_and_no_others(tmp_path: Path, what: str) -> None:
    tasks, components, expected = ORDERS[what]
    with pytest.raises(PipelineFailed) as failed:
        run(tmp_path, read(tmp_path, tasks, components, {"good": shell("true"), "bad": shell("exit 3")}))
    assert states(failed.value.result) == expected
    assert failed.value.result.state == "failed"


def test_a_failed_iteration_does_not_stop_a_loop_with_a_limit(tmp_path: Path) -> None:
    item = {"parameters": {"item": {"parameterType": "NUMBER_INTEGER"}}}
    one = task("one", inputs={"parameters": {"item": {"componentInputParameter": "item"}}})
    components = {
        "loop": {"dag": {"tasks": {"one": one, "two": task("two", ["one"])}}, "inputDefinitions": item},
        "one": component("one", item),
    }
    loop = {"parameterIterator": {"itemInput": "item", "items": {"raw": "[0, 1]"}}}
    tasks = {"loop": task("loop", **loop, iteratorPolicy={"parallelismLimit": 1})}
    executors = {"one": shell('test "$0" != 0', "{{$.inputs.parameters['item']}}"), "two": shell("true")}
    with pytest.raises(PipelineFailed) as failed:
        run(tmp_path, read(tmp_path, tasks, components, executors))
    assert states(failed.value.result) == {
        "loop.one.0": "failed",
        "loop.one.1": "succeeded",
        "loop.two.0": "skipped",
        "loop.two.1": "succeeded",
    }


LONG = "k" * 300
MANY = " && ".join(["1 == 1"] * 1200)
BAD_NAME = "is not a valid name of a parameter or property"
ODD: dict[str, tuple[Json, Json, str]] = {
    "a name of planned metadata": ({"o": {**ARTIFACT, "metadata": {LONG: 1}}}, {}, BAD_NAME),
    "a name of imported metadata": ({}, {"metadata": {LONG: 1}}, BAD_NAME),
    "a path with NUL": ({}, {"artifactUri": {"constant": "/x\0y"}}, ""),
}


@pytest.mark.parametrize("what", ODD)
def test_an_odd_artifact_does_not_interrupt_the_run(tmp_path: Path, what: str) -> None:
    outputs, importer, message = ODD[what]
    components = {
        "load": component("load", outputs={"artifacts": {"artifact": ARTIFACT}}),
        "show": component("show", {"artifacts": {"x": ARTIFACT}}, {"artifacts": outputs}),
    }
    inputs = {"artifacts": {"x": artifact("load")}}
    tasks = {
        "load": task("load"),
        "show": task("show", ["load"], inputs=inputs, cachingOptions={"enableCache": True}),
    }
    executors = {
        "load": {"importer": {**IMPORTER["importer"], **importer}},
        "show": shell("true"),
    }
    graph = read(tmp_path, tasks, components, executors)
    if not message:
        assert run(tmp_path, graph).state == "succeeded"
        return
    with pytest.raises(PipelineFailed, match=message) as failed:
        run(tmp_path, graph)
    assert failed.value.result.state == "failed"


def test_a_long_label_of_an_executor_is_no_name_in_the_records(tmp_path: Path) -> None:
    graph = read(tmp_path, {"a": task(LONG)}, {}, {LONG: shell("true")})
    assert [step.kind for step in graph.steps] == ["a"]


@pytest.mark.parametrize("condition", ["!" * 400 + "true", MANY, "+".join(["'a'"] * 400) + " == 'a'"])
def test_a_deep_condition_is_refused(tmp_path: Path, condition: str) -> None:
    tasks = {"a": task("a", triggerPolicy={"condition": condition})}
    with pytest.raises(ComponentError, match="can't be read: it has more than 100 levels of operators"):
        read(tmp_path, tasks, {}, {"a": shell("true")})


def test_a_deep_argument_is_refused(tmp_path: Path) -> None:
    word = '"x"'
    for _ in range(400):
        word = f'{{"Concat":[{word}]}}'
    with pytest.raises(ComponentError, match="has 100 or more levels of nesting"):
        read(tmp_path, {"a": task("a")}, {}, {"a": shell("true", word)})


def test_the_items_of_a_loop_do_not_matter_if_its_condition_is_false(tmp_path: Path) -> None:
    text = {"parameters": {"items": {"parameterType": "STRING"}, "mode": {"parameterType": "STRING"}}}
    passed = {"parameters": {name: {"componentInputParameter": name} for name in text["parameters"]}}
    loop = {"parameterIterator": {"itemInput": "item", "items": {"inputParameter": "items"}}}
    picked = {"parameters": {**passed["parameters"], "mode": parameter("pick", "mode")}}
    condition = {"triggerPolicy": {"condition": "inputs.parameter_values['mode'] == 'on'"}}
    mode = {"parameters": {"mode": {"parameterType": "STRING"}}}
    components = {
        "pick": component("pick", outputs=mode),
        "if": {"dag": {"tasks": {"loop": task("loop", inputs=passed, **loop)}}, "inputDefinitions": text},
        "loop": {"dag": {"tasks": {"one": task("one")}}, "inputDefinitions": text},
    }
    tasks = {"pick": task("pick"), "if": task("if", ["pick"], inputs=picked, **condition)}
    root = {"parameters": {"items": {"parameterType": "STRING"}}}
    for chosen, expected in (("off", "left out"), ("on", "failed")):
        write = shell('sleep 0.1; echo -n "$1" >"$0"', "{{$.outputs.parameters['mode'].output_file}}", chosen)
        graph = read(tmp_path, tasks, components, {"pick": write, "one": shell("true")}, root, items="none")
        try:
            result = run(tmp_path, graph)
        except PipelineFailed as error:
            result = error.result
        assert states(result) == {"pick": "succeeded", "if.loop.one": expected}


def test_an_exit_handler_runs_after_a_loop_whose_items_are_never_known(tmp_path: Path) -> None:
    def over(items: Json, **fields: Any) -> Json:
        given = {"parameters": {"items": items}} if items else {}
        raw = {"inputParameter": "items"} if items else {"raw": "[0, 1]"}
        return {"inputs": given, "parameterIterator": {"itemInput": "item", "items": raw}, **fields}

    listed = {"parameters": {"items": {"parameterType": "LIST"}, "item": {"parameterType": "NUMBER_INTEGER"}}}
    items = {"parameters": {"items": {"parameterType": "LIST"}}}
    components = {
        "make": component("make", outputs=items),
        "outer": {
            "dag": {
                "tasks": {"make": task("make"), "inner": task("inner", ["make"], **over(parameter("make", "items")))}
            }
        },
        "inner": {"dag": {"tasks": {"one": task("one")}}, "inputDefinitions": listed},
        "group": {"dag": {"tasks": {"outer": task("outer", **over({}))}}},
    }
    components["last"] = component("last", STATUS)
    ended = {"parameters": {"status": {"taskFinalStatus": {"producerTask": "group"}}}}
    tasks = {"group": task("group"), "last": task("last", ["group"], inputs=ended, **TO_THE_END)}
    executors = {
        "make": shell("exit 3"),
        "one": shell("true"),
        "last": shell('echo "$0"', "{{$.inputs.parameters['status']}}"),
    }
    with pytest.raises(PipelineFailed) as failed:
        run(tmp_path, read(tmp_path, tasks, components, executors))
    assert states(failed.value.result) == {
        "group.outer.make.0": "failed",
        "group.outer.make.1": "failed",
        "group.outer.inner.one": "skipped",
        "last": "succeeded",
    }
    assert json.loads(lines(tmp_path, failed.value.result, "last")[0])["state"] == "FAILED"
