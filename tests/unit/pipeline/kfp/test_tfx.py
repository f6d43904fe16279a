"""Files of TFX's `KubeflowV2DagRunner`: PipelineJobs, schema 2.0.0, resolvers, drivers; and files of a stranger."""

import copy
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.pipeline.kfp.test_ir import ODD, paths, put
from tests.unit.pipeline.samples import home_of, runner, states
from tfoperator.launcher import Artifact, ComponentError, LaunchContext
from tfoperator.pipeline import AS_PROCESSES, ON_KUBERNETES, PipelineFailed, PipelineResult
from tfoperator.pipeline.graph import FromOutside, Graph
from tfoperator.pipeline.kfp.container import IRContainerSpec
from tfoperator.pipeline.kfp.demands import foreign_root
from tfoperator.pipeline.kfp.reading import read_ir
from tfoperator.pipeline.values import NEWEST, Value, evaluate

TAXI = json.loads((Path(__file__).parents[4] / "examples/taxi/taxi.json").read_text())
GIVEN = {"data_root": "/data", "push_destination": "{}"}
SPEC = "pipelineSpec"
TASKS = f"{SPEC}/root/dag/tasks"
EXECUTORS = f"{SPEC}/deploymentSpec/executors"
QUERY = "Resolver.latest_model_resolver_executor/resolver/outputArtifactQueries/model"
Change = Callable[[dict[str, Any]], object]


def read(folder: Path, *changes: Change, document: Any = None, **given: str) -> Graph:
    """Read the taxi pipeline, or another document, with changes."""
    document = copy.deepcopy(TAXI if document is None else document)
    for change in changes:
        change(document)
    file = folder / "pipeline.json"
    file.write_text(json.dumps(document))
    graph, _, _ = read_ir(str(file), GIVEN | given if SPEC in document else given)
    return graph


def spec_of(graph: Graph, name: str) -> IRContainerSpec:
    """Return the container of a step."""
    spec = next(step.executor_spec for step in graph.steps if step.name == name)
    assert isinstance(spec, IRContainerSpec)
    return spec


def test_a_job_has_the_values_of_parameters_and_the_root_and_the_user_wins(tmp_path: Path) -> None:
    graph = read(tmp_path)
    trainer = next(step for step in graph.steps if step.name == "Trainer")
    assert (graph.root, trainer.exec_properties["train_args"]) == ("taxi-root", '{"num_steps": 100}')
    assert trainer.outputs == {"model": "tfx.Model", "model_run": "tfx.ModelRun"}
    assert trainer.kind == "Trainer"
    assert trainer.after == {"CsvExampleGen", "SchemaGen"}  # and not the program before CsvExampleGen
    graph = read(tmp_path, train_args="mine")
    assert {step.name: step for step in graph.steps}["Trainer"].exec_properties["train_args"] == "mine"
    with pytest.raises(ComponentError, match="parameter 'data_root' is missing: --param data_root=VALUE"):
        read_ir(str(tmp_path / "pipeline.json"), {"push_destination": "{}"})


def test_a_resolver_is_the_newest_artifact_of_earlier_runs_and_no_step(tmp_path: Path) -> None:
    graph = read(tmp_path)
    by_name = {step.name: step for step in graph.steps}
    assert not [name for name in by_name if name.startswith("Resolver")]
    assert by_name["Trainer"].inputs["base_model"] == Value(NEWEST, ("tfx.Model",))
    blessing = Value(NEWEST, ("tfx.ModelBlessing", "properties.blessed", 1.0))
    model = Value("property", (blessing, 0, "current_model_id"))
    assert by_name["Evaluator"].inputs["baseline_model"] == Value(NEWEST, ("tfx.Model", "uri", model))


