"""`exec` and `attach`: a command beside a container, or its output, over a WebSocket.

Messages are those of Kubernetes' `v5.channel.k8s.io` and `v4.channel.k8s.io`: the first byte names the channel. A
client that goes away ends the command and all that it has started; so does the end of the container. All runs in the
server's event loop.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import sys
import termios
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

from tfoperator.local.apiserver.errors import StatusError, bad_request
from tfoperator.local.apiserver.http.pod_logs import LogStream
from tfoperator.local.apiserver.members import query_flag
from tfoperator.local.runtime import Beside

_ENDS = {"Connection": "close"}
"""With a refused upgrade: what the client has sent since is in no protocol that is spoken here."""

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_PIECE = 32 * 1024
_MAX_MESSAGE = 4 * 1024 * 1024  # bytes; kubectl sends 32 KiB
_LOOK_SECONDS = 0.5  # between two looks whether the container still runs
_HEARTBEAT_SECONDS = 30.0

# Makes the terminal the controlling one, which only a child can do for itself, and becomes the command.
_IN_TERMINAL = "import os, sys; os.login_tty(0); os.execv(sys.argv[1], sys.argv[2:])"


class _Size(msgspec.Struct, rename="pascal"):
    width: int = 0
    height: int = 0


class StreamRequest(msgspec.Struct, frozen=True):
    """What a client wants of a pod."""

    container: str
    command: tuple[str, ...]
    stdin: bool
    tty: bool

    @classmethod
    def parse(cls, request: web.Request) -> StreamRequest:
        """Read the query."""
        query = request.query
        return cls(
            query.get("container", ""),
            tuple(query.getall("command", [])),
            query_flag(query, "stdin"),
            query_flag(query, "tty"),
        )


async def open_socket(request: web.Request) -> web.WebSocketResponse:
    """Accept a WebSocket; StatusError 400 for a client that has none."""
    upgrade = request.headers.get("Upgrade", "").lower()
    if upgrade != "websocket":
        if not upgrade:
            raise bad_request("Upgrade request required")
        spoken = upgrade.partition("/")[0].upper()[:20]
        message = f"{spoken} is not spoken here: use kubectl 1.31 or later, or another client that speaks WebSockets"
        raise StatusError(400, "BadRequest", message, headers=_ENDS)
    socket = web.WebSocketResponse(
        protocols=PROTOCOLS, max_msg_size=_MAX_MESSAGE, heartbeat=_HEARTBEAT_SECONDS, compress=False
    )
    await socket.prepare(request)
    return socket


async def attach(socket: web.WebSocketResponse, stream: LogStream) -> None:
    """Send what the container prints from now on, until it ends or the client goes."""
    try:
        await _first_of(stream.send(_Channel(socket, _STDOUT)), _until_closed(socket))
        await _end(socket, _SUCCESS)
    finally:
        stream.close()


async def execute(socket: web.WebSocketResponse, beside: Beside, *, stdin: bool, tty: bool) -> None:
    """Run a command beside a container, and tell its outcome, unless the client goes or the container ends before."""
    program = await (_Program.in_terminal(beside) if tty else _Program.with_pipes(beside, stdin=stdin))
    beside.adopt(program.process.pid)
    try:
        ended = await _first_of(_run(socket, program), _until_closed(socket, program), _until_over(beside))
        status = _outcome(program.process.returncode) if ended == 0 else _failure(137)
        await _end(socket, status)
    finally:
        program.kill()
        await program.process.wait()
        beside.release(program.process.pid)
        program.close()


class _Channel:
    """A channel to the client as a place to write to."""

    def __init__(self, socket: web.WebSocketResponse, number: int) -> None:
        self._socket = socket
        self._prefix = bytes((number,))

    async def write(self, data: bytes) -> None:
        await self._socket.send_bytes(self._prefix + data)


class _Program:
    """A running command, with pipes or in a terminal of its own."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        outputs: Mapping[int, asyncio.StreamReader],
        terminal: int | None = None,
        opened: tuple[asyncio.BaseTransport, ...] = (),
    ) -> None:
        self.process = process
        self.outputs = outputs
        self._terminal = terminal
        self._opened = opened

    @classmethod
    async def with_pipes(cls, beside: Beside, *, stdin: bool) -> _Program:
        process = await asyncio.create_subprocess_exec(
            *beside.command,
            executable=beside.program,
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=beside.directory,
            env=beside.environment,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        return cls(process, {_STDOUT: process.stdout, _STDERR: process.stderr})

    @classmethod
    async def in_terminal(cls, beside: Beside) -> _Program:
        ours, theirs = os.openpty()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-c", _IN_TERMINAL, beside.program, *beside.command,
                stdin=theirs, stdout=theirs, stderr=theirs, cwd=beside.directory, env=beside.environment,
            )  # fmt: skip
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        pipe = os.fdopen(os.dup(ours), "rb", buffering=0)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        return cls(process, {_STDOUT: reader}, ours, (transport,))

    async def write(self, data: bytes) -> None:
        if self._terminal is not None:
            os.write(self._terminal, data)  # a terminal's buffer; what a person types
        elif self.process.stdin is not None:
            self.process.stdin.write(data)
            with suppress(ConnectionError):
                await self.process.stdin.drain()

    def end_of_input(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()

    def resize(self, size: bytes) -> None:
        if self._terminal is None:
            return
        try:
            wanted = msgspec.json.decode(size, type=_Size)
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", wanted.height, wanted.width, 0, 0))
        except (msgspec.DecodeError, struct.error, OSError):
            pass  # no size, or nobody who sees it

    def kill(self) -> None:
        """End it with everything that it has started in its group."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            with suppress(ProcessLookupError):
                self.process.kill()  # before it had a group of its own

    def close(self) -> None:
        for transport in self._opened:
            transport.close()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None


async def _run(socket: web.WebSocketResponse, program: _Program) -> None:
    await asyncio.gather(*(_copy(reader, _Channel(socket, n)) for n, reader in program.outputs.items()))
    await program.process.wait()


async def _copy(reader: asyncio.StreamReader, channel: _Channel) -> None:
    while True:
        try:
            data = await reader.read(_PIECE)
        except OSError:  # a terminal whose programs have all ended
            return
        if not data:
            return
        await channel.write(data)


async def _until_closed(socket: web.WebSocketResponse, program: _Program | None = None) -> None:
    """Hand the client's messages on until it has gone."""
    async for message in socket:
        if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT) or not message.data or program is None:
            continue
        # Python's client sends text.
        whole = message.data.encode() if isinstance(message.data, str) else message.data
        channel, data = whole[0], whole[1:]
        if channel == _STDIN:
            await program.write(data)
        elif channel == _RESIZE:
            program.resize(data)
        elif channel == _CLOSE and data[:1] == bytes((_STDIN,)):
            program.end_of_input()


