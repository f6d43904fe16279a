"""One lock for each device, so that two control planes of a machine never give away the same one.

They are locks of the kernel (flock(2)) on files that hold nothing: a process that ends in whatever way has none any
more, and nothing has to be cleaned up. The folder is for all users of the machine, as its devices are, so anybody may
keep a lock, as anybody may fill a GPU's memory.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path

logger = logging.getLogger(__name__)

FOLDER = Path("/tmp/tfoperator-gpus")
"""Not what TMPDIR says, which differs between users."""
_STICKY_FOR_ALL = 0o1777
_READABLE = 0o644  # a shared or exclusive lock needs no more than that


class DeviceLocks:
    """The locks that this process has. Not thread-safe."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}  # device: file descriptor
        self._complained = False

    def try_all(self, devices: Iterable[str]) -> set[str]:
        """Lock as many of these as nobody else has; returns which. Those that we have already are among them."""
        return {device for device in devices if device in self._held or self._try(device)}

    def release(self, devices: Iterable[str]) -> None:
        """Give some back."""
        for device in devices:
            descriptor = self._held.pop(device, None)
            if descriptor is not None:
                os.close(descriptor)

    def release_all(self) -> None:
        """Give all back."""
        self.release(tuple(self._held))

    def _try(self, device: str) -> bool:
        try:
            descriptor = self._open(f"{device}.lock")
        except OSError as error:
            if not self._complained:
                logger.warning("GPUs can't be locked, other runs may use the same: %s", error)
            self._complained = True
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._held[device] = descriptor
        return True

    def _open(self, name: str) -> int:
        """The file, made if it isn't there. Nobody's link is followed, and nothing but an ordinary file opened."""
        try:
            self._folder.mkdir(mode=_STICKY_FOR_ALL)
            self._folder.chmod(_STICKY_FOR_ALL)  # whatever the umask says
        except FileExistsError:
            pass
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            try:
                # Without O_CREAT first: in such a folder Linux refuses it for another user's file (protected_regular).
                descriptor = os.open(name, flags, dir_fd=folder)
            except FileNotFoundError:
                descriptor = os.open(name, flags | os.O_CREAT, _READABLE, dir_fd=folder)
                os.fchmod(descriptor, _READABLE)
        finally:
            os.close(folder)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(f"{self._folder / name} is no ordinary file")
        return descriptor
