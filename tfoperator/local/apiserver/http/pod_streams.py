"""The streams of a pod that the node agent provides.

These streams are the log of a container, the stacks of the threads of its programs, a command that runs as an
additional process of a container (`exec`), and the output of a container from now on (`attach`). `exec` and `attach`
use a WebSocket with the messages of Kubernetes' `v5.channel.k8s.io` and `v4.channel.k8s.io`: the first byte is the
channel. When the client disconnects or the container ends, the server ends the command and all processes that the
command has started. All of this runs in the server's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec

from tfoperator.base.clock import Clock
from tfoperator.local.apiserver.errors import StatusError, bad_request
from tfoperator.local.apiserver.http.api_request import ApiRequest
from tfoperator.local.apiserver.http.exec_program import STDERR, STDOUT, ExecProgram
from tfoperator.local.apiserver.http.pod_logs import LogReader, LogReaders, choose_container, log_request
from tfoperator.local.apiserver.http.websockets import (
    first_of,
    log_answer,
    log_protocol,
    opens_websocket,
    refusal_of_log,
    while_open,
)
from tfoperator.local.apiserver.members import query_flag
from tfoperator.local.apiserver.storage.store import StoredObject
from tfoperator.local.runtime.log_files import LogRequest
from tfoperator.local.runtime.protocol import LaunchError, SideCommand
from tfoperator.servers.http.messages import Answer, StreamedAnswer, WebSocket, WebSocketAnswer

T = TypeVar("T")

Write = Callable[[bytes], Awaitable[None]]
"""Sends data to the client. Raises ConnectionError if the client has disconnected."""

_CLOSE_HEADER = {"Connection": "close"}
"""The header of a response that refuses an upgrade. The server then closes the connection, because the client's next
bytes may already be in the protocol of the upgrade, and not in HTTP.
"""

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _ERROR, _RESIZE, _CLOSE = 0, 3, 4, 255
_PIECE_SIZE = 32 * 1024
_MAX_MESSAGE = 4 * 1024 * 1024  # bytes; kubectl sends 32 KiB
_CHECK_SECONDS = 0.5  # between two checks whether the container still runs


CommandOpener = Callable[[str, str, str, Sequence[str]], SideCommand]
"""A function with the arguments (namespace, pod, container, command). It returns how to run the command. Raises
LaunchError, which contains the reason and the next step for the user.
"""


class NodeStreams(msgspec.Struct, frozen=True):
    """The functions of a node agent for the streams of its pods. A function is None if no agent provides it.

    `stacks` serves `GET .../pods/NAME/stacks`, which is an addition of this project. `beside` returns the data to start
    a command as an additional process of a container, for `kubectl exec`.
    """

    logs: LogReader | None = None
    stacks: LogReader | None = None
    beside: CommandOpener | None = None


NO_NODE = NodeStreams()
"""The streams of an API server that has no node agent."""


class PodStreams:
    """Serves the streams of the node agent. Use it only in the server's event loop."""

    def __init__(self, node: NodeStreams, logs: LogReaders, clock: Clock) -> None:
        self._node = node
        self._logs = logs
        self._clock = clock
        self._ending = asyncio.Event()

    def close(self) -> None:
        """End all responses that send a log, and all commands of `kubectl exec`."""
        self._logs.close()
        self._ending.set()

    async def send(
        self, request: ApiRequest, pod: StoredObject, what: Literal["log", "stacks"]
    ) -> Answer | StreamedAnswer | WebSocketAnswer:
        """Send a container's log, or the stacks of its threads.

        Raises StatusError if the query is invalid (see `log_request`), if no node agent serves the stream, or if the
        stream can't be read.
        """
        reader = self._node.logs if what == "log" else self._node.stacks
        wanted = log_request(pod, request.query, self._clock.now())
        in_websocket = opens_websocket(request)
        protocol = log_protocol(request) if in_websocket else ""
        if protocol is None:
            return refusal_of_log()
        chunks = await self._logs.open(_served(reader, f"no node agent serves {what}"), wanted)
        return log_answer(chunks, protocol) if in_websocket else StreamedAnswer(_without_pauses(chunks), "text/plain")

    async def attach(self, request: ApiRequest, pod: StoredObject) -> WebSocketAnswer:
        """Send the output that a container writes from now on.

        Raises StatusError if the pod has no node yet or no such container, if no node agent serves logs, if the client
        opens no WebSocket, or if the log can't be read.
        """
        container = choose_container(pod.obj, request.query.get("container", ""))
        check_host(pod)
        reader = _served(self._node.logs, "the node agent, which serves logs, is not running")
        _check_upgrade(request)
        wanted = LogRequest(pod.metadata["namespace"], pod.metadata["name"], container, follow=True, tail_lines=0)
        chunks = await self._logs.open(reader, wanted)

        async def show(socket: WebSocket) -> None:
            await while_open(socket, _forward(chunks, _channel(socket, STDOUT)))
            await _end(socket, _SUCCESS)

        return WebSocketAnswer(show, PROTOCOLS, _MAX_MESSAGE)

    def execute(self, request: ApiRequest, pod: StoredObject) -> WebSocketAnswer:
        """Run a command for `kubectl exec`, as an additional process of a container.

        Raises StatusError if the request contains no command, if the pod has no node yet or no such container, if no
        node agent runs commands, if the command can't run in the container, or if the client opens no WebSocket.
        """
        query, command = request.query, request.commands
        container = choose_container(pod.obj, query.get("container", ""))
        check_host(pod)
        if not command:
            raise bad_request("you must specify at least one command for the container")
        run_beside = _served(self._node.beside, "the node agent, which runs commands, is not running")
        try:
            beside = run_beside(pod.metadata["namespace"], pod.metadata["name"], container, command)
        except LaunchError as error:
            raise bad_request(str(error)) from None
        _check_upgrade(request)
        stdin, tty = query_flag(query, "stdin"), query_flag(query, "tty")
        run = partial(execute, beside=beside, stdin=stdin, tty=tty, ending=self._ending)
        return WebSocketAnswer(run, PROTOCOLS, _MAX_MESSAGE)


