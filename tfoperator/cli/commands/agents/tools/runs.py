"""The runs that agents have started on this machine.

Each run is a process of `tfoperator run`. When the MCP server ends, it also ends these processes.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from tfoperator.cli.commands.agents.messages.arguments import Run
from tfoperator.cli.program_job import is_program
from tfoperator.cli.run_directory import make_run_dir
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError
from tfoperator.local.run.kept import is_run

_START_SECONDS = 20.0
"""The number of seconds within which a run must begin or be refused. Usually this takes at most two seconds."""
_LOOK_SECONDS = 0.05
_GRACE_SECONDS = 40.0
"""The number of seconds after which an interrupted run is killed. The default grace period of pods is 30 s."""
_MAX_MESSAGE = 4000


def run_command(path: Path, asked: Run) -> list[str]:
    """Return the arguments of `tfoperator` that run the file, for example `run train.py --workers 2`.

    Raises CliError if the file is a manifest and `asked` sets numbers of replicas or arguments.
    """
    words = ["run", str(path)]
    of_program = [
        *(("--workers", str(asked.workers)) if asked.workers is not None else ()),
        *(("--ps", str(asked.ps)) if asked.ps is not None else ()),
        *(("--chief",) if asked.chief else ()),
    ]
    if not is_program(str(path)) and (of_program or asked.arguments):
        raise CliError(f"{path.name} is a manifest: leave out workers, ps, chief and arguments, which are for programs")
    words += of_program
    if asked.timeout_seconds is not None:
        words += ["--timeout", f"{asked.timeout_seconds}s"]
    return [*words, "--", *asked.arguments] if asked.arguments else words


class StartedRuns:
    """The processes of `tfoperator run` that this MCP server has started. Thread-safe."""

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._interrupted: set[str] = set()  # runs that got SIGINT; after a second SIGINT, a run kills its programs
        self._lock = threading.Lock()  # guards the fields above
        self._closed = False  # whether `stop_all` was called: `start` then refuses every run
        # Guards _closed. `start` holds it for the few milliseconds in which a process starts, so `stop_all` sees every
        # process.
        self._starting = threading.Lock()

    def start(self, path: Path, command: list[str]) -> str:
        """Start a run; return its name when it has begun. Raises CliError if the run does not begin."""
        directory = make_run_dir(None, path.stem)
        words = [sys.executable, "-m", "tfoperator.cli", *command[:2], "--logs-dir", str(directory), *command[2:]]
        with tempfile.TemporaryFile() as errors:
            process = self._launch(directory, words, errors)
            deadline = time.monotonic() + _START_SECONDS
            while not is_run(directory):
                if process.poll() is not None or time.monotonic() > deadline:
                    self._end(directory.name)
                    with suppress(OSError):
                        directory.rmdir()  # it stays if the run has written something
                    errors.seek(0)
                    message = errors.read(_MAX_MESSAGE).decode(errors="replace").strip()
                    raise CliError(message or f"{path.name} was not started", exit_code=EXIT_FAILED)
                time.sleep(_LOOK_SECONDS)
        return directory.name

    def _launch(self, directory: Path, words: list[str], errors: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start the process of a run and record it. Raises CliError, and starts nothing, after `stop_all`."""
        with self._starting:
            if self._closed:
                directory.rmdir()
                raise CliError("the server is ending, so it starts no run", exit_code=EXIT_FAILED)
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,  # Ctrl-C in the agent's terminal must not reach the run
            )
            with self._lock:
                self._processes[directory.name] = process
        return process

    def check(self, name: str) -> None:
        """Raise CliError if this server has not started the run, or if the run has ended."""
        with self._lock:
            process = self._processes.get(name)
        if process is None:
            raise CliError(
                f"this server can't stop run {name}, because another process has started the run",
                "To stop the run, press Ctrl-C in the terminal of the run.",
                exit_code=EXIT_FAILED,
            )
        if process.poll() is not None:
            raise CliError(f"{name} is over", exit_code=EXIT_FAILED)

    def stop(self, name: str) -> None:
        """Send SIGINT to a run and return at once. The run then stops its processes within their grace period.

        A run that was already stopped gets no second signal. Raises CliError if this MCP server has not started the
        run, or if the run has ended.
        """
        self.check(name)
        self._interrupt(name)

    def stop_all(self) -> None:
        """Stop every run that has not ended, and wait until all have ended. Kill a run after 40 s.

        After this call, `start` refuses to start a run.
        """
        with self._starting:
            self._closed = True
        with self._lock:
            running = [name for name, process in self._processes.items() if process.poll() is None]
        for name in running:
            self._interrupt(name)
        for name in running:
            self._end(name)

    def _interrupt(self, name: str) -> None:
        with self._lock:
            if name not in self._interrupted:
                self._interrupted.add(name)
                self._processes[name].send_signal(signal.SIGINT)

    def _end(self, name: str) -> None:
        self._interrupt(name)
        process = self._processes[name]
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()  # the run's guardian process then ends the processes that the run has started
            process.wait()
