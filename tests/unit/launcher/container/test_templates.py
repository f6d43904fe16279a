import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.launcher import Artifact, ExecutorContainerSpec, TemplateError
from tfoperator.launcher.container.templates import Bindings, render_container, rendered_value
from tfoperator.local.node.expansion import expand

BINDINGS = Bindings(
    inputs={"raw_input": [Artifact("/in/a")], "many": [Artifact("/in/1"), Artifact("/in/2")], "none": []},
    outputs={"examples": [Artifact("gs://out")]},
    exec_properties={
        "columns": 20,
        "name": "x y",
        "flag": False,
        "list": [1, "a"],
        "unset": None,
        "tmp_path": "/tmp/t",
    },
)


def render(*args: str, image: str = "i:1", command: tuple[str, ...] = ()) -> ExecutorContainerSpec:
    return render_container("step", ExecutorContainerSpec(image, command, args), BINDINGS)


def problems(*args: str, **more: Any) -> tuple[str, ...]:
    with pytest.raises(TemplateError) as caught:
        render(*args, **more)
    return caught.value.problems


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("{{ inputs.raw_input.uri }}", "/in/a"),
        ("{{inputs.raw_input.uri}}", "/in/a"),
        ("--in={{ inputs.raw_input.uri }}/x", "--in=/in/a/x"),
        ("{{ inputs.many.uri }}", "/in/1,/in/2"),
        ("{{ outputs.examples.uri }}", "gs://out"),
        ("{{ exec_props.columns }}{{ exec_properties.columns }}", "2020"),
        ("{{ exec_properties.name }}", "x y"),
        ("{{ exec_properties.flag }}", "false"),
        ("{{ exec_properties.list }}", '[1,"a"]'),
        ("{{ exec_properties.tmp_path }}/output.json", "/tmp/t/output.json"),
        ('{"a": {"b": 1}} $(VAR) {x} }}', '{"a": {"b": 1}} $(VAR) {x} }}'),
        ("", ""),
    ],
)
def test_the_three_forms_are_replaced_and_everything_else_stays(text: str, rendered: str) -> None:
    assert render(text).args == (rendered,)


dollars = st.text(alphabet="$()AB{ ", max_size=8)


@given(st.lists(dollars, min_size=1, max_size=4), st.lists(dollars, min_size=3, max_size=3))
def test_kubernetes_expands_what_the_author_wrote_and_no_value(literals: list[str], values: list[str]) -> None:
    literals = [literal.replace("{", "") for literal in literals]
    variables = {"A": "1", "AB": "2", "": "3"}
    text, expected = literals[0], expand(literals[0], variables)
    for position, literal in enumerate(literals[1:]):
        text += f"{{{{ exec_props.v{position} }}}}{literal}"
        expected += values[position] + expand(literal, variables)
    bindings = Bindings(exec_properties={f"v{position}": value for position, value in enumerate(values)})
    spec = ExecutorContainerSpec("i:1", (text,), (text,))
    for_kubernetes = render_container("step", spec, bindings, for_kubernetes=True)
    assert expand(for_kubernetes.args[0], variables) == expand(for_kubernetes.command[0], variables) == expected
    if "$" not in "".join(literals + values):
        assert for_kubernetes == render_container("step", spec, bindings)


def test_image_and_command_have_placeholders_too() -> None:
    whole = render(image="repo/{{ exec_props.columns }}:1", command=("sh", "{{ inputs.raw_input.uri }}"))
    assert (whole.image, tuple(whole.command)) == ("repo/20:1", ("sh", "/in/a"))


@pytest.mark.parametrize(
    "text",
    [
        "{{ inputs.raw_input }}",
        "{{ inputs.raw_input.name }}",
        "{{ inputs.raw_input.uri.__class__ }}",
        "{{ inputs['raw_input'].uri }}",
        "{{ exec_props.name.upper() }}",
        "{{ exec_props.columns + 1 }}",
        "{{ 7 * 7 }}",
        "{{ self }}",
        "{{ }}",
        "{{{ exec_props.columns }}}",
        "{{ exec_props.columns }",
        "{{",
        "{{ exec_props.\ncolumns }}",
        "{{ import os }}",
    ],
)
def test_nothing_else_is_a_placeholder(text: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith("args[0]: ")
    assert "is not a placeholder" in problem


def test_every_name_that_is_not_there_is_told_at_once_with_those_that_are() -> None:
    texts = problems(
        "{{ inputs.nope.uri }}",
        "{{ outputs.raw_input.uri }}",
        "{{ exec_props.nope }} {{ exec_props.unset }}",
        "{{ inputs.none.uri }}",
        image="{{ exec_props.nope }}",
    )
    assert len(texts) == 6
    assert any("args[0]" in p and "no input 'nope'; there are many, none, raw_input" in p for p in texts)
    assert any("args[1]" in p and "no output 'raw_input'; there are examples" in p for p in texts)
    assert any("args[2]" in p and "'unset' has no value" in p for p in texts)
    assert any("args[3]" in p and "has no artifact" in p for p in texts)
    assert any(p.startswith("image:") for p in texts)


@pytest.mark.parametrize(("value", "words"), [(" ", "image: must not be empty"), (object(), "must be JSON")])
def test_an_image_of_a_value_that_is_nothing_or_no_json_is_a_problem(value: object, words: str) -> None:
    with pytest.raises(TemplateError, match=words):
        render_container("step", ExecutorContainerSpec("{{ exec_props.x }}"), Bindings(exec_properties={"x": value}))


@given(st.text())
def test_a_value_is_never_looked_at_again(value: str) -> None:
    bindings = Bindings(exec_properties={"x": value + "{{ exec_props.x }}"})
    spec = ExecutorContainerSpec("i", args=["{{ exec_props.x }}"])
    assert render_container("step", spec, bindings).args == (value + "{{ exec_props.x }}",)


PIECES = st.sampled_from(
    ["{{", "}}", "{", "}", " ", "inputs", "exec_props", ".", "uri", "raw_input", "columns", "__class__", "(", ")", "%",
     "{{ exec_props.columns }}", "{{ inputs.raw_input.uri }}", "a", "\n"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join))
def test_whatever_is_rendered_was_one_of_the_forms(text: str) -> None:
    try:
        (rendered,) = render(text).args
    except TemplateError:
        return
    expected = text.replace("{{ exec_props.columns }}", "20").replace("{{ inputs.raw_input.uri }}", "/in/a")
    for form in ("{{exec_props.columns}}", "{{inputs.raw_input.uri}}", "{{ exec_props.columns}}"):
        expected = expected.replace(form, "20" if "columns" in form else "/in/a")
    if "{{" not in text:
        assert rendered == text
    elif "{{" not in expected:
        assert rendered == expected


@given(st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text() | st.lists(st.integers(0, 9)))
def test_a_value_is_told_as_it_is_or_as_json(value: Any) -> None:
    expected = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    assert rendered_value(value) == expected
