"""Ends what a container has started and what has left its process group, as a daemon does with a session of its own."""

from __future__ import annotations

import threading

from tfoperator.local.runtime.guardian import CONTAINER_VARIABLE
from tfoperator.local.runtime.process.guardian_main import kill_marked


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
