from typing import Any

import pytest

from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.resource_types import EVENTS, NODES, PODS, ResourceType
from tfoperator.local.apiserver.storage.selectors import parse_selector


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ("a notin (b,c)", {"a": "c"}, False),
        ("a in (b, c)", {"a": "c"}, True),
        ("a in (,x)", {"a": ""}, True),
        ("x.y/a-b_c", {"x.y/a-b_c": "1"}, True),
        ("a>5", {"a": "five"}, False),
        ("a<5", {}, False),
        ("in=1", {"in": "1"}, True),
        ("a,!b,c=d", {"a": "", "c": "d"}, True),
    ],
)
def test_label_requirements(selector: str, labels: dict[str, str], expected: bool) -> None:
    assert parse_selector(PODS, selector, "").matches({"metadata": {"labels": labels}}) is expected


@pytest.mark.parametrize("selector", [",", "a,,b", "a in", "a=b c", "(a)", "a=(b)", "!!a", "a>b"])
def test_what_can_not_be_read_is_a_bad_request_that_quotes_it(selector: str) -> None:
    with pytest.raises(StatusError) as caught:
        parse_selector(PODS, selector, "")
    assert caught.value.code == 400
    assert selector in caught.value.message


@pytest.mark.parametrize(
    ("kind", "selector", "fields", "expected"),
    [
        (NODES, "spec.unschedulable=false", {"spec": {}}, True),  # a flag is compared as a word
        (NODES, "spec.unschedulable=false", {"spec": {"unschedulable": True}}, False),
        (EVENTS, "source=me", {"source": {"component": "me"}}, True),
    ],
)
def test_fields_of_other_forms(kind: ResourceType, selector: str, fields: dict[str, Any], expected: bool) -> None:
    assert parse_selector(kind, "", selector).matches({"metadata": {}, **fields}) is expected


@pytest.mark.parametrize("selector", ["spec.hostname=x", "metadata.name", "metadata.labels.a=b"])
def test_fields_that_are_not_indexed_are_refused(selector: str) -> None:
    with pytest.raises(StatusError, match="field"):
        parse_selector(PODS, "", selector)
