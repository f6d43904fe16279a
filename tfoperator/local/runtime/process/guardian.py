"""Tells the guardian which process groups live. See `guardian_main`, which ends them if this process is killed.

What a container has started and what has left its group, as a daemon does with a session of its own, is found by its
mark.
"""

from __future__ import annotations

import threading
from pathlib import Path

from tfoperator.local.runtime.guardian import CONTAINER_VARIABLE, Guardian
from tfoperator.local.runtime.process.guardian_main import kill_marked

_PROGRAM = Path(__file__).with_name("guardian_main.py")


class GroupGuardian(Guardian):
    """Sees to it that no process group outlives this process. `stop()` also ends the groups still registered.

    `grace` is how many seconds containers have between SIGTERM and SIGKILL when the agent has died. The links that are
    recorded in the folder `records` are removed after that, and what carries the run's `mark` and has left its group is
    killed.
    """

    def __init__(self, records: Path, mark: str, *, grace: float = 5.0) -> None:
        super().__init__(["-I", "-S", str(_PROGRAM), str(grace), str(records.absolute()), CONTAINER_VARIABLE, mark])

    def add(self, group: int) -> None:
        """From now on this process group must not outlive us."""
        self.tell(b"+ %d\n" % group)

    def discard(self, group: int) -> None:
        """The group is gone. Call it before its leader is reaped, or the id may already mean somebody else."""
        self.tell(b"- %d\n" % group)


class Stragglers:
    """Kills the processes of containers that have ended, by their marks. Thread-safe.

    A search reads the environment of every process of the machine. So it is made for all that ended meanwhile.
    """

    def __init__(self) -> None:
        self._searching = threading.Lock()  # held for a search; blocks only the threads of containers that have ended
        self._lock = threading.Lock()  # guards _ended
        self._ended: set[str] = set()

    def kill(self, mark: str) -> None:
        """Return when nothing is left of the container with this mark."""
        with self._lock:
            self._ended.add(mark)
        with self._searching:
            with self._lock:
                if mark not in self._ended:
                    return  # somebody else's search has begun since, and included it
                wanted, self._ended = self._ended, set()
            kill_marked(CONTAINER_VARIABLE, wanted.__contains__)


def kill_stragglers(run: str) -> None:
    """Kill what is left of all containers of a run, by the run's mark."""
    kill_marked(CONTAINER_VARIABLE, lambda mark: mark.startswith(f"{run}."))
