from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from mcp import Client

from tests.support.served import ServedWorld
from tfoperator.cli.cluster import ClusterOptions
from tfoperator.cli.commands.agents.protocol.server import AgentServer
from tfoperator.cli.commands.agents.tools.changes import Changes
from tfoperator.cli.commands.agents.tools.scope import Scope
from tfoperator.cli.commands.agents.tools.tool_table import READING, Tool, changing

T = TypeVar("T")

Talk = Callable[[Callable[[Client], Awaitable[Any]]], Any]


@pytest.fixture
def scope(world: ServedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scope]:
    """The test's namespace, and an empty folder with a program that the user has named."""
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    program = folder / "train.py"
    program.write_text("print('step 1')\n")
    cluster = ClusterOptions(kubeconfig=str(world.kubeconfig))
    agent_scope = Scope(cluster, pipelines=".tfoperator/pipelines", files={"train.py": program})
    yield agent_scope
    agent_scope.close()


@pytest.fixture
def tools() -> tuple[Tool, ...]:
    return (*READING, *changing(Changes(key=b"key")))


@pytest.fixture
def talk(scope: Scope, tools: tuple[Tool, ...]) -> Talk:
    """Talks with a server of this process."""
    return lambda conversation: converse_here(scope, tools, conversation)


def converse_here(
    scope: Scope, tools: tuple[Tool, ...], conversation: Callable[[Client], Awaitable[T]], **options: Any
) -> T:
    """Talk with a server of this process; the options are the client's."""

    async def run() -> T:
        async with Client(AgentServer(scope, tools).server, **options) as client:
            with anyio.fail_after(60):
                return await conversation(client)

    return anyio.run(run)
