"""Saves a training at intervals, and once more after SIGTERM, before the program is killed.

A drain, an eviction, a suspension, scaling down, a deletion, and Ctrl-C of `tfoperator run` all send SIGTERM first:
this announces the end. The time until the kill is the pod's `terminationGracePeriodSeconds`, which is 30 s by default.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from tfoperator.progress.reporting import flush, keep_reporting, report

EXIT_CODE = 128 + signal.SIGTERM
"""The exit code of a program that has saved and ended on SIGTERM. Shells use this exit code for a program that SIGTERM
ended. After this code, the restart policies Always, OnFailure and ExitCode restart the program.
"""


class NotInMainThread(RuntimeError):
    """The code was called in another thread: Python can set a handler of SIGTERM only in the main thread."""


class Announcement:
    """Detects SIGTERM, which announces the program's end. Use it in the main thread.

    The processes of a JAX job compute each step together. If a process ended alone, it would block the other processes
    in the next step. So if JAX's processes are connected (`jax.distributed.initialize`), JAX's preemption service
    notices SIGTERM in any process, and all processes agree on the step after which they end.
    """

    def __init__(self) -> None:
        self.heard = False
        self._before: Any = None
        self._agrees: Callable[[int], bool] | None = None  # whether all JAX processes end after a step

    def listen(self) -> None:
        """Set the handler of SIGTERM, so that SIGTERM does not end the program at once.

        If JAX's processes are connected, set no handler, because JAX handles SIGTERM. Raises NotInMainThread if another
        thread than the main thread would have to set the handler.
        """
        if jax_processes() > 1:
            from jax.experimental.multihost_utils import reached_preemption_sync_point

            self._agrees = reached_preemption_sync_point
            return
        if threading.current_thread() is not threading.main_thread():
            raise NotInMainThread(
                "only the main thread of a program can handle SIGTERM: start the training in the main thread"
            )
        self._before = signal.signal(signal.SIGTERM, self._on_sigterm)

    def ends_after(self, step: int) -> bool:
        """Return whether the program must save and end after this step. Call it once for each step, in each process."""
        if self._agrees is not None:
            self.heard = self._agrees(step)
        return self.heard

    def stop(self) -> None:
        """Restore the earlier handler of SIGTERM."""
        if self._agrees is None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL if self._before is None else self._before)

    def _on_sigterm(self, *_: object) -> None:
        self.heard = True


def jax_processes() -> int:
    """Return the number of JAX processes that compute together.

    Return 1 without JAX, or before the processes are connected.
    """
    jax = sys.modules.get("jax")
    return jax.process_count() if jax is not None and jax.distributed.is_initialized() else 1


def end(step: int) -> NoReturn:
    """Report the step that was saved, and end the program with `EXIT_CODE`."""
    report(step=step, at_once=True)
    flush()
    raise SystemExit(EXIT_CODE)


class Saving:
    """A context manager for a loop of steps. It calls `save` every `every` steps, and before the program ends.

    If `every` is 0, it calls `save` only after SIGTERM. `save(step)` gets the number of completed steps, and must
    return only when the state is saved. After SIGTERM, the next `after_step` saves, reports the step, and raises
    SystemExit with `EXIT_CODE`. If SIGTERM comes after the last `after_step` of the loop, the program continues
    normally. Enter the context manager in the main thread. Not thread-safe.

    The processes of a JAX job enter the context manager after `jax.distributed.initialize`, begin at the same step, and
    each call `after_step` for every step. Then all of them save and end after the same step, even if only one process
    gets SIGTERM.
    """

    def __init__(self, save: Callable[[int], object], *, every: int = 0) -> None:
        self._save = save
        self._every = every
        self._last: int | None = None  # the step that was saved, or the step before the loop's first
        self._end = Announcement()

    def __enter__(self) -> Saving:
        """Begin to handle SIGTERM. Raises NotInMainThread."""
        self._end.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.stop()

    @property
    def end_announced(self) -> bool:
        """Whether the next `after_step` ends the program. A loop that can shorten its step may check this.

        With several JAX processes, this is False until the end: only `after_step` finds out whether the program ends.
        """
        return self._end.heard

    def after_step(self, step: int) -> None:
        """Call `save` if `every` steps have passed since the last save, or if the program got SIGTERM.

        In the second case, end the program afterwards. If `save` raises an exception, the exception ends the loop.
        """
        if self._last is None:
            self._last = step - 1
        if not (self._end.ends_after(step) or (self._every and step - self._last >= self._every)):
            return
        began = time.monotonic()
        self._save(step)
        self._last = step
        keep_reporting(saved_step=step, save_seconds=time.monotonic() - began)
        if self._end.heard:
            end(step)


def serve_chief() -> NoReturn:
    """Wait until this process got SIGTERM and the chief has ended; then exit with `EXIT_CODE`.

    A worker or parameter server of ParameterServerStrategy calls `serve_chief` in place of
    `tf.distribute.Server.join()`. So its TensorFlow server still runs while the chief saves. Without `serve_chief`,
    SIGTERM ends such a server at once. A chief that gets SIGTERM at the same time then can't save any more. If
    TF_CONFIG names no chief, the function exits when SIGTERM comes. Raises NotInMainThread if it is called in another
    thread.
    """
    announced = Announcement()
    announced.listen()
    cluster = json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
    host, _, port = [*cluster.get("chief", ()), *cluster.get("master", ()), ""][0].rpartition(":")
    address: Any = None
    look_again = 0.0
    while True:
        now = time.monotonic()
        if port and now >= look_again and not (announced.heard and address):
            look_again = now + 30.0
            with suppress(OSError):  # if the chief's service is deleted, its last address is used
                address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][:2]
        if announced.heard:
            try:
                socket.create_connection(address or ("", 0), 1.0).close()  # port 0 always refuses
            except OSError:
                raise SystemExit(EXIT_CODE) from None
        time.sleep(1.0)
