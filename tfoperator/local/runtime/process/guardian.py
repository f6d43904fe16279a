"""Tells the guardian which process groups live. See `guardian_main`, which ends them if this process is killed."""

from __future__ import annotations

from pathlib import Path

from tfoperator.local.runtime.guardian import CONTAINER_VARIABLE, Guardian

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
