import enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.pipeline.compiling.plans import graph, pods
from tfoperator.launcher import ComponentError
from tfoperator.pipeline.compiling.airflow import airflow_file
from tfoperator.pipeline.compiling.argo import argo_workflow
from tfoperator.pipeline.compiling.launch_plan import Claim, launch_plan, object_names, outside_of_claims, steps_digest

NAMES = st.tuples(st.sampled_from("ab1"), st.text("aB1-_.", max_size=30), st.sampled_from("bB2")).map("".join)


@given(st.lists(NAMES, unique=True, max_size=8), st.integers(20, 40))
def test_every_name_is_valid_bounded_and_its_own(names: list[str], longest: int) -> None:
    valid_names = object_names(names, longest)
    assert len(set(valid_names.values())) == len(names)
    for name in valid_names.values():
        assert len(name) <= longest
        assert name[0].isalpha()
        assert name.replace("-", "").isalnum()
        assert name.isascii()
    assert object_names(names, longest) == valid_names


def test_names_stay_what_they_are_where_that_is_possible_and_are_told_apart_where_they_would_be_the_same() -> None:
    valid_names = object_names(["Train.single", "Data", "1st"], 60)
    assert valid_names == {"Train.single": "Train-single", "Data": "Data", "1st": "step-1st"}
    first = object_names(["a.b", "a_b"], 60)
    assert len(set(first.values())) == 2
    second = object_names(["a.b", "a_b", first["a.b"]], 60)
    assert len(set(second.values())) == 3


class Colour(enum.StrEnum):
    RED = "red"


def test_parameters_are_those_that_a_text_can_give() -> None:
    given: dict[str, Any] = {
        "a": 1, "b": 0.5, "c": "x", "d": [1], "e": {"k": None}, "f": Colour.RED,
        "path": Path("/x"), "pair": (1, 2), "nan": float("nan"), "endless": float("inf"), "object": object(),
    }  # fmt: skip
    plan = launch_plan(graph({"A": []}), given, ["g"], pods())
    assert plan.parameters == {"a": 1, "b": 0.5, "c": "x", "d": [1], "e": {"k": None}, "f": "red", "g": None}
    assert plan.others == ("path", "pair", "nan", "endless", "object")


def test_another_order_is_another_digest() -> None:
    orders: list[Any] = [{"A": [], "B": []}, {"A": [], "B": ["A"]}, {"A": []}, {"B": (), "A": ()}]
    digests = [steps_digest(steps) for steps in orders]
    assert digests[0] == digests[3]
    assert len(set(digests)) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"image": "{{workflow.uid}}"}, "--image: .* contains '{{', which Argo and Airflow would replace"),
        ({"image": " "}, "--image: the image of the launchers' pods is missing"),
        ({"file": "/p/{%x%}.py"}, "--pipeline-file"),
        ({"file": "p.py"}, "must be an absolute path"),
        ({"home": "/data/{{=1}}"}, "--home"),
        ({"home": "/data\n- x"}, "control character"),
        ({"claims": (Claim("Data", "/data"),)}, "--claim: 'Data' is not a valid name of an object"),
        ({"claims": (Claim("data", "data"),)}, "--claim: 'data' must be an absolute path"),
        ({"claims": (Claim("data", "/{{x}}"),)}, "--claim"),
        ({"secrets": ("Db",)}, "--secret: 'Db' is not a valid name of an object"),
        ({"service_account": "a" * 64}, "--service-account"),
        ({"options": ("--tmp-path={{x}}",)}, "--tmp-path"),
    ],
)
def test_what_an_orchestrator_would_expand_or_the_api_refuses_is_an_error(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ComponentError, match=words):
        pods(**options)


@pytest.mark.parametrize(
    ("home", "words"),
    [
        ("postgresql://db/records", "must end in [?]folder="),
        ("postgresql://db/records?folder=logs", "an absolute path"),
        ("postgresql://me:hidden@db/records?folder=/logs", "must not have a password, because"),
        ("s3://bucket/records", "give a directory, or postgresql"),
    ],
)
def test_records_are_where_launchers_of_any_node_find_them(home: str, words: str) -> None:
    with pytest.raises(ComponentError, match=words) as caught:
        launch_plan(graph({"A": []}), {}, [], pods(home=home))
    assert "hidden" not in str(caught.value)


def test_launchers_get_credentials_from_secrets_and_need_no_volume() -> None:
    home = "postgresql://db/records?folder=s3://bucket/logs"
    plan = launch_plan(graph({"A": []}), {}, [], pods(home=home, claims=(), secrets=("db", "bucket")))
    step, last = argo_workflow(plan)["spec"]["templates"][1:]
    expected = [{"secretRef": {"name": name}} for name in ("db", "bucket")]
    assert [template["container"]["envFrom"] for template in (step, last)] == [expected] * 2
    assert argo_workflow(plan)["spec"]["volumes"] == [{"name": "tmp", "emptyDir": {}}]
    assert f"--home={home}" in step["container"]["args"]
    assert "'envFrom': [{'secretRef': {'name': 'db'}}," in airflow_file(plan)


def test_outputs_outside_of_the_volumes_are_noticed_and_a_parameter_needs_a_name() -> None:
    claims = (Claim("data", "/data"), Claim("more", "/mnt/more"))
    roots = ("/data/root", "/database", "/mnt/more", "s3://bucket/root", "file:///data/x")
    assert [outside_of_claims(root, claims) for root in roots] == [False, True, False, False, False]
    with pytest.raises(ComponentError, match="pipeline_root root is a relative path"):
        launch_plan(graph({"A": []}, "root"), {}, [], pods())
    with pytest.raises(ComponentError, match="parameter 'größe'"):
        launch_plan(graph({"A": []}), {"größe": 1}, [], pods())


def test_a_dollar_is_kept_from_the_kubelet() -> None:
    plan = launch_plan(graph({"A": []}), {}, [], pods(file="/p/$(HOME).py", home="/data/$x"))
    words = plan.words("{{step}}", "{{run}}", "argo")
    assert words[:3] == ["step", "/p/$$(HOME).py", "{{step}}"]
    assert "--home=/data/$$x" in words
    assert plan.last_words("r") == ["finish", "r", "--home=/data/$$x"]
