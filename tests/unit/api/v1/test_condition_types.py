"""The table of conditions, and that everything follows from it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tfoperator.api.v1.condition_types import TROUBLES, Concern, ConditionTraits, ConditionType, Fate

ROOT = Path(__file__).resolve().parents[4]
TABLE = ROOT / "tfoperator/api/v1/condition_types.py"
STATIC = ROOT / "tfoperator/ui/static"
HELPER = ROOT / "tests/support/newcomer.py"


@pytest.mark.parametrize("kind", ConditionType)
def test_a_condition_has_a_meaning_and_sensible_traits(kind: ConditionType) -> None:
    traits = kind.traits
    assert re.fullmatch(r"(while|once) [^|\n]+[^.]", traits.meaning), "it completes: It is true ..."
    assert ConditionType(str(kind)) is kind
    if traits.at_end is not Fate.FALSE:
        assert traits.while_held in (Fate.STAYS, Fate.FALSE), "what outlives the end is not lost by a suspension"
    if traits.concern:
        assert traits.is_news, "a person should see it"
    for own in traits.own_reasons:
        assert re.fullmatch(r"[A-Z][A-Za-z]+", own.word), "it is one word"
        assert re.fullmatch(r"[A-Z][^|\n]+\.", own.meaning), "it is a statement"


def test_each_condition_is_set_by_a_rule_of_the_plan() -> None:
    room = "\n".join(path.read_text() for path in sorted((ROOT / "tfoperator/controller/plan").rglob("*.py")))
    unset = [kind.name for kind in ConditionType if f"ConditionType.{kind.name}" not in room]
    assert not unset, f"no rule in tfoperator/controller/plan sets {unset}"


def test_by_default_a_condition_is_ours_and_about_what_goes_on_and_concerns_nobody() -> None:
    traits = ConditionTraits(meaning="while it rains")
    assert (traits.is_peers, traits.concern, traits.at_end, traits.while_held) == (
        False,
        Concern.NONE,
        Fate.FALSE,
        Fate.FALSE,
    )


def test_the_most_alarming_trouble_stands_first() -> None:
    assert TROUBLES == (ConditionType.STALLED, ConditionType.DIVERGED, ConditionType.STRAGGLING)


def test_the_page_knows_the_place_and_the_colour_of_each_state_that_a_condition_makes() -> None:
    order = re.findall(r'"(\w+)"', re.findall(r"order: \[(.*?)\]", (STATIC / "jobs.js").read_text(), re.DOTALL)[0])
    bad = re.findall(r'"(\w+)"', re.findall(r"BAD = new Set\(\[(.*?)\]\)", (STATIC / "format.js").read_text())[0])
    states = [kind for kind in ConditionType if kind.traits.is_peers or kind in TROUBLES]
    assert not set(states) - set(order), "tfoperator/ui/static/jobs.js lacks them in its order of states"
    alarms = {state for state in states if state.traits.concern is Concern.ALARM}
    assert alarms == set(bad) & set(states), "tfoperator/ui/static/format.js has others in BAD, the states in red"


def test_a_newcomers_condition_of_one_row_is_right_everywhere() -> None:
    """Its row has a meaning and no other trait, and the rest of the program stays unchanged."""
    process = subprocess.run(
        [sys.executable, HELPER, TABLE], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
