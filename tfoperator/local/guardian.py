"""The agent's side of the guardian: tells it which process groups live, and stops it. See `guardian_main`."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from pathlib import Path

__all__ = ["Guardian"]

logger = logging.getLogger(__name__)


_PROGRAM = Path(__file__).with_name("guardian_main.py")


class Guardian:
    """Sees to it that no process group outlives this process. Thread-safe; `start()` before anything else.

    `grace` is how many seconds containers have between SIGTERM and SIGKILL when the agent has died.
    """

    def __init__(self, *, grace: float = 5.0) -> None:
        self._grace = grace
        self._lock = threading.Lock()  # guards writes to the pipe, which are far smaller than its buffer
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the guardian process. Idempotent."""
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_PROGRAM), str(self._grace)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    start_new_session=True,  # a Ctrl-C at the terminal is not for it
                )

    def stop(self, timeout: float = 10.0) -> None:
        """End it; groups that are still registered are killed by it. Idempotent."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def add(self, group: int) -> None:
        """From now on this process group must not outlive us."""
        self._tell(f"+ {group}\n")

    def discard(self, group: int) -> None:
        """The group is gone. Call it before its leader is reaped, or the id may already mean somebody else."""
        self._tell(f"- {group}\n")

    def _tell(self, message: str) -> None:
        with self._lock:
            if self._process is None or self._process.stdin is None:
                return
            try:
                self._process.stdin.write(message.encode())
                self._process.stdin.flush()
            except OSError as error:
                logger.warning("the guardian is gone (%s): containers may outlive a crash of this process", error)
