"""The run's side of the guardian: starts it, and sends it home. See `guardian_main`.

Containers belong to the engine, so unlike processes they would live on after a `kill -9`. The labels that let the next
run find them (`leftovers`) are for the worst case, in which the guardian is gone, too.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

from tfoperator.local.docker_runtime.guardian_main import ALL_IS_REMOVED

__all__ = ["RunGuardian"]

logger = logging.getLogger(__name__)

_PROGRAM = Path(__file__).with_name("guardian_main.py")


class RunGuardian:
    """Sees to it that no container of a run outlives this process. For one thread: `start()`, then `stop()`."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the guardian process."""
        # It may need what this process imports, wherever that came from; -P keeps its own folder out of that.
        path = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_PROGRAM), self._run],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # a Ctrl-C at the terminal is not for it
        )

    def stop(self, timeout: float = 10.0) -> None:
        """End it: everything has been removed. Idempotent."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.communicate(ALL_IS_REMOVED, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