OLD: dict[str, Any] = {
    "pipelineSpec": {
        "pipelineInfo": {"name": "old"},
        "schemaVersion": "2.0.0",
        "root": {
            "inputDefinitions": {"parameters": {"n": {"type": "INT"}, "rate": {"type": "DOUBLE"}}},
            "dag": {
                "tasks": {
                    "show": {
                        "componentRef": {"name": "show"},
                        "inputs": {
                            "parameters": {
                                "n": {"componentInputParameter": "n"},
                                "rate": {"componentInputParameter": "rate"},
                                "text": {"runtimeValue": {"constantValue": {"stringValue": "5"}}},
                                "size": {"runtimeValue": {"constantValue": {"intValue": "9007199254740993"}}},
                            }
                        },
                    }
                }
            },
        },
        "components": {
            "show": {
                "executorLabel": "show",
                "inputDefinitions": {
                    "parameters": {
                        "n": {"type": "INT"},
                        "rate": {"type": "DOUBLE"},
                        "text": {"type": "STRING"},
                        "size": {"type": "INT"},
                    }
                },
            }
        },
        "deploymentSpec": {"executors": {"show": {"container": {"image": "busybox", "command": ["echo", "{{$}}"]}}}},
    },
    "runtimeConfig": {"parameters": {"n": {"intValue": "3"}, "rate": {"doubleValue": 0.5}}},
}


def test_a_program_of_schema_2_0_0_gets_its_parameters_with_their_types(tmp_path: Path) -> None:
    graph = read_old(tmp_path)
    (step,) = graph.steps
    assert step.exec_properties == {"n": 3, "rate": 0.5, "text": "5", "size": 9007199254740993}
    words = spec_of(graph, "show").words({}, {}, {**step.exec_properties, "tmp_path": "/t"})
    assert json.loads(words[0][1])["inputs"] == {
        "artifacts": {},
        "parameterValues": dict(step.exec_properties),
        "parameters": {
            "n": {"intValue": "3"},
            "rate": {"doubleValue": 0.5},
            "text": {"stringValue": "5"},
            "size": {"intValue": "9007199254740993"},
        },
    }


def read_old(folder: Path, *changes: Change, **given: str) -> Graph:
    """Read the pipeline of schema 2.0.0, with changes."""
    document = copy.deepcopy(OLD)
    for change in changes:
        change(document)
    file = folder / "old.json"
    file.write_text(json.dumps(document))
    graph, _, _ = read_ir(str(file), given)
    return graph


def test_an_artifact_of_tfx_has_its_uri_as_its_name_and_a_value_only_where_a_placeholder_asks() -> None:
    schema = {"instanceSchema": "title: tfx.String\ntype: object\n"}
    spec = IRContainerSpec(
        "busybox",
        ["{{$}}", "{{$.inputs.artifacts['text'].value}}"],
        task="t",
        artifacts={"text": schema},
        contents=("text",),
    )
    inputs = {"text": (Artifact("s3://b/text", {"value": "long", "hue": "red"}),)}
    words = spec.words(inputs, {}, {"tmp_path": "/t"}, places={"s3://b/text": "/t/inputs/text"})
    (artifact,) = json.loads(words[0][0])["inputs"]["artifacts"]["text"]["artifacts"]
    assert artifact == {
        "name": "s3://b/text",
        "type": schema,
        "uri": "/t/inputs/text",
        "metadata": {"hue": "red"},
    }
    assert words[0][1] == "long"
    with pytest.raises(ComponentError, match="not a placeholder"):
        IRContainerSpec("busybox", ["{{$.inputs.artifacts['text'].value}}"], task="t", artifacts={"text": schema})


PROGRAM = """
import json, pathlib, sys
got = json.loads(sys.argv[2])
place = pathlib.Path(got["outputs"]["outputFile"])
place.parent.mkdir(parents=True, exist_ok=True)
if sys.argv[1] == "before":
    text = pathlib.Path(got["inputs"]["parameterValues"]["data"]).read_text()
    made = {"artifacts": {"out": {"artifacts": [{"metadata": {"seen": text}}]}}}
    place.write_text(json.dumps({"parameterValues": {"data": text, "more": [1]}, **made}))
else:
    (artifact,) = got["outputs"]["artifacts"]["out"]["artifacts"]
    pathlib.Path(artifact["uri"]).write_text(json.dumps([got["inputs"]["parameterValues"], artifact["metadata"]]))
"""


