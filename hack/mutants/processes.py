"""Tries changes in processes of their own, several at a time, each for a limited time."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Task(NamedTuple, Generic[T]):
    """Something to do in a process of its own. `what` is for the caller; the answer of `act` must be picklable."""

    what: T
    act: Callable[[], Any]
    seconds: float


class TookTooLong(Exception):
    """A process was killed, since its time was over."""


class Died(Exception):
    """A process ended without an answer; the message has the error that `act` raised, if it raised one."""


class _Running(NamedTuple):
    task: Task[Any]
    answer: Connection
    pid: int
    until: float


def in_processes(tasks: Iterable[Task[T]], jobs: int) -> Iterator[tuple[T, Any]]:
    """Yield each task's `what` with its answer, or with TookTooLong or Died, as they come; so many run at a time.

    A process has a group of its own, which is killed when it has answered, with everything that the process started.
    """
    waiting, running = iter(tasks), list[_Running]()
    try:
        while True:
            while len(running) < jobs and (task := next(waiting, None)) is not None:
                running.append(_start(task))
            if not running:
                return
            soonest = min(process.until for process in running)
            ready = wait([process.answer for process in running], max(soonest - time.monotonic(), 0.0))
            now = time.monotonic()
            for process in [process for process in running if process.answer in ready or now >= process.until]:
                running.remove(process)
                answer = _received(process.answer) if process.answer in ready else TookTooLong()
                _end(process)
                yield process.task.what, answer
    finally:
        for process in running:
            _end(process)


def _start(task: Task[Any]) -> _Running:
    ours, theirs = get_context("fork").Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        _be_child(task.act, theirs)
    theirs.close()
    with suppress(OSError):  # the child does the same, whoever is first
        os.setpgid(pid, pid)
    return _Running(task, ours, pid, time.monotonic() + task.seconds)


def _be_child(act: Callable[[], Any], answer: Connection) -> None:
    try:
        os.setpgid(0, 0)
        with open(os.devnull, "r+b") as nothing:
            for stream in (0, 1, 2):
                os.dup2(nothing.fileno(), stream)
        try:
            result = act()
        except BaseException:  # noqa: BLE001 -- whatever it is, the parent gets it as text
            result = Died(traceback.format_exc())
        answer.send(result)
    finally:
        os._exit(0)  # whatever threads there are


def _received(answer: Connection) -> Any:
    try:
        return answer.recv()
    except EOFError:
        return Died()


def _end(process: _Running) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    os.waitpid(process.pid, 0)
    process.answer.close()
