from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tfoperator.controller import AllowedNames, SchedulingRules
from tfoperator.operator import OptionsError, parse_options
from tfoperator.operator.options.scheduling import parse_scheduling


def test_the_rules_are_read() -> None:
    rules = parse_scheduling(
        {"priorityClasses": {"default": ["*", "system-node-critical"], "namespaces": {"research": ["high"], "lab": []}}}
    )
    classes = AllowedNames(("*", "system-node-critical"), {"research": ("high",), "lab": ()})
    assert rules == SchedulingRules(priority_classes=classes)
    assert [classes.of(name) for name in ("research", "lab", "other")] == [("high",), (), classes.default]


def test_without_any_they_are_those_of_an_operator_without_a_file() -> None:
    assert parse_scheduling(None) == parse_scheduling({}) == parse_options([], {}).scheduling


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "scheduling must be an object, but is a list"),
        ({"queue": {"default": []}}, "scheduling.queue is unknown; there are priorityClasses, queues"),
        ({"queues": None}, "scheduling.queues must be an object"),
        ({"queues": ["a"]}, "scheduling.queues must be an object, but is a list"),
        ({"queues": {}}, "scheduling.queues.default is required"),
        ({"queues": {"default": None}}, "scheduling.queues.default must be a list, but is null"),
        ({"queues": {"default": "*"}}, "scheduling.queues.default must be a list, but is the string"),
        ({"queues": {"default": [""]}}, 'scheduling.queues.default[0] must be a name, or "*" for any, is ""'),
        ({"queues": {"default": ["a*"]}}, "scheduling.queues.default[0] must be a name"),
        ({"queues": {"default": [None]}}, "scheduling.queues.default[0] must be a name"),
        ({"queues": {"default": [1]}}, "scheduling.queues.default[0] must be a string"),
        ({"queues": {"default": [], "namespace": {}}}, "scheduling.queues.namespace is unknown"),
        ({"queues": {"default": [], "namespaces": None}}, "scheduling.queues.namespaces must be an object"),
        ({"queues": {"default": [], "namespaces": {"a": None}}}, "scheduling.queues.namespaces[a] must be a list"),
        ({"queues": {"default": [], "namespaces": {"A": []}}}, "namespaces[A] is no name of a namespace"),
        ({"queues": {"default": [], "namespaces": {3: []}}}, "namespaces[3] is no name of a namespace"),
    ],
)
def test_a_mistake_is_told_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_scheduling(value)
    assert message in str(caught.value)


def test_a_mistake_in_the_file_ends_the_start(tmp_path: Path) -> None:
    config = tmp_path / "operator.yaml"
    config.write_text("scheduling: {queues: {}}\n")
    with pytest.raises(OptionsError, match=r"scheduling is wrong: scheduling\.queues\.default is required"):
        parse_options([f"--config={config}"], {})
