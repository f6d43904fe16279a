from __future__ import annotations

import pytest

from tfoperator.controller.execute.report import completion_events
from tfoperator.controller.plan.invalid import problems_text


@pytest.mark.parametrize(
    ("pods", "services", "reason", "message"),
    [
        (["a"], [], "SuccessfulCreatePod", "Created pod: a"),
        (["a"], ["a"], "SuccessfulCreatePod", "Created pod: a and 1 service"),
        (["a", "b"], ["a", "b"], "SuccessfulCreatePod", "Created 2 pods: a, b and 2 services"),
        ([], ["a", "b"], "SuccessfulCreateService", "Created 2 services: a, b"),
        (list("abcdefg"), [], "SuccessfulCreatePod", "Created 7 pods: a, b, c, d, e and 2 more"),
    ],
)
def test_one_event_tells_all_that_was_created(pods: list[str], services: list[str], reason: str, message: str) -> None:
    (event,) = completion_events("Create", {"pods": pods, "services": services})
    assert (event.type, event.reason, event.message) == ("Normal", reason, message)


def test_nothing_done_is_no_event() -> None:
    assert completion_events("Create", {}) == completion_events("Delete", {}) == ()


def test_problems_fit_on_one_line_of_a_condition() -> None:
    assert problems_text(["a: b\n  c", "d: e"]) == "a: b c; d: e"
    assert len(problems_text(["x" * 700, "y" * 700])) == 1000
