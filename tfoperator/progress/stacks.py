"""Writes the stacks of a training program's threads to a file when the program gets a signal.

`register()` makes Python's `faulthandler` write the stacks on SIGUSR1. This works while the program hangs, even in C
code, and takes no time until the signal comes. `python -m tfoperator.progress.stacks`, run in the same container, sends
the signal to every registered process and prints their stacks. `tfoperator stacks` does the same from outside of the
container. The module needs only the standard library.

The name of the file is the process's ID. The file is in `$TFOPERATOR_STACKS_DIR`. Without this variable, it is in a
private directory of the user, below the directory of temporary files. If the program itself handles the signal, its
handler is kept.
"""

from __future__ import annotations

import calendar
import faulthandler
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TextIO

STACKS_VARIABLE: Final = "TFOPERATOR_STACKS_DIR"
"""The environment variable that names the directory of the files with stacks."""

_SUFFIX = ".txt"
_TIMEOUT = 5.0  # seconds for a process to write: the handler needs milliseconds, a loaded machine more
_QUIET_SECONDS = 0.2  # seconds without a new byte after which the output is complete
_POLL_SECONDS = 0.02
_SLACK = 2.0  # seconds: `ps` prints whole seconds, and counts from the start of the machine
_MAX_BYTES = 4 << 20  # of one process's stacks: faulthandler writes at most 100 threads of 100 frames

_registered: dict[int, TextIO] = {}
"""The open stack files, by process ID. faulthandler needs an open file. A forked process has a copy of this dictionary,
but must open its own file, so the key is the process ID.
"""


def register() -> bool:
    """Make this process write its stacks when it gets SIGUSR1.

    Return True if the process will write its stacks. Return False if the system has no SIGUSR1 (Windows), if the
    program handles the signal itself, or if the file can't be created. Idempotent. Never raises.
    """
    if os.getpid() in _registered:
        return True
    number = getattr(signal, "SIGUSR1", None)
    if number is None or not hasattr(faulthandler, "register"):
        return False
    if not _registered and signal.getsignal(number) not in (signal.SIG_DFL, signal.SIG_IGN):
        return False
    try:
        path = _directory() / f"{os.getpid()}{_SUFFIX}"
        path.unlink(missing_ok=True)
        # Opened for appending, because a reader relies on the existing content staying unchanged.
        stream = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600), "w")
        faulthandler.register(number, file=stream, all_threads=True, chain=False)
    except (OSError, ValueError, RuntimeError):
        return False
    _registered[os.getpid()] = stream
    return True


def take(folder: Path, *, group: int | None = None, timeout: float = _TIMEOUT) -> Iterator[tuple[int, str]]:
    """Yield the ID and the stacks of every process that has registered in this folder, one process after the other.

    If a process can't write its stacks, or has not written them after `timeout` seconds, the function yields the reason
    instead of the stacks. A file's name is a process ID, and any program may create a file in the folder. So the
    function sends SIGUSR1 only to a process that has the file open and that handles SIGUSR1: the signal would end a
    process without a handler. With `group`, it also skips processes of other process groups.
    """
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        pid = int(path.stem) if re.fullmatch("[0-9]{1,9}", path.stem) else 0
        if pid > 0 and _is_alive(pid, group):
            yield pid, _take(pid, path, timeout)


def stacks_directory() -> Path:
    """Return the directory for the stack files of this user's processes, from $TFOPERATOR_STACKS_DIR or the default."""
    named = os.environ.get(STACKS_VARIABLE, "")
    user = os.getuid() if hasattr(os, "getuid") else 0
    return Path(named) if named else Path(tempfile.gettempdir()) / f"tfoperator-stacks-{user}"


def main() -> int:
    """Print the stacks of the processes in this container. Return 1 if there are none."""
    count = 0
    try:
        folder = stacks_directory()
    except OSError:
        sys.stderr.write(
            "no program can print its stacks, because no folder for temporary files can be written here: "
            f"mount an emptyDir at /tmp of the container, or set {STACKS_VARIABLE}\n"
        )
        return 1
    if folder.exists() and not _is_ours(folder):
        sys.stderr.write(
            f"{folder} belongs to another user, so its content is not used: set {STACKS_VARIABLE} to another folder\n"
        )
        return 1
    for pid, text in take(folder):
        count += 1
        sys.stdout.write(f"Process {pid}:\n{text}\n")
    if not count:
        sys.stderr.write(
            "no process here can print its stacks: a program must first report its progress by tfoperator.progress, or "
            "call tfoperator.progress.stacks.register()\n"
        )
    return 0 if count else 1


