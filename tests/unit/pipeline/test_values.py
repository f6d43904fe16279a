import json
from contextlib import nullcontext, suppress
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.pipeline.samples import home_of, runner, states
from tfoperator.launcher import ComponentError, ExecutorClassSpec, PermanentFailure, RetryPolicy
from tfoperator.pipeline import (
    BaseComponent,
    Channel,
    ChannelParameter,
    ExecutionParameter,
    ForEach,
    Pipeline,
    PipelineFailed,
    PipelineResult,
    make_spec_class,
)
from tfoperator.pipeline.dsl.pipeline import graph_of
from tfoperator.pipeline.dsl.standard_artifacts import Integer, JsonValue
from tfoperator.pipeline.values import OUTPUT, LeftOut, NotYet, Value, evaluate

BROKEN: set[Any] = set()


class Adding:
    """Writes the sum of two parameters; with `told` reports it in output.json instead."""

    def do(self, inputs: Any, outputs: Any, properties: Any) -> None:
        if properties["one"] in BROKEN:
            raise PermanentFailure(f"{properties['one']} is broken")
        total = properties["one"] + properties["other"]
        total += sum(int(Path(artifact.uri).read_text()) for artifact in inputs.get("more", ()))
        if properties.get("told"):
            document = {"outputs": {"total": {"properties": {"value": total}}}}
            Path(properties["tmp_path"], "output.json").write_text(json.dumps(document))
        else:
            Path(outputs["total"][0].uri).write_text(str(total))


class Add(BaseComponent):
    """The sum of two numbers, and of the files of a channel."""

    SPEC_CLASS = make_spec_class(
        inputs={"more": ChannelParameter(type=Integer, optional=True)},
        outputs={"total": ChannelParameter(type=Integer)},
        parameters={name: ExecutionParameter(type=int) for name in ("one", "other")}
        | {"told": ExecutionParameter(type=bool, optional=True)},
    )
    EXECUTOR_SPEC = ExecutorClassSpec(Adding)


class Listing:
    """Writes the numbers below one, or below each of several."""

    def do(self, inputs: Any, outputs: Any, properties: Any) -> None:
        given = properties["of"]
        items = list(range(given)) if isinstance(given, int) else [list(range(size)) for size in given]
        Path(outputs["items"][0].uri).write_text(json.dumps(items))


class List(BaseComponent):
    """The numbers."""

    SPEC_CLASS = make_spec_class(
        outputs={"items": ChannelParameter(type=JsonValue)}, parameters={"of": ExecutionParameter(type=object)}
    )
    EXECUTOR_SPEC = ExecutorClassSpec(Listing)


def add(name: str, one: Any = 0, other: Any = 0, **more: Any) -> Add:
    return Add(one=one, other=other, **more).with_id(name)


def values(folder: Path, result: PipelineResult) -> dict[str, Any]:
    """Return the output of each step of the run."""
    with home_of(folder).store() as store:
        executions = store.executions(result.run_id)
    return {
        name: execution.outputs["total"][0].properties["value"]
        for name, execution in executions.items()
        if "total" in execution.outputs
    }


def run(folder: Path, *components: BaseComponent, resume: str = "") -> tuple[dict[str, str], dict[str, Any]]:
    result = runner(folder).run(Pipeline("p", str(folder / "data"), components, enable_cache=True), resume=resume)
    return states(result), values(folder, result)


def test_a_value_is_a_parameter_of_the_next_step_whether_it_was_written_or_told(tmp_path: Path) -> None:
    first, second = add("first", 1, 2), add("second", 5, told=True)
    third = add("third", first.outputs.total.value, second.outputs.total.value)
    assert run(tmp_path, third, first, second)[1] == {"first": 3, "second": 5, "third": 8}
    assert set(run(tmp_path, third, first, second)[0].values()) == {"cached"}
    first.exec_properties["one"] = -1
    assert run(tmp_path, third, first, second)[0] == {"first": "succeeded", "second": "cached", "third": "succeeded"}