def driven(data: Path, program: str = PROGRAM) -> dict[str, Any]:
    """Return a pipeline of a component with a program that runs before it."""
    words = {"command": [sys.executable, "-c", program]}
    kind = {"artifactType": {"instanceSchema": "title: tfx.Examples\n"}}
    container = {"image": "tfx", **words, "args": ["after", "{{$}}"]}
    container["lifecycle"] = {"preCacheCheck": {**words, "args": ["before", "{{$}}"]}}
    parameters = {"data": {"runtimeValue": {"constant": str(data)}}}
    task = {
        "componentRef": {"name": "Gen"},
        "inputs": {"parameters": parameters},
        "cachingOptions": {"enableCache": True},
    }
    component = {
        "executorLabel": "Gen_executor",
        "inputDefinitions": {"parameters": {"data": {"parameterType": "STRING"}}},
        "outputDefinitions": {"artifacts": {"out": {**kind, "metadata": {"hue": "red"}}}},
    }
    return {
        "pipelineInfo": {"name": "driven"},
        "schemaVersion": "2.1.0",
        "root": {"dag": {"tasks": {"Gen.one": task}}},
        "components": {"Gen": component},
        "deploymentSpec": {"executors": {"Gen_executor": {"container": container}}},
    }


def run(folder: Path, document: Any) -> PipelineResult:
    """Run a pipeline as processes."""
    graph = msgspec.structs.replace(read(folder, document=document), root=str(folder / "root"))
    return runner(folder, launchers=AS_PROCESSES).run(graph)


def test_a_program_before_a_component_changes_its_parameters_and_decides_whether_it_runs_again(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("first")
    document = driven(tmp_path / "data")
    first = run(tmp_path, document)
    assert states(first) == {"Gen-one.pre-cache-check": "succeeded", "Gen-one": "succeeded"}
    (made,) = first.results["Gen-one"].outputs["out"]
    assert json.loads(Path(made.uri).read_text()) == [
        {"data": "first", "more": [1]},
        {"hue": "red", "seen": "first"},
    ]
    assert made.properties == {"hue": "red", "seen": "first"}
    assert states(run(tmp_path, document)) == {"Gen-one.pre-cache-check": "succeeded", "Gen-one": "cached"}
    (tmp_path / "data").write_text("second")
    again = run(tmp_path, document)
    assert states(again)["Gen-one"] == "succeeded"
    with home_of(tmp_path).store() as store:
        properties = store.executions(again.run_id)["Gen-one"].exec_properties
    assert properties == {"data": "second", "more": [1]}


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ('{"parameterValues": []}', "malformed document"),
        ('{"parameterValues": {"tmp_path": "/"}}', "the launcher sets tmp_path, so give the parameter another name"),
        (json.dumps({"parameterValues": {"x" * 300: 1}}), "is not a valid name of"),
        ('{"artifacts": {"out": {"artifacts": [{"metadata": {"a\\u0000b": 1}}]}}}', "is not a valid name of"),
        ("[" * 100_000, "is not a valid JsonValue"),
        ('"' + "x" * (1 << 18) + '"', "more than 262144 bytes"),
    ],
)
def test_what_a_program_before_a_component_writes_may_be_wrong(tmp_path: Path, report: str, message: str) -> None:
    (tmp_path / "report").write_text(report)
    program = (
        "import json, pathlib, sys; place = pathlib.Path(json.loads(sys.argv[2])['outputs']['outputFile']);"
        f"place.write_bytes(pathlib.Path({str(tmp_path / 'report')!r}).read_bytes())"
    )
    with pytest.raises(PipelineFailed) as failed:
        run(tmp_path, driven(tmp_path, program))
    assert any(message in view.message for view in failed.value.result.steps.values())


@pytest.mark.parametrize(
    "report",
    [{"artifacts": {"out": {"artifacts": [{"metadata": {"x" * 300: 1}}]}}}, {"exec_properties": {"a\0b": 1}}],
)
def test_a_property_whose_name_the_records_do_not_take_is_a_failure_of_its_program(tmp_path: Path, report: Any) -> None:
    program = (
        "import json, pathlib, sys; place = pathlib.Path(json.loads(sys.argv[2])['outputs']['outputFile']);"
        f"place.parent.mkdir(parents=True, exist_ok=True); place.write_text({json.dumps(report)!r})"
    )
    document = driven(tmp_path, program)
    del document["deploymentSpec"]["executors"]["Gen_executor"]["container"]["lifecycle"]
    with pytest.raises(PipelineFailed) as failed:
        run(tmp_path, document)
    (view,) = failed.value.result.steps.values()
    assert (str(view.state), "is not a valid name of" in view.message) == ("failed", True)


