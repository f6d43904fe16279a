"""A container that runs as a process group of this machine."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

from tfoperator.local.runtime.log_files import LogFile
from tfoperator.local.runtime.process.stacks import find_py_spy, stacks_folder, stacks_of_group
from tfoperator.local.runtime.protocol import OnExit

_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in one unit of `ru_maxrss`: getrusage(2)."""


class ProcessGroup:
    """A container's process group, waited for by a thread of its own. Thread-safe."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        label: str,
        on_exit: OnExit,
        on_ended: Callable[[ProcessGroup], None],
        log: LogFile,
    ) -> None:
        """`log` is told the process's id."""
        self.pid = log.pid = popen.pid
        self.peak_memory = 0
        """After its end: the most resident memory in bytes that one of its processes had; 0 if that isn't known."""
        self._popen = popen
        self._log = log
        self._on_exit = on_exit
        self._on_ended = on_ended
        self._lock = threading.Lock()  # guards _reaped: the id may be signalled only while it is surely still ours
        self._reaped = False
        self._thread = threading.Thread(target=self._wait, name=f"wait-{label}", daemon=True)

    def start_waiting(self) -> None:
        """Start the thread that notices the end."""
        self._thread.start()

    def terminate(self) -> None:
        """SIGTERM to the group."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the group."""
        self._signal(signal.SIGKILL)

    def stacks(self) -> str:
        """The stacks of its Python threads; blocks for some seconds if a process does not answer."""
        with self._lock:
            if self._reaped:
                return "No stacks: it has ended.\n"
        return stacks_of_group(self.pid, stacks_folder(self._log.path), find_py_spy())

    def join(self, timeout: float) -> None:
        """Wait until the end has been dealt with."""
        self._thread.join(timeout)

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            if self._reaped:
                return
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                pass
            except PermissionError:  # macOS says so when nobody but a zombie is left
                pass

    def _wait(self) -> None:
        if hasattr(os, "waitid"):
            # See the end without reaping: until then the id, and so the group's, can't be given to anyone else.
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._popen.wait()
        self._signal(signal.SIGKILL)
        self._on_ended(self)
        with self._lock:
            code = self._reap()
            self._reaped = True
        self._on_exit(code if code >= 0 else 128 - code)

    def _reap(self) -> int:
        """Wait as `Popen` does, and keep what only this call of all tells: how large it was at most."""
        try:
            _, status, usage = os.wait4(self.pid, 0)
        except ChildProcessError:  # somebody else of this process has waited for all children
            return self._popen.wait()
        self._popen.returncode = os.waitstatus_to_exitcode(status)
        # Between fork and exec a child has our own memory, and the kernel counts that, too: only more is its own.
        ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.peak_memory = usage.ru_maxrss * _MAXRSS_UNIT if usage.ru_maxrss > ours else 0
        return self._popen.returncode