@pytest.mark.parametrize(
    ("component", "text", "problem"),
    [
        (Add, "many", "output total is not a valid Integer: 'many'"),
        (Add, "true", "'True' is bool"),
        (List, "[" * 200 + "]" * 200, "it has more than 100 levels of nesting"),
        (List, "[" * 99_999, "is not a valid JsonValue"),
    ],
)
def test_a_file_that_is_no_value_is_a_failure(tmp_path: Path, component: Any, text: str, problem: str) -> None:
    class Wrong:
        def do(self, inputs: Any, outputs: Any, properties: Any) -> None:
            (output,) = outputs.values()
            Path(output[0].uri).write_text(text)

    given = {name: 0 for name in component.SPEC_CLASS.PARAMETERS if name != "told"}
    wrong = component(**given, custom_executor_spec=ExecutorClassSpec(Wrong)).with_id("wrong")
    (output,) = wrong.outputs.values()
    with pytest.raises(PipelineFailed, match=problem) as failed:
        run(tmp_path, wrong, add("next", output.value))
    assert states(failed.value.result) == {"wrong": "failed", "next": "skipped"}
    with home_of(tmp_path).store() as store:
        assert store.executions(failed.value.result.run_id)["wrong"].state == "FAILED"


def test_a_file_that_a_step_only_names_is_not_read(tmp_path: Path) -> None:
    class Thief:
        def do(self, inputs: Any, outputs: Any, properties: Any) -> None:
            document = {"outputs": {"total": {"uri": str(tmp_path / "secret")}}}
            Path(properties["tmp_path"], "output.json").write_text(json.dumps(document))

    (tmp_path / "secret").write_text("4711")
    thief = add("thief", custom_executor_spec=ExecutorClassSpec(Thief))
    with pytest.raises(PipelineFailed, match="has written no value as its output total") as failed:
        run(tmp_path, thief, add("next", thief.outputs.total.value))
    assert "4711" not in str(failed.value)


@pytest.mark.parametrize(("number", "branch"), [(7, "large"), (1, "small")])
def test_a_step_is_left_out_with_its_readers_if_its_condition_fails(tmp_path: Path, number: int, branch: str) -> None:
    first = add("first", number)
    total = first.outputs.total.value
    large, small = add("large", total, 100).when(total > 5), add("small", total, 10).when(~(total > 5))
    chosen = add("chosen", more=Channel.first_of(large.outputs.total, small.outputs.total))
    behind = add("behind", large.outputs.total.value)
    step_states, numbers = run(tmp_path, first, large, small, chosen, behind)
    other = {"large": "small", "small": "large"}[branch]
    assert (step_states[branch], step_states[other], step_states["chosen"]) == ("succeeded", "left out", "succeeded")
    assert step_states["behind"] == step_states["large"]
    assert numbers["chosen"] == numbers[branch] == {"large": 107, "small": 11}[branch]


def test_a_loop_over_values_of_a_step_nests_and_what_is_outside_gets_all_of_it(tmp_path: Path) -> None:
    rows = List(of=3).with_id("rows")  # 0, 1, 2
    outer = ForEach(rows.outputs["items"].value)
    per_row = List(of=outer.item).with_id("per_row")
    inner = ForEach(per_row.outputs["items"].value)
    cell = add("cell", outer.item, inner.item)
    twice = add("twice", cell.outputs.total.value, cell.outputs.total.value).each(inner)
    odd = add("odd", twice.outputs.total.value).each(inner).when(cell.outputs.total.value > 1)
    total = add("total", more=odd.outputs.total)
    step_states, numbers = run(tmp_path, total, odd, twice, cell, per_row, rows)
    cells = {name: number for name, number in numbers.items() if name.startswith("cell")}
    assert cells == {"cell.1.0": 1, "cell.2.0": 2, "cell.2.1": 3}
    assert (step_states["odd.1.0"], numbers["odd.2.1"], numbers["total"]) == ("left out", 6, 10)
    assert set(run(tmp_path, total, odd, twice, cell, per_row, rows)[0].values()) == {"cached", "left out"}


def test_a_failed_iteration_is_resumed_and_others_are_not_run_again(tmp_path: Path) -> None:
    loop = ForEach([{"n": 1}, {"n": 2}], limit=1)
    added = add("one", loop.item["n"]).retry(RetryPolicy(attempts=2, initial=0.01, any_failure=True))
    total = add("total", more=added.outputs.total)
    BROKEN.add(2)
    with pytest.raises(PipelineFailed, match=r"one\.1: .*2 is broken") as failed:
        run(tmp_path, added, total)
    assert states(failed.value.result) == {"one.0": "succeeded", "one.1": "retryable", "total": "skipped"}
    BROKEN.clear()
    assert run(tmp_path, added, total, resume="latest")[1] == {"one.0": 1, "one.1": 2, "total": 3}
    with home_of(tmp_path).store() as store:
        assert store.runs()[0].steps == {"one.0": (), "one.1": (), "total": ("one.0", "one.1")}