ROOTS = ["/", "/etc", "..", "file:///root", "s3://bucket/x", "out"]


@pytest.mark.parametrize("root", ROOTS)
def test_the_root_of_a_job_from_a_stranger_is_one_that_the_user_has_to_allow(tmp_path: Path, root: str) -> None:
    here = tmp_path / "work"
    here.mkdir()
    (here / "out").symlink_to(tmp_path)
    graph = read(tmp_path, put("runtimeConfig", gcsOutputDirectory=root))
    assert foreign_root(graph, here) == root


DEEP = json.loads("[" * 200 + "]" * 200)
REFUSED: dict[str, tuple[Change, str]] = {
    "a job in a job": (
        lambda job: job.update(pipelineSpec=copy.deepcopy(job)),
        r"pipeline\.displayName: is not supported in pipelines here",
    ),
    "a setting": (
        put("runtimeConfig", failurePolicy="X"),
        r"runtimeConfig\.failurePolicy: is not supported in pipelines",
    ),
    "a field of a job": (
        put("", encryptionSpec={}),
        r"pipeline job\.encryptionSpec: is not supported in pipelines here",
    ),
    "a root of another kind": (
        put("runtimeConfig", gcsOutputDirectory="hdfs://x"),
        "gcsOutputDirectory hdfs://x: must be a directory, or a URL that begins with",
    ),
    "a root that is no text": (put("runtimeConfig", gcsOutputDirectory=1), "gcsOutputDirectory: 1 is no str"),
    "an unknown parameter": (
        put("runtimeConfig/parameterValues", x=1),
        "runtimeConfig: the pipeline has no parameter 'x'",
    ),
    "a value of another type": (
        put("runtimeConfig/parameterValues", train_args=[1]),
        r"runtimeConfig: 'train_args' must be STRING, but is \[1\]",
    ),
    "a deep value": (put("runtimeConfig/parameterValues", train_args=DEEP), "has more than 100 levels of nesting"),
    "a long integer": (
        put("runtimeConfig", parameters={"train_args": {"intValue": "9" * 100_000}}),
        "parameters\\.train_args\\.intValue: must be an integer, but is .*",
    ),
    "an integer of another kind": (
        put("runtimeConfig", parameters={"train_args": {"intValue": True}}),
        "intValue: must be an integer, but is True",
    ),
    "two values": (
        put("runtimeConfig", parameters={"train_args": {"intValue": "1", "stringValue": "a"}}),
        "must have only one value, but has",
    ),
    "another hook": (
        put(f"{EXECUTORS}/CsvExampleGen_executor/container/lifecycle", postStart={}),
        r"lifecycle\.postStart: is not supported in pipelines here",
    ),
    "a placeholder of a program before": (
        put(f"{EXECUTORS}/CsvExampleGen_executor/container/lifecycle/preCacheCheck", args=["{{$.pipeline_root}}"]),
        "is not a placeholder that is supported here",
    ),
    "a placeholder of an output before": (
        put(
            f"{EXECUTORS}/CsvExampleGen_executor/container/lifecycle/preCacheCheck",
            args=["{{$.outputs.artifacts['../x'].uri}}"],
        ),
        "is not a placeholder that is supported here",
    ),
    "several artifacts": (put(f"{EXECUTORS}/{QUERY}", limit=5), "limit: must be 1 here, but is 5"),
    "a filter without a type": (
        put(f"{EXECUTORS}/{QUERY}", filter="state=LIVE"),
        "must have a condition for schema_title",
    ),
    "no filter": (put(f"{EXECUTORS}/{QUERY}", filter=""), "is not supported here"),
    "another state": (
        put(f"{EXECUTORS}/{QUERY}", filter='schema_title="tfx.Model" AND state=PENDING'),
        "the condition state='PENDING' is not supported here",
    ),
    "another field": (
        put(f"{EXECUTORS}/{QUERY}", filter='schema_title="tfx.Model" AND uri="/etc"'),
        "the condition uri='/etc' is not supported here",
    ),
    "a program in a filter": (
        put(f"{EXECUTORS}/{QUERY}", filter='schema_title="tfx.Model" OR 1=1; DROP TABLE artifact'),
        "' 1=1; DROP|'OR 1=1|is not supported here",
    ),
    "a filter that ends early": (
        put(f"{EXECUTORS}/{QUERY}", filter='schema_title="tfx.Model" AND '),
        "is not supported here",
    ),
    "a long filter": (
        put(f"{EXECUTORS}/{QUERY}", filter='schema_title="tfx.Model" AND ' + "x" * 100_000 + "=1"),
        "is not supported here",
    ),
    "a placeholder in a filter": (
        put(f"{EXECUTORS}/{QUERY}", filter='schema_title="{{$.pipeline_root}}"'),
        r"the placeholder '\{\{\$\.pipeline_root\}\}' is not supported here",
    ),
    "an input that a filter does not have": (
        put(f"{EXECUTORS}/{QUERY}", filter="schema_title=\"t\" AND name=\"{{$.inputs.artifacts['x'].metadata['y']}}\""),
        "there is no 'x'",
    ),
    "a condition on no input": (
        put(f"{TASKS}/Pusher", triggerPolicy={"condition": "inputs.artifacts['x'].artifacts[0].uri == 'a'"}),
        "there is no 'x'",
    ),
    "a condition on a program's attribute": (
        put(f"{TASKS}/Pusher", triggerPolicy={"condition": "inputs.artifacts['model'].artifacts[0].__class__ == 'a'"}),
        "can't be read: Attribute is not supported in it",
    ),
    "a condition on an artifact before the first": (
        put(f"{TASKS}/Pusher", triggerPolicy={"condition": "inputs.artifacts['model'].artifacts[-1].uri == 'a'"}),
        "can't be read",
    ),
    "two tasks with names that become one": (
        put(TASKS, **dict.fromkeys(("a.b", "a b"), TAXI[SPEC]["root"]["dag"]["tasks"]["StatisticsGen"])),
        "several steps are named a-b",
    ),
    "a type with a long name": (
        put(f"{EXECUTORS}/{QUERY}", filter=f'schema_title="{"x" * 300}"'),
        "is not a valid name of a type of artifacts",
    ),
    "another type with a long name": (
        put(
            f"{SPEC}/components/SchemaGen/outputDefinitions/artifacts/schema/artifactType",
            schemaTitle="x" * 300,
        ),
        "is not a valid name of a type of artifacts",
    ),
    "a name that leads out": (
        put(TASKS, **{"../../up": TAXI[SPEC]["root"]["dag"]["tasks"]["StatisticsGen"]}),
        "not a valid name for a component",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_job_from_a_stranger_must_not_or_can_not_do_is_refused_by_name(tmp_path: Path, what: str) -> None:
    change, message = REFUSED[what]
    with pytest.raises(ComponentError, match=message) as refused:
        read(tmp_path, change)
    assert str(refused.value).startswith(f"{tmp_path / 'pipeline.json'}:")
    assert len(str(refused.value)) < 1000


PATHS = [path for document in (TAXI, OLD) for path in paths(document)[1:]]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PATHS), ODD | st.just(...)), min_size=1, max_size=3), st.booleans())
def test_whatever_is_wrong_with_a_job_the_error_is_one_of_ours(
    tmp_path_factory: Any, changes: list[Any], old: bool
) -> None:
    def change(document: dict[str, Any]) -> None:
        for path, value in changes:
            with suppress(KeyError, IndexError, TypeError):
                place: Any = reduce(lambda node, key: node[key], path[:-1], document)
                if value is ...:
                    del place[path[-1]]
                else:
                    place[path[-1]] = copy.deepcopy(value)

    folder = tmp_path_factory.mktemp("job")
    with suppress(ComponentError):
        read_old(folder, change) if old else read(folder, change)


