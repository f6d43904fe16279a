"""Reports the living process groups to the guardian process, and kills processes that have left their group.

If this process is killed, the guardian ends these process groups: see `guardian_main`. A process of a container may
leave its process group, as a daemon with a session of its own does. Such a process is found by the container's mark: a
value in its environment that no process of another container has. The marks of all containers of a run begin with the
run's mark, which is a random text.
"""

from __future__ import annotations

import threading
from pathlib import Path

from tfoperator.local.runtime.guardian import CONTAINER_VARIABLE, Guardian
from tfoperator.local.runtime.process.cleanup.guardian_main import kill_marked

_PROGRAM = Path(__file__).with_name("guardian_main.py")


class GroupGuardian(Guardian):
    """Ensures that each registered process group ends when this process ends.

    A call of `stop()` ends the groups that are still registered, too. `grace` is the number of seconds that the
    guardian waits between SIGTERM and SIGKILL. After SIGKILL, the guardian removes the links at mount paths and the
    mount points that are recorded in the folder `records`. It also kills processes that have left their group. It finds
    these processes by `mark`, the run's mark.
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
        """Register a process group: the guardian ends it if this process dies."""
        self.tell(b"+ %d\n" % group)

    def discard(self, group: int) -> None:
        """Unregister an ended group.

        Call it before the group's first process is reaped. After that, another process may get the same ID.
        """
        self.tell(b"- %d\n" % group)


class Stragglers:
    """Kills the remaining processes of ended containers. Thread-safe.

    The processes are found by the container's mark: the value of `CONTAINER_VARIABLE` in their environment. A search is
    slow, because it reads the environment of every process of the machine. So one search serves all containers that
    ended before the search began.
    """

    def __init__(self) -> None:
        self._searching = threading.Lock()  # held for a search; blocks only the threads of ended containers
        self._lock = threading.Lock()  # guards _ended
        self._ended: set[str] = set()

    def kill(self, mark: str) -> None:
        """Kill the remaining processes of the container with this mark; return when no such process is left."""
        with self._lock:
            self._ended.add(mark)
        with self._searching:
            with self._lock:
                if mark not in self._ended:
                    return  # a later search by another thread has included it
                wanted, self._ended = self._ended, set()
            kill_marked(CONTAINER_VARIABLE, wanted.__contains__)


def kill_stragglers(run: str) -> None:
    """Kill the remaining processes of all containers of a run. `run` is the run's mark."""
    kill_marked(CONTAINER_VARIABLE, lambda mark: mark.startswith(f"{run}."))
