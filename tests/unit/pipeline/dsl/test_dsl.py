from typing import Any

import pytest

from tests.unit.pipeline.samples import Add, Adder, add
from tfoperator.launcher import Artifact, ComponentError, ExecutorClassSpec
from tfoperator.pipeline import (
    BaseComponent,
    Channel,
    ChannelParameter,
    ExecutionParameter,
    Pipeline,
    make_spec_class,
    standard_artifacts,
)
from tfoperator.pipeline.dsl.pipeline import graph_of
from tfoperator.pipeline.graph import FromOutside, ready
from tfoperator.pipeline.values import OUTPUT, Value


def graph(*components: BaseComponent, root: str = "/data", name: str = "p") -> Any:
    return graph_of(Pipeline(name, root, components))


def test_the_order_follows_from_the_channels() -> None:
    first = add("z")
    second = add("a", left=first.outputs["total"])
    third = add("m", left=second.outputs.total, right=Channel("Number", uri="/n"))
    made = graph(third, second, first)
    assert [step.name for step in made.steps] == ["z", "a", "m"]
    left, right = Value(OUTPUT, ("a", "total")), FromOutside("Number", (Artifact("/n"),))
    assert made.steps[-1].inputs == {"left": left, "right": right}
    after = {step.name: step.after for step in made.steps}
    assert [step.name for step in ready(made.steps, after, [])] == ["z"]
    assert [step.name for step in ready(made.steps, after, ["z"])] == ["a"]
    assert [step.name for step in ready(made.steps, after, ["z", "a"])] == ["m"]


def test_outputs_go_below_the_root_by_component_output_and_run() -> None:
    made = graph(add("one"), root="gs://bucket/root/")
    component = made.component(made.steps[0], "run-1")
    assert component.outputs == {"total": (Artifact("gs://bucket/root/one/total/run-1"),)}


def circle() -> list[BaseComponent]:
    first, other = add("one"), add("other")
    first.spec.inputs["left"] = other.outputs.total
    other.spec.inputs["left"] = first.outputs.total
    return [first, other]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: graph(add("a"), add("a")), "several steps are named a "),
        (lambda: graph(add("step"), add("other"), add("Step")), "several steps are named Step, step .*instance_name"),
        (lambda: graph(), "no components"),
        (lambda: graph(add("a"), root=""), "pipeline_root"),
        (lambda: graph(add("a"), name="../up"), "'../up' is not a valid name"),
        (lambda: graph(add("../up")), "'../up' is not a valid name"),
        (lambda: graph(add("default")), "default"),
        (lambda: graph(add("b", left=add("a").outputs.total)), "reads an output of a, which is not in the pipeline"),
        (lambda: graph(add("a", left=Channel("Number"))), "give its channel a uri"),
        (lambda: graph(*circle()), "wait for each other: (one <- other <- one|other <- one <- other)"),
        (lambda: Add(name="x"), "parameter 'number' is missing"),
        (lambda: Add(name="x", number="1"), "'number' must be int, but is '1'"),
        (lambda: Add(name="x", number=True), "'number' must be int, but is True"),
        (lambda: Add(name="x", number=1, size=2), "no argument 'size'"),
        (lambda: Add(name="x", number=1, left="/path"), "left must be a Channel"),
        (lambda: type("Nothing", (BaseComponent,), {})(), "must have an EXECUTOR_SPEC"),
        (lambda: make_spec_class(inputs={"a": ChannelParameter(type="X")},
                                 parameters={"a": ExecutionParameter(type=int)}), "outputs and parameters must differ"),
        (lambda: make_spec_class(outputs={"../a": ChannelParameter(type="X")}), "Python argument"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_an_error_that_says_so(make: Any, words: str) -> None:
    with pytest.raises(ComponentError, match=words):
        make()


def test_a_channel_between_components_has_one_type() -> None:
    class Model(BaseComponent):
        SPEC_CLASS = make_spec_class(outputs={"model": ChannelParameter(type=standard_artifacts.Model)})
        EXECUTOR_SPEC = ExecutorClassSpec(Adder)

    with pytest.raises(ComponentError, match=r"left takes Number, but Model\.model is Model"):
        add("a", left=Model().outputs.model)
    with pytest.raises(TypeError, match="TYPE_NAME"):
        Channel(int)  # type: ignore[arg-type]


def test_a_component_and_a_type_are_called_by_their_class_or_as_one_likes() -> None:
    class Votes(standard_artifacts.ArtifactType): ...

    class Named(standard_artifacts.ArtifactType):
        TYPE_NAME = "Other"

    class BigModel(standard_artifacts.Model): ...

    kinds = (Votes, Named, BigModel, standard_artifacts.PushedModel)
    assert [kind.TYPE_NAME for kind in kinds] == ["Votes", "Other", "Model", "PushedModel"]
    assert (Add(name="x", number=1).name, Add(name="x", number=1, instance_name="two").id) == ("Add", "Add.two")
    assert add("three").outputs.total.producer is not None
    with pytest.raises(AttributeError, match="the outputs are: total"):
        _ = add("a").outputs.nothing


def test_optional_arguments_may_be_left_out_and_floats_may_be_whole() -> None:
    rate, note = ExecutionParameter(type=float), ExecutionParameter(type=str, optional=True)
    assert make_spec_class(parameters={"rate": rate, "note": note})(rate=1).exec_properties == {"rate": 1}
    with pytest.raises(ComponentError, match="must be a value of JSON"):
        make_spec_class(parameters={"x": ExecutionParameter(type=list)})(x=[object()])