def test_a_value_of_a_job_is_no_placeholder_and_no_condition_of_a_filter(tmp_path: Path) -> None:
    placeholder = "{{$.inputs.parameters['data_root']}}"
    graph = read(tmp_path, put("runtimeConfig/parameterValues", train_args=placeholder))
    trainer = next(step for step in graph.steps if step.name == "Trainer")
    assert trainer.exec_properties["train_args"] == placeholder
    words = spec_of(graph, "Trainer").words({}, {}, {"train_args": placeholder, "tmp_path": "/t"})
    document = words[1][words[1].index("--json_serialized_invocation_args") + 1]
    assert json.loads(document)["inputs"]["parameterValues"]["train_args"] == placeholder


def test_a_pod_whose_report_is_its_termination_message_is_refused_for_the_program_of_tfx(tmp_path: Path) -> None:
    graph = read(tmp_path)
    on_pods = {"launchers": ON_KUBERNETES}
    with pytest.raises(
        ComponentError,
        match=r"step CsvExampleGen: TFX's program would read an empty file of results, .* set --tmp-path",
    ):
        runner(tmp_path, **on_pods).check(graph)
    context = LaunchContext(tmp_path=str(tmp_path / "tmp"))
    shown = runner(tmp_path, context=context, **on_pods).check(graph)
    assert "terminationMessagePath" not in "".join(shown.values())
    assert runner(tmp_path, launchers=AS_PROCESSES).check(graph).keys() == shown.keys()


