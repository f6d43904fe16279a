"""Where a launch's record is kept, if its successor on another machine is to find it."""

from __future__ import annotations

from typing import Protocol


class RecordKeeper(Protocol):
    """Keeps the files of one launch's record by name. Used by one thread, `write_soon` by any."""

    def claim(self) -> None:
        """Become the only one who writes from now on: writes of whoever did so before fail. Raises LauncherError."""
        ...

    def read(self, name: str) -> bytes | None:
        """A file, None if there is none. Raises LauncherError."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write a file; once this returns, it outlives this machine.

        Raises OwnershipLost if another has claimed it, LauncherError if it can't be written.
        """
        ...

    def write_soon(self, name: str, data: bytes) -> None:
        """Write a file within seconds, unless this process dies: for what may be lost. Does not block."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there. Raises LauncherError."""
        ...