async def _until_over(beside: Beside) -> None:
    while beside.alive():
        await asyncio.sleep(_LOOK_SECONDS)


async def _first_of(*waiting: Awaitable[None]) -> int:
    """Wait for the first to end, and end the others; which it was. What it raised is raised."""
    tasks = [asyncio.ensure_future(one) for one in waiting]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        ended = next(index for index, task in enumerate(tasks) if task.done())
        with suppress(ConnectionError):  # the client is gone
            tasks[ended].result()
        return ended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _end(socket: web.WebSocketResponse, status: Mapping[str, Any]) -> None:
    with suppress(ConnectionError):
        await _Channel(socket, _ERROR).write(msgspec.json.encode(status))
    await socket.close()


_SUCCESS: Mapping[str, Any] = {"metadata": {}, "status": "Success"}


def _outcome(code: int | None) -> Mapping[str, Any]:
    code = code or 0
    return _failure(code if code > 0 else 128 - code) if code else _SUCCESS


def _failure(code: int) -> Mapping[str, Any]:
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def no_ports() -> StatusError:
    """Why ports are not forwarded, and what to do instead."""
    return StatusError(
        501,
        "NotImplemented",
        "ports are not forwarded here, for there is nothing to cross: connect to the port itself, at the address that "
        "`kubectl get pods -o wide` shows for the pod",
        headers=_ENDS,
    )
