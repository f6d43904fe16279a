"""A command of `kubectl exec`, which runs as an additional process of the container: its input, output and terminal."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import sys
import termios
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.local.runtime.protocol import SideCommand

STDOUT, STDERR = 1, 2
"""The numbers of the WebSocket's channels for the output of the command."""

# Sets the controlling terminal, which only the child process can do for itself, and then executes the command.
_IN_TERMINAL = """
import os, sys
os.login_tty(0)
try:
    os.execv(sys.argv[1], sys.argv[2:])
except OSError as error:
    print(f"can't start {sys.argv[1]}: {error.strerror}")
    sys.exit(126)
"""


class _Size(msgspec.Struct, rename="pascal"):
    width: int = 0
    height: int = 0


class _TerminalOutput(asyncio.StreamReaderProtocol):
    """Reads the output of a terminal.

    The kernel reports the end of a terminal as the error EIO. At an error, the base class would drop output that is not
    read yet, so this class reports a normal end.
    """

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - EIO, once all its programs have ended
        super().connection_lost(None)


class ExecProgram:
    """A running command, with pipes or in its own terminal. Use it only in the event loop."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        stdin: asyncio.StreamWriter | None,
        outputs: Mapping[int, asyncio.StreamReader],
        terminal: int | None = None,
        opened: tuple[asyncio.BaseTransport, ...] = (),
    ) -> None:
        self.process = process
        self.outputs = outputs
        self._stdin = stdin
        self._terminal = terminal
        self._opened = opened

    @classmethod
    async def with_pipes(cls, beside: SideCommand, *, stdin: bool) -> ExecProgram:
        """Start the command with pipes for its output, and with `stdin` also for its input.

        Raises OSError if the program can't be started, and ValueError if the command contains a NUL character.
        """
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
        return cls(process, process.stdin, {STDOUT: process.stdout, STDERR: process.stderr})

    @classmethod
    async def in_terminal(cls, beside: SideCommand) -> ExecProgram:
        """Start the command in its own terminal.

        Raises OSError if there is no free terminal or no process can be started, and ValueError if the command contains
        a NUL character. If only the command's program can't be started, the terminal shows the error, and the exit code
        is 126.
        """
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
        shown = _TerminalOutput(reader)
        output, _ = await loop.connect_read_pipe(lambda: shown, os.fdopen(os.dup(ours), "rb", buffering=0))
        typed = asyncio.StreamReaderProtocol(asyncio.StreamReader())  # only for the flow control of `drain`
        keyboard, _ = await loop.connect_write_pipe(lambda: typed, os.fdopen(os.dup(ours), "wb", buffering=0))
        return cls(process, asyncio.StreamWriter(keyboard, typed, None, loop), {STDOUT: reader}, ours, (output,))

    async def write(self, data: bytes) -> None:
        """Write to the command's input, and wait until the input accepts more data.

        Do nothing if the command has no input, or if its input is closed.
        """
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(data)
            with suppress(ConnectionError):
                await self._stdin.drain()

    def end_of_input(self) -> None:
        """Close the command's input, if it is a pipe. A terminal stays open."""
        if self._stdin is not None and self._terminal is None:
            self._stdin.close()

    def resize(self, size: bytes) -> None:
        """Set the size of the command's terminal to the size of the client's terminal, in the client's JSON message.

        Do nothing if the command has pipes, if the message is invalid, or if the terminal has no program any more.
        """
        if self._terminal is None:
            return
        try:
            wanted = msgspec.json.decode(size, type=_Size)
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", wanted.height, wanted.width, 0, 0))
        except (*UNDECODABLE, struct.error, OSError):
            pass  # invalid size, or the terminal has no program any more

    def kill(self) -> None:
        """End the command and all processes in its process group, with SIGKILL. Do nothing if the command has ended."""
        if self.process.returncode is not None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            # The child has not made its process group yet. Don't call `process.kill` in other cases: it may read the
            # exit status of a process that has ended, and then asyncio misses the status, and logs a warning.
            with suppress(ProcessLookupError):
                self.process.kill()

    def close(self) -> None:
        """Close the pipes or the terminal of a command that has ended."""
        for transport in self._opened:
            transport.close()
        # Input that the program has not read is lost. A transport that closed itself, because the program ended, can't
        # abort.
        if self._stdin and (self._stdin.transport.get_write_buffer_size() or not self._stdin.is_closing()):
            self._stdin.transport.abort()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None
