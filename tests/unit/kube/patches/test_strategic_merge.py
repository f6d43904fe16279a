import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.kube.patches.strategic_merge import StrategicMergeError, strategic_merge

VECTORS = [json.loads(line) for line in Path(__file__).with_name("strategic_vectors.jsonl").read_text().splitlines()]


def answer(vector: dict[str, Any]) -> Any:
    try:
        return strategic_merge(vector["base"], vector["patch"], vector["kind"])
    except StrategicMergeError:
        return "refused"


def test_every_answer_of_the_kubernetes_library_is_ours_too() -> None:
    wrong = [(number, v) for number, v in enumerate(VECTORS, 1) if answer(v) != v.get("result", "refused")]

    assert len(VECTORS) > 300
    assert wrong == []


def test_neither_argument_is_changed_nor_shared() -> None:
    for vector in VECTORS:
        base, patch = json.dumps(vector["base"]), json.dumps(vector["patch"])
        result = answer(vector)
        if isinstance(result, dict):
            _scribble(result)
        assert (json.dumps(vector["base"]), json.dumps(vector["patch"])) == (base, patch)


def _scribble(value: Any) -> None:
    for member in list(value.values()) if isinstance(value, dict) else list(value):
        if isinstance(member, dict | list):
            _scribble(member)
    if isinstance(value, dict):
        value["scribbled"] = True
    else:
        value.append("scribbled")


@given(st.sampled_from(VECTORS))
def test_nothing_to_change_changes_nothing(vector: dict[str, Any]) -> None:
    assert strategic_merge(vector["base"], {}, vector["kind"]) == vector["base"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["a", "replace", "delete"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "spec", "containers", "env", "volumes", "$patch", "$retainKeys", "args",
                             "$setElementOrder/containers", "$deleteFromPrimitiveList/args"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@given(base=st.dictionaries(st.just("spec"), JSON), patch=st.dictionaries(st.sampled_from(["spec", "$patch"]), JSON))
def test_whatever_is_given_is_merged_or_refused(base: dict[str, Any], patch: dict[str, Any]) -> None:
    assert isinstance(answer({"base": base, "patch": patch, "kind": "Pod"}), dict | str)


def pod(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"containers": list(containers)}}


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"$patch": "explode"}, "the patch: .*explode"),
        (pod({"image": "no name"}), r"spec.containers: each item must have 'name'"),
        (pod({"name": "a", "env": [{"value": "1"}]}), r"spec.containers.env: each item must have 'name'"),
        ({"spec": {"containers": ["text"]}}, "spec.containers: .*one type"),
        (
            pod({"name": "a", "$retainKeys": ["name"], "image": "x"}),
            "spec.containers: \\$retainKeys must contain image",
        ),
    ],
)
def test_a_refusal_names_the_field(patch: dict[str, Any], words: str) -> None:
    with pytest.raises(StrategicMergeError, match=words):
        strategic_merge(pod({"name": "a", "env": [{"name": "E"}]}), patch, "Pod")
