"""Starts the guardian, sends messages to it, and stops it.

The guardian is a small separate process. If the process that started the guardian is killed, the guardian removes the
containers that the killed process had started.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

logger = logging.getLogger(__name__)

CONTAINER_VARIABLE = "TFOPERATOR_CONTAINER"
"""The process runtime sets this variable for each process of a container. The value is the mark of the run (a random
text), a dot, and a number. By this value, the guardian finds a process that has left the process group of its
container.
"""


class Guardian:
    """Starts the guardian process, and stops it. Thread-safe. Call `start()` before any other method.

    `arguments` are the arguments for this Python interpreter: its options, the path of the guardian's program, and the
    program's own arguments. The guardian reads its standard input. The input ends when the process that started the
    guardian exits or is killed.
    """

    def __init__(self, arguments: Sequence[str], *, environment: Mapping[str, str] | None = None) -> None:
        self._arguments = arguments
        # If this process itself runs in a container of another run, the guardian must outlive that container. So the
        # guardian must not inherit the container's mark, by which the processes of the container are found and killed.
        given = os.environ if environment is None else environment
        self._environment = {name: value for name, value in given.items() if name != CONTAINER_VARIABLE}
        self._lock = threading.Lock()  # guards writes to the pipe; they do not block, because they are small
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the guardian process. Idempotent."""
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, *self._arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env=self._environment,
                    start_new_session=True,  # the guardian must not get a Ctrl-C of the terminal
                )

    @property
    def pid(self) -> int | None:
        """The guardian's process ID. It is None if the guardian is not running."""
        with self._lock:
            return None if self._process is None else self._process.pid

    def tell(self, message: bytes) -> None:
        """Write to the guardian's standard input. If the guardian is not running, the call does nothing."""
        with self._lock:
            if self._process is None or self._process.stdin is None:
                return
            try:
                self._process.stdin.write(message)
                self._process.stdin.flush()
            except OSError as error:
                logger.warning(
                    "the process that stops containers after a crash of this process has ended (%s): containers may "
                    "keep running after a crash",
                    error,
                )

    def stop(self, last_message: bytes = b"", timeout: float = 10.0) -> None:
        """Send a last message, close the guardian's input, and wait until it exits; kill it after `timeout` seconds.

        Idempotent.
        """
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        try:
            process.communicate(last_message, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
