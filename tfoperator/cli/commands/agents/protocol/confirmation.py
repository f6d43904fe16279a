"""Makes the questions in which a user confirms a change, and checks the answers. No I/O: `server` sends the questions.

The Model Context Protocol calls such a question an elicitation.

The client is the program in which the agent runs. A change needs a token. If the client can't show questions, the agent
gets the token, and can make the change without the user. If the client can show questions, the agent gets no token, and
only the user can confirm the change. The version of the protocol determines how the server sends the question:

- In version 2026-07-28 and later, the result of the call is the question. The client asks the user, and calls the tool
  again with the user's answer and the token, which the agent does not see.
- In earlier versions, the server sends the question during the call.

Only the answer "accept" confirms the change. If the user declines, closes the question or does not answer, nothing
changes.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
import msgspec
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tfoperator.cli.commands.agents.messages.arguments import ToolArguments
from tfoperator.cli.commands.agents.messages.bounded import DEFAULT_CHARACTERS, LEFT_OUT

QUESTION = "confirm"
"""The key of the question in the result of a call, and of the answer in the next call."""

_NO_FIELDS = {"type": "object", "properties": {}}
"""The schema of the user's answer. The schema has no fields: the user only accepts or declines."""

_ONLY_A_PART = "The effect is too long for this question. Here is only its beginning. Accept only if you know the rest."


class NotConfirmed(Exception):
    """The user did not confirm a change; the message is for the agent."""


def can_confirm(capabilities: types.ClientCapabilities | None) -> bool:
    """Return whether the client can show a question to the user (elicitation in the form mode)."""
    elicitation = capabilities.elicitation if capabilities is not None else None
    # A client of an older version of the protocol declares neither `form` nor `url`: it supports forms only.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def is_result(protocol_version: str) -> bool:
    """Return whether, in this version of the protocol, the question is sent as the result of the tool call."""
    return protocol_version in MODERN_PROTOCOL_VERSIONS


def question(title: str, change: dict[str, Any]) -> types.ElicitRequestFormParams:
    """Return the question whether to make a change. The question contains the effect of the change.

    If the effect is too long, or was shortened to the size that the agent requests, the question states that it
    contains only a part of the effect.
    """
    whole = "\n".join(change["effect"])
    effect = whole[: DEFAULT_CHARACTERS // 2]
    notice = f"{_ONLY_A_PART}\n" if effect != whole or change.get(LEFT_OUT) else ""
    return types.ElicitRequestFormParams(message=f"{title}?\n{notice}{effect}", requested_schema=_NO_FIELDS)


def as_result(asked: types.ElicitRequestFormParams, token: str) -> types.InputRequiredResult:
    """Return the question as the result of a call. The client sends `token` back with the user's answer."""
    return types.InputRequiredResult(input_requests={QUESTION: types.ElicitRequest(params=asked)}, request_state=token)


def confirmed(asked: ToolArguments, params: types.CallToolRequestParams) -> ToolArguments:
    """Return the arguments of a call. If the user has accepted the question of an earlier call, add the token.

    The repeated call carries the token and the user's answer (see `as_result`). Raises NotConfirmed if the answer is
    missing, or if the user did not accept. The arguments of all other calls stay unchanged.
    """
    if params.request_state is None:
        return asked
    answer = (params.input_responses or {}).get(QUESTION)
    check(answer)
    return with_token(asked, params.request_state)


def check(answer: object) -> None:
    """Raise NotConfirmed unless the user has accepted the change."""
    if not isinstance(answer, types.ElicitResult):
        raise NotConfirmed("the client returned no answer of the user: the change was not made")
    if answer.action != "accept":
        did = "declined the change" if answer.action == "decline" else "closed the question"
        raise NotConfirmed(f"the user has {did}: the change was not made. Ask the user what to do instead.")


def with_token(asked: ToolArguments, token: str) -> ToolArguments:
    """Return the arguments with `token`. The server made the token when it showed the effect of this change."""
    return msgspec.structs.replace(asked, token=token)
