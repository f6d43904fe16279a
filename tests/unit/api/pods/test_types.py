from typing import Any

import pytest

from tfoperator.api.pods.types import TEMPLATE, fill_nulls, pod_types, unknown_fields, wrong_types


def in_container(**members: Any) -> dict[str, Any]:
    return {"spec": {"containers": [members]}}


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"command": "python train.py"}, 'command: must be a list, but is the string "python train.py"'),
        ({"args": [1]}, "args[0]: must be a string, but is the number 1"),
        ({"env": {"A": "1"}}, "env: must be a list, but is an object"),
        ({"tty": 1}, "tty: must be true or false, but is the number 1"),
        ({"ports": [{"containerPort": True}]}, "ports[0].containerPort: must be a whole number, but is true"),
        ({"ports": [{"containerPort": 2**31}]}, "ports[0].containerPort: must be a whole number, but is the number"),
        ({"resources": {"limits": {"cpu": []}}}, "resources.limits[cpu]: must be a quantity such as"),
        ({"resources": {"limits": ["cpu"]}}, "resources.limits: must be an object, but is a list"),
        (
            {"livenessProbe": {"httpGet": {"port": 1.5}}},
            "livenessProbe.httpGet.port: must be a whole number or a string",
        ),
    ],
)
def test_a_wrong_type_is_found_at_every_depth(members: dict[str, Any], problem: str) -> None:
    (error,) = wrong_types(in_container(**members), TEMPLATE, "t")
    assert str(error).startswith(f"t.spec.containers[0].{problem}")


def test_nulls_are_absent_and_quantities_may_be_numbers() -> None:
    good = in_container(args=None, resources={"limits": {"cpu": 0.5, "memory": 1, "a/b": "-1e3"}, "requests": None})
    assert list(wrong_types(good, TEMPLATE, "t")) == []
    assert list(wrong_types(None, TEMPLATE, "t")) == []


def test_unknown_fields_are_found_at_every_depth() -> None:
    template = in_container(resouces={}, env=[{"name": "A", "valu": "1"}])
    template["metdata"] = {}
    expected = ["metdata", "spec.containers[0].resouces", "spec.containers[0].env[0].valu"]
    assert [
        f"{field.path}.{field.name}".removeprefix(".") for field in unknown_fields(template, TEMPLATE, "")
    ] == expected


def test_null_items_become_the_zero_values_of_go() -> None:
    template = in_container(args=[None], ports=[None], resources={"limits": {"cpu": None}}, workingDir=None)
    fill_nulls(template, TEMPLATE)
    assert template == in_container(args=[""], ports=[{}], resources={"limits": {"cpu": "0"}}, workingDir=None)


def test_every_type_that_a_field_has_is_there() -> None:
    kinds = pod_types().keys() | {"string", "boolean", "int32", "int64", "quantity", "int-or-string", "time", "object"}
    for name, of in pod_types().items():
        for field, kind in of.fields.items():
            assert kind.removeprefix("[]").removeprefix("{}").removeprefix("[]") in kinds, (name, field)
        assert set(of.required) <= of.fields.keys()
