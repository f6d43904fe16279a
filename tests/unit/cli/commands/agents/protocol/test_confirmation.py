"""The user confirms a change in the client: by the result of the call, or by a question while it is under way."""

from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from tests.support.agent import answer, refusal
from tests.support.jobs import submitted_manifest
from tests.support.served import ServedWorld
from tests.unit.cli.commands.agents.conftest import converse_here
from tfoperator.cli.commands.agents.protocol import confirmation, server
from tfoperator.cli.commands.agents.tools.scope import Scope
from tfoperator.cli.commands.agents.tools.tool_table import Tool

FORM = types.ElicitationCapability(form=types.FormElicitationCapability())
URL = types.ElicitationCapability(url=types.UrlElicitationCapability())


class User:
    """A person before a client, who answers each question in the same way."""

    def __init__(self, action: str) -> None:
        self._action = action
        self.read: list[str] = []

    async def __call__(self, _: Any, asked: types.ElicitRequestFormParams) -> types.ElicitResult | types.ErrorData:
        self.read.append(asked.message)
        if self._action == "nothing":
            await anyio.sleep_forever()
        if self._action == "error":
            return types.ErrorData(code=types.INTERNAL_ERROR, message="the window is closed")
        return types.ElicitResult.model_validate({"action": self._action})


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> str:
    """The versions of the protocol before 2026-07-28, and this version."""
    return str(request.param)


def test_a_user_who_accepts_makes_the_change_in_one_call(
    scope: Scope, tools: tuple[Tool, ...], world: ServedWorld, mode: str
) -> None:
    world.submit("mnist", Worker=2)
    user = User("accept")

    async def suspend(client: Client) -> dict[str, Any]:
        return await answer(client, "suspend", job="mnist")

    done = converse_here(scope, tools, suspend, mode=mode, elicitation_callback=user)
    assert done["made"]
    assert not done.get("token")
    assert world.sdk.get_job("mnist").spec.suspended
    effect = (
        f"The operator will delete the pods of TFJob {world.namespace}/mnist. The job will have no pods until it is "
        "resumed."
    )
    assert user.read == [f"Suspend a job?\n{effect}"]


@pytest.mark.parametrize(("action", "reply"), [("decline", "declined the change"), ("cancel", "closed the question")])
def test_a_user_who_does_not_accept_changes_nothing(
    scope: Scope, tools: tuple[Tool, ...], world: ServedWorld, mode: str, action: str, reply: str
) -> None:
    world.submit("mnist", Worker=2)

    async def delete(client: Client) -> str:
        return await refusal(client, "delete", job="mnist")

    message = converse_here(scope, tools, delete, mode=mode, elicitation_callback=User(action))
    assert f"the user has {reply}: the change was not made" in message
    assert world.sdk.get_job("mnist")


@pytest.mark.parametrize(
    ("action", "words"),
    [("nothing", "the user did not answer within 0 s: the change was not made"), ("error", "could not ask the user")],
)
def test_a_question_without_an_answer_ends_with_the_call(
    scope: Scope, tools: tuple[Tool, ...], world: ServedWorld, monkeypatch: pytest.MonkeyPatch, action: str, words: str
) -> None:
    world.submit("mnist", Worker=2)
    reads = server._Gate.ask

    async def ask(self: Any, context: Any, question: Any) -> types.ElicitResult:
        monkeypatch.setattr(server, "CALL_SECONDS", 0.2)
        return await reads(self, context, question)

    monkeypatch.setattr(server._Gate, "ask", ask)

    async def delete(client: Client) -> str:
        return await refusal(client, "delete", job="mnist")

    assert words in converse_here(scope, tools, delete, mode="legacy", elicitation_callback=User(action))
    assert world.sdk.get_job("mnist")


def test_a_client_that_cannot_ask_gets_the_token(
    scope: Scope, tools: tuple[Tool, ...], world: ServedWorld, mode: str
) -> None:
    world.submit("mnist", Worker=2)

    async def suspend(client: Client) -> None:
        shown = await answer(client, "suspend", job="mnist")
        assert not shown["made"]
        assert (await answer(client, "suspend", job="mnist", token=shown["token"]))["made"]

    converse_here(scope, tools, suspend, mode=mode)
    assert world.sdk.get_job("mnist").spec.suspended


def test_an_answer_is_for_the_question_that_was_asked(
    scope: Scope, tools: tuple[Tool, ...], world: ServedWorld
) -> None:
    world.submit("mnist", Worker=2)
    world.submit("other", Worker=2)
    accepted: dict[str, Any] = {confirmation.QUESTION: types.ElicitResult(action="accept")}

    async def attack(client: Client) -> None:
        async def call(job: str, state: str | None, answers: dict[str, Any] | None) -> Any:
            return await client.session.call_tool(
                "delete", {"job": job}, input_responses=answers, request_state=state, allow_input_required=True
            )

        asked = await call("mnist", None, None)
        assert isinstance(asked, types.InputRequiredResult)
        for job, state, answers in (
            ("other", asked.request_state, accepted),
            ("mnist", "1.1-made-up", accepted),
            ("mnist", asked.request_state, None),
            ("mnist", asked.request_state, {"other": types.ElicitResult(action="accept")}),
        ):
            refused = await call(job, state, answers)
            assert refused.is_error, (job, state, answers)
        assert isinstance(await call("mnist", None, accepted), types.InputRequiredResult), "there was no question"
        done = await call("mnist", asked.request_state, accepted)
        assert done.structured_content["made"]

    converse_here(scope, tools, attack, elicitation_callback=User("accept"))
    assert [job.metadata.name for job in world.sdk.list_jobs()] == ["other"]


@pytest.mark.parametrize(
    ("capabilities", "can"),
    [
        (None, False),
        (types.ClientCapabilities(), False),
        (types.ClientCapabilities(elicitation=types.ElicitationCapability()), True),
        (types.ClientCapabilities(elicitation=FORM), True),
        (types.ClientCapabilities(elicitation=URL), False),
    ],
)
def test_only_a_client_with_forms_can_ask(capabilities: types.ClientCapabilities | None, can: bool) -> None:
    assert confirmation.can_confirm(capabilities) is can


def test_a_question_says_that_it_has_only_a_part_of_a_long_effect() -> None:
    lines = [f"TFJob default/job-{number} will be created." for number in range(20)]
    whole = confirmation.question("Submit TFJobs", {"effect": lines}).message
    assert whole == "\n".join(("Submit TFJobs?", *lines))
    long = confirmation.question("Submit TFJobs", {"effect": lines * 10})
    cut = confirmation.question("Submit TFJobs", {"effect": lines[:1], "leftOut": ["effect: the first 1 of 20"]})
    for asked in (long, cut):
        assert asked.message.splitlines()[1].startswith("The effect is too long for this question.")


def test_an_agent_can_not_hide_a_part_of_an_effect_by_a_small_answer(
    scope: Scope, tools: tuple[Tool, ...], world: ServedWorld
) -> None:
    text = "---\n".join(submitted_manifest(f"job-{number}", Worker=1) for number in range(20))
    scope.files["jobs.yaml"] = Path("jobs.yaml").absolute()
    scope.files["jobs.yaml"].write_text(text)
    user = User("decline")

    async def submit(client: Client) -> str:
        return await refusal(client, "submit", file="jobs.yaml", maxCharacters=1000)

    converse_here(scope, tools, submit, mode="legacy", elicitation_callback=user)
    assert "job-19" not in user.read[0]
    assert user.read[0].splitlines()[1].startswith("The effect is too long for this question.")
