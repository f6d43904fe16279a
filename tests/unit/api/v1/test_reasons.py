"""The table of reasons: each is used, and reasons are written only there."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from tests.unit.docs.test_messages import ROOT, texts
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.state import RUN_ENDS
from tfoperator.api.waiting import ReasonKind
from tfoperator.controller.execute.report import completion_events
from tfoperator.controller.kinds import NOUNS, OwnedKind
from tfoperator.controller.plan.values.actions import PlannedEvent

TABLES = ("tfoperator/api/v1/condition_types.py", "tfoperator/api/v1/reasons.py")
REPORTERS = ("api", "cli", "controller", "local/run", "operator", "report", "sdk")
"""The rooms that write or read reasons of TFJobs."""


def files() -> Iterator[Path]:
    for room in REPORTERS:
        yield from sorted((ROOT / "tfoperator" / room).rglob("*.py"))


@cache
def used() -> frozenset[str]:
    """The names of reasons that the rooms use."""
    names = set()
    for path in files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "JobReason":
                names.add(node.attr)
    return frozenset(names)


def made_of_a_verb() -> Iterator[str]:
    """The reasons that `controller/execute/report.py` makes of a verb and a kind of objects."""
    for verb in ("Create", "Delete"):
        for kind in ("pods", "services"):
            for event in completion_events(verb, {kind: ["a"]}):
                yield event.reason
        for kind in get_args(OwnedKind):
            if kind != "deployments":  # A TensorBoard's have reasons of their own.
                noun = NOUNS[kind]
                yield f"Failed{verb}{noun[0].upper()}{noun[1:]}"
    yield "FailedDeleteJob"
    for verb in ("Create", "Change", "Delete"):
        yield f"TensorBoard{verb}d"


def own_reasons() -> set[str]:
    """The reasons that the rows of conditions declare."""
    return {own.word for kind in ConditionType for own in kind.traits.own_reasons}


def test_a_word_is_the_reason_of_one_row() -> None:
    declared = [own.word for kind in ConditionType for own in kind.traits.own_reasons]
    assert len(declared) == len(own_reasons())
    assert not own_reasons() & set(JobReason)


@pytest.mark.parametrize("reason", JobReason)
def test_a_reason_has_a_meaning_and_stands_somewhere_and_is_used(reason: JobReason) -> None:
    assert re.fullmatch(r"[A-Z][^|\n]+\.", reason.traits.meaning), "it is a statement"
    assert reason.traits.event or reason.traits.conditions, "no event and no condition can have it"
    assert reason.name in used() | {JobReason(word).name for word in made_of_a_verb()}, "no room uses it"
    assert set(reason.traits.conditions) <= set(ConditionType)


def test_the_reasons_that_are_made_of_a_verb_have_rows() -> None:
    assert {JobReason(word).event_type for word in made_of_a_verb()} == {"Normal", "Warning"}


def test_no_reason_is_written_as_text() -> None:
    """Words that stand for something else, too, are looked for nowhere."""
    words = ({str(reason) for reason in JobReason} | own_reasons()) - set(ConditionType) - set(ReasonKind)
    written = {f"{path.relative_to(ROOT)}: {word}" for path in files() for word in words & set(texts(path))}
    outside = sorted(place for place in written if not place.startswith(TABLES))
    assert not outside, f"use the tables of {' and '.join(TABLES)}"


def test_an_event_has_the_type_of_its_reason_and_a_reason_of_conditions_makes_none() -> None:
    assert PlannedEvent.of(JobReason.FAILED, "m") == PlannedEvent("Warning", "TFJobFailed", "m")
    with pytest.raises(TypeError, match="TFJobPending is not a reason of events"):
        PlannedEvent.of(JobReason.PENDING, "m")


def test_the_ends_of_runs_are_reasons() -> None:
    assert set(RUN_ENDS) <= set(JobReason)
