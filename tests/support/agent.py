"""An agent: the client of the package `mcp`, which starts `tfoperator mcp` and talks with it over stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from mcp import Client
from mcp.client.stdio import StdioServerParameters

T = TypeVar("T")

DEADLINE = 120.0
"""Seconds for a whole conversation, on any machine."""


def converse(
    folder: Path,
    *arguments: str,
    talk: Callable[[Client], Awaitable[T]],
    options: Mapping[str, Any] | None = None,
    **environment: str,
) -> T:
    """Start `tfoperator mcp` in a folder, talk with it, and end it. The options are the client's."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tfoperator.cli", "mcp", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
    )

    async def run() -> T:
        async with Client(server, **(options or {})) as client:
            return await talk(client)

    return asyncio.run(asyncio.wait_for(run(), DEADLINE))


async def answer(client: Client, tool: str, **asked: Any) -> dict[str, Any]:
    """The answer of a tool. The client has checked it with the tool's output schema."""
    result = await client.call_tool(tool, asked)
    text = result.content[0].text  # type: ignore[union-attr]
    assert not result.is_error, text
    assert json.loads(text) == result.structured_content
    assert len(text) <= asked.get("maxCharacters", 8000)
    return dict(result.structured_content)


async def refusal(client: Client, tool: str, **asked: Any) -> str:
    """The message of a tool that refuses a call."""
    result = await client.call_tool(tool, asked)
    assert result.is_error, result.structured_content
    return str(result.content[0].text)  # type: ignore[union-attr]
