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
from tfoperator.local.runtime.process.groups.stacks import find_py_spy, stacks_folder, stacks_of_group
from tfoperator.local.runtime.protocol import ContainerIdentity

_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes per unit of `ru_maxrss`: getrusage(2)."""


class ProcessGroup:
    """The process group of a container. A thread per group waits for the end of its first process. Thread-safe."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        identity: ContainerIdentity,
        label: str,
        on_exit: Callable[[int], None],
        on_ended: Callable[[ProcessGroup], None],
        log: LogFile,
    ) -> None:
        """`log` receives the process ID.

        When the first process has ended, `on_ended` is called, and then the process is reaped. After that, `on_exit` is
        called once with the exit code, or with 128 + the number of the signal that killed the process.
        """
        self.pid = log.pid = popen.pid
        self.identity = identity
        self.peak_memory = 0
        """The largest resident memory of one process of the group, in bytes. The value is set when the group's first
        process has ended. 0 means unknown.
        """
        self._popen = popen
        self._log = log
        self._on_exit = on_exit
        self._on_ended = on_ended
        self._lock = threading.Lock()  # guards _reaped: after that, another process may get the ID
        self._reaped = False
        self._thread = threading.Thread(target=self._wait, name=f"wait-{label}", daemon=True)

    def start_waiting(self) -> None:
        """Start the thread that waits for the end of the first process."""
        self._thread.start()

    def terminate(self) -> None:
        """Send SIGTERM to the group."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the group."""
        self._signal(signal.SIGKILL)

    def stacks(self) -> str:
        """Return the stacks of the container's Python threads.

        The call blocks for some seconds if a process does not respond.
        """
        with self._lock:
            if self._reaped:
                return "No stacks: the process has ended.\n"
        return stacks_of_group(self.pid, stacks_folder(self._log.path), find_py_spy())

    def join(self, timeout: float) -> None:
        """Wait until the first process has ended and `on_exit` has returned, at most `timeout` seconds."""
        self._thread.join(timeout)

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            if self._reaped:
                return
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                pass
            except PermissionError:  # macOS raises this if only a zombie is left
                pass

    def _wait(self) -> None:
        if hasattr(os, "waitid"):
            # Wait without reaping: until the process is reaped, no other process or group can get its ID.
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
        """Wait for the end of the process and set `peak_memory`.

        Return the exit code. Only the system call wait4 returns the peak memory, and `Popen` does not use it.
        """
        try:
            _, status, usage = os.wait4(self.pid, 0)
        except ChildProcessError:  # another thread of this process has reaped it, for example by os.wait()
            return self._popen.wait()
        self._popen.returncode = os.waitstatus_to_exitcode(status)
        # Between fork and exec, a child shares the memory of this process, and the kernel counts it for the child. So
        # only a peak above the memory of this process is surely the child's own.
        ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.peak_memory = usage.ru_maxrss * _MAXRSS_UNIT if usage.ru_maxrss > ours else 0
        return self._popen.returncode
