"""The operator as a process that can be killed and paused, with a clock that runs faster and can be stepped.

It is the operator's own object with its own client over HTTP; only the process around it is not `tfoperator operator`,
because that has no clock to choose. Processes are forked from a server that has imported everything already, which
takes a hundredth of the time that a new Python process does.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import msgspec

from hack.faults.injection.clock import Origin, ScaledClock
from hack.processes import tail
from tfoperator.kube.client import Client, WatchPace
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.operator import Operator, Options, Reach
from tfoperator.operator.logging import configure_logging
from tfoperator.operator.operator import WATCH_BATCH_PERIOD

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["hack.faults.injection.operators"])
_END_SECONDS = 10.0


@dataclass(frozen=True)
class Settings:
    """The settings with which an operator is started. `request_timeout` and `read_deadline` are real seconds."""

    server: str
    options: bytes  # of `Options`, as JSON: only what JSON can express; the rest has its default
    origin: Origin
    log: str
    request_timeout: float = 2.0
    read_deadline: float | None = 2.5


def _main(settings: Settings, offset: Synchronized[float]) -> None:
    """Be an operator until it fails or this process is killed."""
    log = os.open(settings.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the runner, which then ends us
    options = msgspec.json.decode(settings.options, type=Options)
    configure_logging("text", options.log_level)
    failed: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_end_with_runner, name="runner", daemon=True).start()
    clock = ScaledClock(settings.origin, lambda: float(offset.value))
    config = ClusterConfig(server=settings.server)
    client = Client(
        config,
        clock=clock,
        user_agent="tfoperator-plan",
        request_timeout=settings.request_timeout,
        watches=WatchPace(settings.read_deadline or 90.0, WATCH_BATCH_PERIOD),
    )
    lease_client = Client(config, clock=clock, request_timeout=settings.request_timeout / 2)
    operator = Operator(client, options, reach=Reach(lease_client=lease_client), clock=clock, on_failure=failed.put)
    operator.start()
    failed.get()
    sys.stderr.flush()
    # As the real process after a lost lease: its state may be stale, so it must not finish anything.
    os._exit(1)


def _end_with_runner() -> None:
    """End this process when the runner ends, even if the runner was killed."""
    runner = multiprocessing.parent_process()
    assert runner is not None
    runner.join()
    os._exit(1)


class OperatorProcess:
    """One process. Methods are for one thread."""

    def __init__(self, settings: Sequence[Settings]) -> None:
        """`settings` has the settings of the first start, the second, and so on, over and over."""
        self._settings = settings
        self._offset = _CONTEXT.Value("d", 0.0, lock=False)
        self._process: ForkServerProcess | None = None
        self.starts = 0
        self.paused = False

    @property
    def alive(self) -> bool:
        """Whether the process is there, if only paused."""
        return self._process is not None and self._process.is_alive()

    def start(self) -> None:
        """Start it."""
        # A daemon: it is ended with the runner.
        settings = self._settings[self.starts % len(self._settings)]
        self._process = _CONTEXT.Process(target=_main, args=(settings, self._offset), daemon=True)
        self._process.start()
        self.starts += 1

    def step_clock(self, seconds: float) -> None:
        """Step its wall clock by so much more; a successor has the stepped clock, too."""
        self._offset.value += seconds

    def pause(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)
        self.paused = False

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        process, self._process = self._process, None
        self.paused = False
        if process is not None:
            process.kill()
            process.join(_END_SECONDS)
            process.close()

    def ensure(self) -> bool:
        """If the process has ended, start it again, as a Deployment does. Return whether that was necessary."""
        if self.alive:
            return False
        self.kill()
        self.start()
        return True

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)


class OperatorProcesses:
    """The pods of the operator's Deployment, which compete for a lease if there are several."""

    def __init__(
        self,
        count: int,
        server: str,
        origin: Origin,
        folder: Path,
        options: Sequence[dict[str, object]],
        *,
        read_deadline: float | None,
    ) -> None:
        """`options` has the options of each operator's first start, of its second, and so on, over and over."""
        self.logs = [folder / f"operator-{number}.log" for number in range(count)]
        self.members = [
            OperatorProcess(
                [
                    Settings(server, msgspec.json.encode(option), origin, str(log), read_deadline=read_deadline)
                    for option in options
                ]
            )
            for log in self.logs
        ]

    def __enter__(self) -> OperatorProcesses:
        for member in self.members:
            member.start()
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()

    def ensure(self) -> None:
        """Start every operator again that has ended."""
        for member in self.members:
            if not member.paused:
                member.ensure()

    def step_clock(self, seconds: float) -> None:
        """Step the wall clocks of all."""
        for member in self.members:
            member.step_clock(seconds)

    def tail(self, lines: int) -> str:
        """The ends of their logs."""
        parts = []
        for log in self.logs:
            parts += [f"--- {log.name}", *([tail(log, lines)] if log.exists() else [])]
        return "\n".join(parts)
