import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.nested import nested
from tests.unit.api.samples import tfjob
from tfoperator.api.conversion import V1_ONLY
from tfoperator.servers.webhook.review import MalformedReview, Reviewed, answer

V1, V1ALPHA2 = "kubeflow.org/v1", "kubeflow.org/v1alpha2"


def review(*objects: Any, to: str = V1, **changes: Any) -> bytes:
    request = {"uid": "u-1", "desiredAPIVersion": to, "objects": list(objects)}
    whole = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    return json.dumps(whole | changes).encode()


def response(reviewed: Reviewed) -> dict[str, Any]:
    body = json.loads(reviewed.body)
    assert (body["apiVersion"], body["kind"]) == ("apiextensions.k8s.io/v1", "ConversionReview")
    assert body["response"]["uid"] == "u-1"
    return dict(body["response"])


def older(name: str = "mnist") -> dict[str, Any]:
    return tfjob({"Eval": {}}, name=name) | {"apiVersion": V1ALPHA2}


def test_objects_come_back_converted_in_their_order() -> None:
    reviewed = answer(review(older("a"), tfjob({"Worker": {}}, name="b"), older("c")))
    assert (reviewed.objects, reviewed.version, reviewed.failure) == (3, V1, "")
    reply = response(reviewed)
    assert reply["result"] == {"status": "Success"}
    assert [obj["metadata"]["name"] for obj in reply["convertedObjects"]] == ["a", "b", "c"]
    assert {obj["apiVersion"] for obj in reply["convertedObjects"]} == {V1}
    assert set(reply["convertedObjects"][0]["spec"]["tfReplicaSpecs"]) == {"Evaluator"}
    assert response(answer(review()))["convertedObjects"] == []


@pytest.mark.parametrize(
    ("obj", "to", "words"),
    [
        (tfjob({}) | {"apiVersion": "kubeflow.org/v2"}, V1, "kubeflow.org/v2 TFJob mnist can't be converted"),
        (tfjob({}), "kubeflow.org/v3", "kubeflow.org/v3 is not a version to which TFJobs can be converted"),
        (tfjob({}) | {"kind": "PyTorchJob"}, V1ALPHA2, "only TFJobs can be converted here"),
        ({"kind": "TFJob"}, V1, "None TFJob (unnamed) can't be converted"),
        ({"kind": "TFJob", "apiVersion": [1], "metadata": 3}, V1, "(unnamed) can't be converted"),
    ],
)
def test_what_cant_be_converted_fails_the_review_and_is_named(obj: dict[str, Any], to: str, words: str) -> None:
    reviewed = answer(review(tfjob({"Worker": {}}), obj, to=to))
    reply = response(reviewed)
    assert (reply["result"]["status"], reply["convertedObjects"]) == ("Failure", [])
    assert words in reply["result"]["message"] == reviewed.failure


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"no json", b"[]", b"{}", b'{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}'),
        review(3),
        review(None),
        review(apiVersion="apiextensions.k8s.io/v1beta1"),
        review(kind="AdmissionReview"),
        review(request={"uid": 3}),
        b'{"apiVersion": "\xff"}',
    ],
)
def test_what_is_no_review_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(MalformedReview):
        answer(body)


def deep(levels: int, name: str = "mnist") -> bytes:
    return f'"{name}", "x": {"[" * levels}{"]" * levels}'.encode()


@pytest.mark.parametrize("to", [V1, V1ALPHA2])
def test_an_object_of_a_hundred_levels_is_converted_on_any_python(to: str) -> None:
    other = older() if to == V1 else tfjob({"Worker": {}})
    reviewed = answer(review(other, to=to).replace(b'"mnist"', deep(100)))
    assert (reviewed.objects, reviewed.failure) == (1, "")
    assert b"[" * 100 + b"]" * 100 in reviewed.body


def test_an_object_that_is_nested_too_deeply_is_named_in_the_answer_and_what_is_no_review_said_to_be_none() -> None:
    body = review(older("fine"), older("abyss"), older()).replace(b'"abyss"', deep(100_000, "abyss"))
    reviewed = answer(body)
    words = "kubeflow.org/v1alpha2 TFJob abyss: nested too deeply to be converted"
    assert (reviewed.objects, reviewed.failure) == (0, words)
    reply = response(reviewed)
    assert (reply["result"], reply["convertedObjects"]) == ({"status": "Failure", "message": words}, [])
    twice = answer(body.replace(b'"mnist"', deep(100_000)))
    assert twice.failure == f"{words.partition(':')[0]} and 1 more: nested too deeply to be converted"
    for body in (nested(), b'{"request": ' + nested(100_000) + b"}", b'{"request": ' + nested(100_000)):
        with pytest.raises(MalformedReview, match=r"nested too deeply|ConversionReview"):
            answer(body)


@given(st.binary(max_size=200) | st.text(max_size=50).map(str.encode))
def test_no_bytes_raise_anything_else(body: bytes) -> None:
    with pytest.raises(MalformedReview):
        answer(body)


@pytest.mark.parametrize(
    ("preserved", "field"),
    [
        ({"runPolicy": {"backoffLimit": -7}}, "spec.runPolicy.backoffLimit"),
        ({"runPolicy": {"schedulingPolicy": 3}}, "spec.runPolicy.schedulingPolicy"),
        ({"runPolicy": {"schedulingPolicy": {"minResources": {"x\n" * 10_000: "a lot"}}}}, "minResources[x\\n"),
    ],
)
def test_what_v1_refuses_is_not_restored(preserved: Any, field: str) -> None:
    job = older()
    job["metadata"]["annotations"] = {V1_ONLY: json.dumps({"spec": preserved})}
    reviewed = answer(review(older("good"), job))
    reply = response(reviewed)
    assert (reply["result"]["status"], reply["convertedObjects"], reviewed.objects) == ("Failure", [], 0)
    message = reply["result"]["message"]
    assert "TFJob mnist: " in message
    assert f"metadata.annotations[{V1_ONLY}]: " in message
    assert field in message
    assert len(message) < 1000
    assert message.isprintable()
    # The other direction is for reading v1alpha2: whatever is stored is shown.
    assert response(answer(review(tfjob({}) | {"spec": preserved}, to=V1ALPHA2)))["result"]["status"] == "Success"


@pytest.mark.parametrize("objects", [(), (older(),)])
def test_a_version_that_nobody_serves_is_refused_and_not_repeated(objects: tuple[dict[str, Any], ...]) -> None:
    reviewed = answer(review(*objects, to="v" * (1 << 20)))
    assert reviewed.failure.startswith("vvvv")
    assert len(reviewed.failure) < 300


def test_what_strangers_write_is_cut_and_on_one_line() -> None:
    long = {"apiVersion": "a\n" * 100_000, "kind": "k" * 100_000, "metadata": {"name": "n" * 100_000}}
    for obj in (long, {**long, "kind": "TFJob"}):
        failure = answer(review(obj, to="kubeflow.org/v1")).failure
        assert len(failure) < 1000
        assert failure.isprintable()
    for wrong in ({"apiVersion": "x" * 100_000, "kind": "y" * 100_000, "request": None}, {"kind": "y" * 100_000}):
        with pytest.raises(MalformedReview) as caught:
            answer(review(**wrong))
        assert len(str(caught.value)) < 500
