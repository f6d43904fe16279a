"""A change is made only by the token of its effect: once, in time, for these arguments and this state."""

import pytest

from tests.support.clock import FakeClock
from tfoperator.cli.commands.agents.tools.effects import LIFETIME, ConfirmationRefused, Effects

ASKED = {"job": "mnist", "replicas": {"Worker": 3}}


@pytest.fixture
def effects(clock: FakeClock) -> Effects:
    return Effects(b"key", clock)


def test_a_token_is_for_one_change(effects: Effects) -> None:
    token = effects.token("scale", ASKED, "state")
    effects.redeem(token, "scale", ASKED, "state")
    with pytest.raises(ConfirmationRefused, match="already used: for another change"):
        effects.redeem(token, "scale", ASKED, "state")
    other = effects.token("scale", ASKED, "state")
    effects.redeem(other, "scale", ASKED, "state")


@pytest.mark.parametrize(
    ("tool", "asked", "state"),
    [
        ("delete", ASKED, "state"),
        ("scale", {**ASKED, "job": "other"}, "state"),
        ("scale", {**ASKED, "replicas": {"Worker": 300}}, "state"),
        ("scale", ASKED, "another state"),
    ],
)
def test_a_token_is_for_one_tool_its_arguments_and_the_state_that_was_shown(
    effects: Effects, tool: str, asked: dict[str, object], state: str
) -> None:
    token = effects.token("scale", ASKED, "state")
    with pytest.raises(ConfirmationRefused, match="other arguments or from another server, or the job has changed"):
        effects.redeem(token, tool, asked, state)
    effects.redeem(token, "scale", ASKED, "state")


def test_a_token_is_valid_for_some_minutes(effects: Effects, clock: FakeClock) -> None:
    token = effects.token("scale", ASKED, "state")
    clock.advance(LIFETIME)
    with pytest.raises(ConfirmationRefused, match="600 s"):
        effects.redeem(token, "scale", ASKED, "state")


@pytest.mark.parametrize("token", ["", "yes", "600.1-", "600.1-0123", "٦٠٠.١-x", "9" * 50 + ".1-x", "600.1"])
def test_a_token_cannot_be_guessed(effects: Effects, token: str) -> None:
    with pytest.raises(ConfirmationRefused):
        effects.redeem(token, "scale", ASKED, "state")


def test_a_token_of_another_server_is_refused(effects: Effects, clock: FakeClock) -> None:
    token = Effects(b"another key", clock).token("scale", ASKED, "state")
    with pytest.raises(ConfirmationRefused):
        effects.redeem(token, "scale", ASKED, "state")