def _directory() -> Path:
    """Return `stacks_directory()`. Create it if it does not exist. Raises OSError if it belongs to another user.

    Missing parent directories are also made private. `mkdir(parents=True)` would apply the umask to them, and a user
    who may write to a parent may replace the directory.
    """
    folder = stacks_directory()
    for directory in (*reversed(folder.parents), folder):
        if not directory.exists():
            directory.mkdir(mode=0o700, exist_ok=True)
    if not _is_ours(folder):
        raise PermissionError(f"{folder} belongs to another user")
    return folder


def _is_ours(folder: Path) -> bool:
    info = folder.lstat()
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid()


def _is_alive(pid: int, group: int | None) -> bool:
    try:
        own = os.getpgid(pid)
    except OSError:
        return False
    return group is None or own == group


def _take(pid: int, path: Path, timeout: float) -> str:
    status = _status(pid)
    if status.get("State", "").startswith("Z"):
        return "it has ended\n"
    caught = int(status.get("SigCgt", "0") or "0", 16)
    if status and not caught & (1 << (signal.SIGUSR1 - 1)):
        return "its program has replaced the handler of SIGUSR1, so it can't print its stacks\n"
    if not _has_registered(pid, path):
        return "the process that could print its stacks has ended, and another process has its PID now\n"
    try:
        before = path.stat().st_size
        os.kill(pid, signal.SIGUSR1)
        end = time.monotonic() + timeout
        size, quiet_since = before, time.monotonic()
        while time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
            now = path.stat().st_size
            if now != size:
                size, quiet_since = now, time.monotonic()
            elif size > before and time.monotonic() - quiet_since >= _QUIET_SECONDS:
                break
        with path.open("rb") as stream:
            stream.seek(before)
            text = stream.read(_MAX_BYTES).decode(errors="replace")
    except OSError as error:
        return f"its stacks can't be read: {error.strerror or error}\n"
    if text:
        return text
    if _status(pid).get("State", "").startswith(("T", "t")):
        return "it is stopped (SIGSTOP), so it can't answer a signal\n"
    return f"it did not answer within {timeout:.0f} s\n"


def _has_registered(pid: int, path: Path) -> bool:
    """Return whether the process `pid` has the file `path` open.

    A process opens the file when it registers its handler of the signal. If the open files of the process can't be
    read, the result is True, except for process 1 and for a process that started after the file was created.
    """
    try:
        own, opened = path.stat(), _open_files(pid)
    except OSError:
        # Process 1 is not accepted. In a container its open files are readable, so this error does not occur. On a
        # machine it is init, for which the signal may have another meaning.
        return pid > 1 and not _is_younger(pid, path)
    return any(os.path.samestat(own, open_file) for open_file in opened)


def _is_younger(pid: int, path: Path) -> bool:
    """Return whether a process started after the file was created, so that another process must have created the file.

    Return False if the start time is unknown.
    """
    try:
        info = path.stat()
    except OSError:
        return False
    started = _started(pid)
    made = getattr(info, "st_birthtime", info.st_mtime)  # st_birthtime on macOS
    return started is not None and started > made + _SLACK


def _started(pid: int) -> float | None:
    """Return the start time of a process in seconds since the epoch, from `ps`. Return None if that fails."""
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=10)
        return float(calendar.timegm(time.strptime(done.stdout.strip(), "%a %b %d %H:%M:%S %Y")))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _open_files(pid: int) -> list[os.stat_result]:
    """Return the open files of a process. This works on Linux. Raises OSError if they are not visible."""
    files = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            files.append(descriptor.stat())
    return files


def _status(pid: int) -> dict[str, str]:
    """Return the fields of a process's status on Linux. On other systems, return an empty dictionary."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


if __name__ == "__main__":
    sys.exit(main())
