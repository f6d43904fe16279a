"""Sends the living process groups to the guardian, which ends them if this process is killed: see `guardian_main`.

Processes that a container has started and that have left its group, as a daemon with its own session does, are found by
the container's mark.
"""

from __future__ import annotations

import threading
from pathlib import Path

from tfoperator.local.runtime.guardian import CONTAINER_VARIABLE, Guardian
from tfoperator.local.runtime.process.guardian_main import kill_marked

_PROGRAM = Path(__file__).with_name("guardian_main.py")


class GroupGuardian(Guardian):
    """Ensures that no process group survives this process. `stop()` also ends the groups still registered.

    `grace` is the number of seconds between SIGTERM and SIGKILL after the agent has died. Then the links recorded in
    the folder `records` are removed, and processes with the run's `mark` that have left their group are killed.
    """

    def __init__(self, records: Path, mark: str, *, grace: float = 5.0) -> None:
        super().__init__(["-I", "-S", str(_PROGRAM), str(grace), str(records.absolute()), CONTAINER_VARIABLE])
        self._run_mark = mark

    def start(self) -> None:
        """Start the guardian process. Idempotent."""
        super().start()
        # The mark is not in the command line, which every user of the machine can read: a user who knows the mark can
        # have processes of this user killed.
        self.tell(b"= %s\n" % self._run_mark.encode())

    def add(self, group: int) -> None:
        """Register a process group, which must not survive this process."""
        self.tell(b"+ %d\n" % group)

    def discard(self, group: int) -> None:
        """Unregister an ended group. Call it before its leader is reaped: then the ID may be another process's."""
        self.tell(b"- %d\n" % group)


class Stragglers:
    """Kills processes of ended containers by their marks. Thread-safe.

    A search reads the environment of every process of the machine, so one search serves all containers that ended
    before it.
    """

    def __init__(self) -> None:
        self._searching = threading.Lock()  # held for a search; blocks only the threads of ended containers
        self._lock = threading.Lock()  # guards _ended
        self._ended: set[str] = set()

    def kill(self, mark: str) -> None:
        """Kill the remaining processes of the container with this mark; return when none is left."""
        with self._lock:
            self._ended.add(mark)
        with self._searching:
            with self._lock:
                if mark not in self._ended:
                    return  # a later search by another thread has included it
                wanted, self._ended = self._ended, set()
            kill_marked(CONTAINER_VARIABLE, wanted.__contains__)


def kill_stragglers(run: str) -> None:
    """Kill the remaining processes of all containers of a run, by the run's mark."""
    kill_marked(CONTAINER_VARIABLE, lambda mark: mark.startswith(f"{run}."))