@pytest.mark.parametrize(
    ("items", "problem"),
    [(Value("text", ("[3",)), "items must be a list"), (Value("get", ([1], 7)), "IndexError"), ([0] * 1001, "1000")],
)
def test_a_loop_without_a_list_of_items_fails_the_steps_in_it(tmp_path: Path, items: Any, problem: str) -> None:
    with pytest.raises(PipelineFailed, match=problem):
        run(tmp_path, add("one", ForEach(items).item))


def test_loops_that_make_too_many_steps_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfoperator.pipeline.graph.MAX_STEPS", 3)
    rows = List(of=3).with_id("rows")
    added = add("one", ForEach(rows.outputs["items"].value).item)
    with pytest.raises(PipelineFailed, match="more than 3 steps") as failed:
        run(tmp_path, rows, added, add("last", more=added.outputs.total))
    assert states(failed.value.result) == {"rows": "succeeded", "one": "failed", "last": "skipped"}


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["a", "a.0"], "step a.0: an iteration of step a can have the same name"),
        (["A", "a.7.5"], ""),
        (["a.1", "a.2", "a.x", "b.0"], ""),
        (["x" * 199], "have 256 characters"),
        (["x" * 198], ""),
    ],
)
def test_names_that_iterations_would_share_or_records_can_not_have_are_refused(names: list[str], problem: str) -> None:
    loop = ForEach([1])
    components = [add(name, loop.item if name in ("a", "A", "a.1", "a.2") else 0) for name in names]
    pipeline = Pipeline("p" * 56, "/data", components)
    with pytest.raises(ComponentError, match=problem) if problem else nullcontext():
        assert graph_of(pipeline).steps


def test_a_run_of_the_first_release_can_be_resumed() -> None:
    first = add("first", more=Channel("Integer", uri="/x"))
    assert graph_of(Pipeline("p", "/data", [first, add("second", more=first.outputs.total)])).fingerprint() == (
        "8b0a684c0f97c7e0a3fb749b1f212c275ed1a6ef5bdf6e22129d927336cafce7"
    )


def test_what_makes_no_sense_is_refused_when_the_pipeline_is_made(tmp_path: Path) -> None:
    first = add("first")
    with pytest.raises(TypeError, match="when"):
        assert first.outputs.total.value > 3
    with pytest.raises(ComponentError, match="has no value"):
        _ = Channel("Text", uri="/x").value
    with pytest.raises(ComponentError, match="not in the pipeline"):
        graph_of(Pipeline("p", "/data", [add("second", first.outputs.total.value)]))
    with pytest.raises(ComponentError, match="parts"):
        reduce(lambda value, _: Value("text", (value, value)), range(20), Value("int", (1,)))
    conditional = Pipeline("p", "/data", [first.when(Value("!", (False,)))])
    with pytest.raises(ComponentError, match="has a condition or a loop"):
        runner(tmp_path).run_step(conditional, "first", run_id="r", orchestrator="argo")


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Value]:
    """Operations with arguments that need not make sense."""
    unary = st.builds(
        lambda op, arg: Value(op, (arg,)), st.sampled_from(["!", "int", "double", "text", "first"]), inner
    )
    binary = st.builds(
        lambda op, *args: Value(op, args), st.sampled_from(["get", "text", "&&", "||", "==", "<", ">="]), inner, inner
    )
    return unary | binary | st.sampled_from([Value(OUTPUT, ("early", "x")), Value(OUTPUT, ("left", "x"))])


@given(st.recursive(st.integers() | st.text(max_size=3) | st.booleans() | st.lists(st.integers(), max_size=2), nested))
def test_an_expression_has_a_value_or_an_error_that_says_so(expression: Any) -> None:
    def lookup(value: Value) -> Any:
        raise {"early": NotYet, "left": LeftOut}[value.args[0]](value.args[0])

    with suppress(ComponentError, NotYet, LeftOut):
        evaluate(expression, lookup)
