import ast

import pytest

from tests.unit.pipeline.compiling.plans import graph, plan, pods
from tfoperator.launcher import ComponentError
from tfoperator.pipeline.compiling.airflow import airflow_file
from tfoperator.pipeline.compiling.launch_plan import launch_plan


def literal(text: str, name: str) -> object:
    """Return the value of a name in the file."""
    for statement in ast.parse(text).body:
        if (
            isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and statement.targets[0].id == name
        ):
            return ast.literal_eval(statement.value)
    raise AssertionError(name)


def test_the_file_is_python_whatever_the_values_are() -> None:
    evil = "'''\"\"\"\\ {0} {name} %s\n__import__('os') {{ params }}"
    text = airflow_file(plan(note=evil, on=True, some=[1], nothing=None))
    typed = {"note": (evil, "string"), "on": (True, "boolean"), "some": ([1], "array")}
    assert literal(text, "PARAMETERS") == {**typed, "nothing": (None, ["null", "string"])}
    assert literal(text, "STEPS") == {"A": [], "B.x": ["A"]}
    arguments = literal(text, "STEP_ARGUMENTS")
    assert isinstance(arguments, list)
    assert arguments[:3] == ["step", "/pipeline/words.py", "STEP"]


@pytest.mark.parametrize("name", ["config.json", "a.yaml", "STEP", "tfoperator-finish"])
def test_a_step_that_the_file_could_not_name_is_an_error(name: str) -> None:
    with pytest.raises(ComponentError, match=name):
        airflow_file(launch_plan(graph({name: []}), {}, [], pods()))