BLESSED = "inputs.artifacts['_Evaluator.blessing'].artifacts[0].metadata['blessed']"


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (f"({BLESSED} == 1.0)", True),
        (f"!(({BLESSED} == 1.0))", False),
        (f"({BLESSED} < 2.0) && (inputs.artifacts['model'].artifacts[0].uri == '/model')", True),
        ("('/mod' + 'el' == inputs.artifacts['model'].artifacts[0].uri)", True),
        ("inputs.artifacts['_Trainer.model'].artifacts[0].metadata['hue'] == 'red'", True),
        ("inputs.artifacts['model'].artifacts[0].metadata['gone'] == 'red'", False),
    ],
)
def test_conditions_on_artifacts(tmp_path: Path, condition: str, holds: bool) -> None:
    graph = read(tmp_path, put(f"{TASKS}/Pusher", triggerPolicy={"condition": condition}))
    (value,) = next(step for step in graph.steps if step.name == "Pusher").when
    artifacts = {"model": Artifact("/model", {"hue": "red"}), "blessing": Artifact("/b", {"blessed": 1})}
    assert evaluate(value, lambda reference, content=True: artifacts[reference.args[1]]) is holds


def test_a_condition_on_an_artifact_that_the_input_does_not_have_can_not_be_computed(tmp_path: Path) -> None:
    condition = "inputs.artifacts['model'].artifacts[3].uri == 'a'"
    graph = read(tmp_path, put(f"{TASKS}/Pusher", triggerPolicy={"condition": condition}))
    (value,) = next(step for step in graph.steps if step.name == "Pusher").when
    with pytest.raises(ComponentError, match="there are only 1 artifacts"):
        evaluate(value, lambda reference, content=True: Artifact("/model"))
    assert evaluate(value, lambda reference, content=True: ()) is False


def test_an_importer_of_tfx_has_an_output_of_its_own_name(tmp_path: Path) -> None:
    kind = {"instanceSchema": "title: tfx.Examples\ntype: object\n"}
    importer = {"artifactUri": {"constantValue": {"stringValue": "/known"}}, "typeSchema": kind, "metadata": {"a": 1}}
    spec = {
        "components/Known": {
            "executorLabel": "Known",
            "outputDefinitions": {"artifacts": {"result": {"artifactType": kind}}},
        },
        "deploymentSpec/executors/Known": {"importer": importer},
        "root/dag/tasks/Known": {"componentRef": {"name": "Known"}},
    }
    from_known = {"taskOutputArtifact": {"producerTask": "Known", "outputArtifactKey": "result"}}
    graph = read(
        tmp_path,
        *[put(f"{SPEC}/{path.rpartition('/')[0]}", Known=value) for path, value in spec.items()],
        put(f"{TASKS}/StatisticsGen/inputs/artifacts", examples=from_known),
    )
    source = next(step for step in graph.steps if step.name == "StatisticsGen").inputs["examples"]
    assert source == FromOutside("tfx.Examples", (Artifact("", {"a": 1}),), "/known")
