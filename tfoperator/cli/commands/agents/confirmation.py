"""A change that the user confirms in the client, by the protocol's elicitation. No I/O.

An agent that gets a token can use it without the user. A client that can show a question asks the user itself: then
the agent gets no token, and can't make the change alone. The question goes to the client in two ways, by the version of
the protocol:

- Since 2026-07-28 the result of the call is the question. The client asks the user, and calls the tool again with the
  user's answer and the token, which the agent does not see.
- Before, the server sends the question while the call is under way.

Only a user who accepts confirms a change. If the user declines, closes the question or does not answer, nothing
changes.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
import msgspec
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tfoperator.cli.commands.agents.arguments import ToolArguments
from tfoperator.cli.commands.agents.bounded import DEFAULT_CHARACTERS

QUESTION = "confirm"
"""The key of the question and its answer."""

_NO_FIELDS = {"type": "object", "properties": {}}
"""The schema of the answer: to accept is to confirm."""


class NotConfirmed(Exception):
    """The user did not confirm a change; the message is for the agent."""


def can_confirm(capabilities: types.ClientCapabilities | None) -> bool:
    """Return whether the client can show a question with an answer in a form."""
    found = capabilities.elicitation if capabilities is not None else None
    # A client of an older version declares no kinds of questions: it has forms only.
    return found is not None and (found.form is not None or found.url is None)


def is_result(protocol_version: str) -> bool:
    """Return whether the question is the result of the call in this version of the protocol."""
    return protocol_version in MODERN_PROTOCOL_VERSIONS


def question(title: str, change: dict[str, Any]) -> types.ElicitRequestFormParams:
    """Return the question about a change, which was not made: its effect, as the agent reads it."""
    effect = "\n".join(change["effect"])[: DEFAULT_CHARACTERS // 2]
    return types.ElicitRequestFormParams(message=f"{title}?\n{effect}", requested_schema=_NO_FIELDS)


def as_result(asked: types.ElicitRequestFormParams, token: str) -> types.InputRequiredResult:
    """Return the result of a call that is a question."""
    return types.InputRequiredResult(input_requests={QUESTION: types.ElicitRequest(params=asked)}, request_state=token)


def confirmed(asked: ToolArguments, params: types.CallToolRequestParams) -> ToolArguments:
    """Return the arguments of a call, with the token if the client brings the answer of a user who accepts.

    Raises NotConfirmed for another answer.
    """
    if params.request_state is None:
        return asked
    answer = (params.input_responses or {}).get(QUESTION)
    check(answer)
    return with_token(asked, params.request_state)


def check(answer: object) -> None:
    """Raise NotConfirmed if this is not the answer of a user who accepts."""
    if not isinstance(answer, types.ElicitResult):
        raise NotConfirmed("the client brought no answer of the user: the change was not made")
    if answer.action != "accept":
        did = "declined the change" if answer.action == "decline" else "closed the question"
        raise NotConfirmed(f"the user has {did}: the change was not made. Ask the user what to do instead.")


def with_token(asked: ToolArguments, token: str) -> ToolArguments:
    """Return the arguments with the token of the effect that the user has seen."""
    return msgspec.structs.replace(asked, token=token)
