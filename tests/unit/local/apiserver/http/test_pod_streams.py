import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tfoperator.local.apiserver.http.pod_streams import execute
from tfoperator.local.runtime.protocol import SideCommand


class FakeSocket:
    """The server's end of a WebSocket, whose client sends what the test chooses."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[bytes] = asyncio.Queue()
        self.sent = dict.fromkeys(range(5), b"")
        self.news = asyncio.Event()

    def type(self, data: bytes) -> None:
        self.received.put_nowait(b"\0" + data)

    async def send(self, data: bytes) -> None:
        self.sent[data[0]] += data[1:]
        self.news.set()

    async def close(self) -> None:
        pass

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield await self.received.get()

    async def until(self, output: bytes) -> None:
        while output not in self.sent[1]:
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), 60)

    @property
    def exit_code(self) -> int:
        status = json.loads(self.sent[3])
        return 0 if status["status"] == "Success" else int(status["details"]["causes"][0]["message"])


async def run(socket: Any, program: str, *arguments: str, tty: bool) -> None:
    what = SideCommand(
        program=shutil.which(program) or program,
        command=(program, *arguments),
        environment=dict(os.environ),
        directory="/",
        alive=lambda: True,
        adopt=lambda pid: None,
        release=lambda pid: None,
    )
    await asyncio.wait_for(execute(socket, beside=what, stdin=True, tty=tty, ending=asyncio.Event()), 60)


@pytest.mark.asyncio
async def test_all_that_is_pasted_into_a_terminal_arrives() -> None:
    socket, pieces, size = FakeSocket(), 10, 32_000
    program = f"stty raw -echo; echo ready; head -c {pieces * size} | wc -c"
    running = asyncio.create_task(run(socket, "sh", "-c", program, tty=True))
    await socket.until(b"ready")
    for _ in range(pieces):  # more than a terminal's buffer holds
        socket.type(b"x" * size)
    await running
    assert socket.sent[1].split() == [b"ready", str(pieces * size).encode()]
    assert socket.exit_code == 0


@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.asyncio
async def test_a_slow_client_gets_all_that_a_program_wrote_before_its_end(tmp_path: Path, tty: bool) -> None:
    class SlowSocket(FakeSocket):
        async def send(self, data: bytes) -> None:
            await super().send(data)
            while not ended.exists() or psutil.pid_exists(int(ended.read_text())):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)  # the loop notices that the program's end of the terminal is closed

    socket, ended = SlowSocket(), tmp_path / "pid"
    await run(socket, "sh", "-c", f"echo first; head -c 50000 /dev/zero | tr '\\0' x; echo $$ > {ended}", tty=tty)
    assert socket.sent[1].split() == [b"first", b"x" * 50_000]


@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.asyncio
async def test_what_can_not_be_executed_is_an_exit_code_with_the_reason(tmp_path: Path, tty: bool) -> None:
    socket, file = FakeSocket(), tmp_path / "program"
    file.write_bytes(b"\x7fELF nonsense")
    file.chmod(0o755)
    await run(socket, str(file), tty=tty)
    assert socket.exit_code == 126
    assert b"Exec format error" in socket.sent[1] + socket.sent[2]
    socket = FakeSocket()
    await run(socket, "echo", "a\0b", tty=tty)
    assert socket.exit_code == 127
    assert b"null byte" in socket.sent[1] + socket.sent[2]


@pytest.mark.asyncio
async def test_a_terminal_whose_program_has_ended_takes_no_more() -> None:
    socket = FakeSocket()
    socket.type(b"x" * 1_000_000)
    await run(socket, "true", tty=True)
    assert socket.exit_code == 0
