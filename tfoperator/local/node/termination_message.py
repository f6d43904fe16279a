"""A container's last words: what it writes to its `terminationMessagePath`, read as the kubelet reads it.

Where containers have mounts, each attempt gets a file of its own at that path. A plain process has none: it writes to
the path on this machine, so what was there before it began is not its message, and the default, which is one file
in `/dev` for all processes, is nobody's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from tfoperator.kube.pod_spec import Container
from tfoperator.local.private_files import private_folder
from tfoperator.local.runtime import Mount, real_path

MAX_MESSAGE = 4096
"""Bytes, as with the kubelet: the last ones of the file (MaxContainerTerminationMessageLength)."""
MAX_LOG = 2048
"""Bytes of the log that stand for a message with `FallbackToLogsOnError`, as with the kubelet."""
MAX_LOG_LINES = 80
DEFAULT_PATH = "/dev/termination-log"
MOUNT_NAME = "termination-message"

_FALLBACK = "FallbackToLogsOnError"
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TerminationMessage:
    """The message of one attempt. Make it before the container starts, read it once when it has ended."""

    def __init__(self, container: Container, path: Path | None, mount: Mount | None = None) -> None:
        self.mount = mount
        """What the container has to see for it; None if it writes to this machine's own path."""
        self._path = path
        self._fallback = container.termination_message_policy == _FALLBACK
        self._before = None if path is None else _identity(path)

    @classmethod
    def mounted(cls, container: Container, file: Path) -> TerminationMessage:
        """A fresh file that is mounted into the container. Raises OSError."""
        private_folder(file.parent)
        file.unlink(missing_ok=True)
        file.touch()
        file.chmod(0o666)  # whoever the container runs as; the folder is closed to everybody else
        path = container.termination_message_path or DEFAULT_PATH
        return cls(container, file, Mount(MOUNT_NAME, file, path))

    @classmethod
    def on_this_machine(cls, container: Container, mounts: Sequence[Mount]) -> TerminationMessage:
        """What a plain process writes to the path."""
        wanted = container.termination_message_path
        return cls(container, None if wanted in ("", DEFAULT_PATH) else Path(real_path(wanted, mounts)))

    def read(self, exit_code: int, log: Path | None) -> str:
        """What the container has said, "" if nothing."""
        said = _tail(self._path, MAX_MESSAGE, self._before) if self._path is not None else ""
        if said or exit_code == 0 or not self._fallback or log is None:
            return said
        return "".join(_tail(log, MAX_LOG).splitlines(keepends=True)[-MAX_LOG_LINES:])


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _tail(path: Path, most: int, before: tuple[int, int, int] | None = None) -> str:
    """The end of a file that the container may have replaced by anything; "" if it is not there or the same as before.

    What can't be read is a message that says so, as with the kubelet.
    """
    if before is not None and _identity(path) == before:
        return ""
    try:
        descriptor = os.open(path, _OPEN)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return f"Error on reading termination log {path}: {error.strerror}"
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        return f"Error on reading termination log {path}: it is no regular file"
    with os.fdopen(descriptor, "rb") as stream:
        stream.seek(max(0, found.st_size - most))
        return stream.read(most).decode("utf-8", "replace")