def _served(part: T | None, otherwise: str) -> T:
    if part is None:
        raise StatusError(503, "ServiceUnavailable", otherwise)
    return part


def check_host(pod: StoredObject) -> None:
    """Raise StatusError 400 for a pod that has no node yet."""
    if not pod.obj["spec"].get("nodeName"):
        raise bad_request(f"pod {pod.metadata['name']} does not have a host assigned")


def _check_upgrade(request: ApiRequest) -> None:
    """Raise StatusError 400 for a client that does not open a WebSocket."""
    upgrade = request.headers.get("upgrade", "").lower()
    if not upgrade:
        raise bad_request("Upgrade request required")
    if upgrade != "websocket":
        spoken = upgrade.partition("/")[0].upper()[:20]
        message = f"{spoken} is not supported here: use kubectl 1.31 or later, or another client that uses WebSockets"
        raise StatusError(400, "BadRequest", message, headers=_CLOSE_HEADER)


async def _without_pauses(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of a log. Skip the empty chunks that a log without new data yields."""
    async for chunk in chunks:
        if chunk:
            yield chunk


async def _forward(chunks: AsyncIterator[bytes], write: Write) -> None:
    """Send a log's chunks to the client, until the log ends. Raises ConnectionError if the client has disconnected."""
    async for chunk in _without_pauses(chunks):
        await write(chunk)


async def execute(socket: WebSocket, *, beside: SideCommand, stdin: bool, tty: bool, ending: asyncio.Event) -> None:
    """Run a command for `kubectl exec`. Send the command's output, and its exit status when it ends.

    The command is a new process next to the container's processes, with the container's environment. It is killed if
    the client disconnects, if the container ends, or if the event `ending` is set because the server stops.
    """
    try:
        program = await (ExecProgram.in_terminal(beside) if tty else ExecProgram.with_pipes(beside, stdin=stdin))
    except (OSError, ValueError) as error:
        await _refuse(socket, beside, error)
        return
    beside.adopt(program.process.pid)
    try:
        ended = await first_of(
            _run(socket, program), _until_closed(socket, program), _until_over(beside), _until_set(ending)
        )
        status = _outcome(program.process.returncode) if ended == 0 else _failure(137)
        await _end(socket, status)
    finally:
        program.kill()
        await program.process.wait()
        beside.release(program.process.pid)
        program.close()


async def _refuse(socket: WebSocket, beside: SideCommand, error: OSError | ValueError) -> None:
    """Report that the command could not start, as a shell does: by a line on stderr, and exit code 126 or 127.

    The exit code is 127 if the program does not exist or its name is invalid, otherwise 126. An HTTP error is no longer
    possible, because the connection is already a WebSocket.
    """
    why = error.strerror if isinstance(error, OSError) else error
    missing = isinstance(error, FileNotFoundError | ValueError)
    with suppress(ConnectionError):
        await _channel(socket, STDERR)(f"can't start {beside.program}: {why}\n".encode(errors="replace"))
    await _end(socket, _failure(127 if missing else 126))


def _channel(socket: WebSocket, number: int) -> Write:
    return lambda data: socket.send(bytes((number,)) + data)


async def _run(socket: WebSocket, program: ExecProgram) -> None:
    await asyncio.gather(*(_copy(reader, _channel(socket, n)) for n, reader in program.outputs.items()))
    await program.process.wait()


async def _copy(reader: asyncio.StreamReader, write: Write) -> None:
    while data := await reader.read(_PIECE_SIZE):
        await write(data)


async def _until_closed(socket: WebSocket, program: ExecProgram) -> None:
    """Pass input, the size of the terminal and the end of input from the client to the program, until the client
    disconnects.
    """
    async for message in socket:
        if not message:
            continue
        channel, data = message[0], message[1:]
        if channel == _STDIN:
            await program.write(data)
        elif channel == _RESIZE:
            program.resize(data)
        elif channel == _CLOSE and data[:1] == bytes((_STDIN,)):
            program.end_of_input()


async def _until_over(beside: SideCommand) -> None:
    while beside.alive():
        await asyncio.sleep(_CHECK_SECONDS)


async def _until_set(event: asyncio.Event) -> None:
    await event.wait()


async def _end(socket: WebSocket, status: Mapping[str, Any]) -> None:
    with suppress(ConnectionError):
        await _channel(socket, _ERROR)(msgspec.json.encode(status))
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
    """Return a 501 for `kubectl port-forward`. Its message explains how to reach the port directly."""
    return StatusError(
        501,
        "NotImplemented",
        "port forwarding is not supported here, and you don't need it: connect to the port directly, at the address "
        "that `kubectl get pods -o wide` shows for the pod",
        headers=_CLOSE_HEADER,
    )
