from __future__ import annotations

import pytest

from tests.unit.controller.builders import NOW, after
from tfoperator.api.v1.types import ConditionType
from tfoperator.controller.plan.conditions import Conditions

C = ConditionType


def build(*steps: tuple[ConditionType, str]) -> Conditions:
    conditions = Conditions((), NOW)
    for kind, status in steps:
        conditions.set(kind, status, "R", "m")
    return conditions


@pytest.mark.parametrize(
    ("steps", "last"),
    [
        ([(C.CREATED, "True"), (C.RUNNING, "False")], "Created"),
        ([(C.CREATED, "True"), (C.RUNNING, "True"), (C.READY, "True")], "Running"),
        ([(C.CREATED, "True"), (C.SUSPENDED, "True"), (C.SUSPENDED, "False")], "Created"),
        ([(C.CREATED, "True"), (C.RUNNING, "True"), (C.RUNNING, "False"), (C.SUCCEEDED, "True")], "Succeeded"),
        ([(C.CREATED, "True"), (C.RUNNING, "True"), (C.READY, "True"), (C.RUNNING, "False")], "Created"),
        ([(C.READY, "False")], "Ready"),
    ],
)
def test_the_last_one_is_true_and_known_to_the_go_operator(steps: list[tuple[C, str]], last: str) -> None:
    assert build(*steps).result()[-1].type == last


def test_a_new_message_moves_the_update_time_only() -> None:
    later = Conditions(build((C.RUNNING, "True")).result(), after(60))
    assert later.set(C.RUNNING, "True", "R", "other")
    (running,) = later.result()
    assert (running.last_update_time, running.last_transition_time) == (after(60), NOW)
    assert later.became_true() == frozenset()
