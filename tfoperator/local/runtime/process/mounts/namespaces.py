"""Starts containers in mount namespaces of their own. There, a container finds its volumes at their mount paths."""

from __future__ import annotations

import functools
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tfoperator.local.runtime.beneath import UnsafePath, make_beneath
from tfoperator.local.runtime.process.cleanup.guardian_main import is_point
from tfoperator.local.runtime.process.container_main import COMMAND, MISSING_DIRECTORY, encode
from tfoperator.local.runtime.process.mounts.mount_plan import FileEntry, MountHost, MountPlan, MountPoint, plan_mounts
from tfoperator.local.runtime.process.mounts.mount_points import MountPoints
from tfoperator.local.runtime.protocol import LaunchError, LocalPod, Mount

_TIMEOUT = 30.0
"""The time limit in seconds for all mounts of a container. The mounts normally take a millisecond, but they may hang if
a file server does not respond.
"""
_MAX_REPORT = 65536  # bytes


class Namespaces:
    """The mount namespaces of a runtime's containers. Thread-safe.

    `records` is the folder in which the mount points are recorded. Containers start in `work_dir`. Containers always
    see `work_dir`, the run's own folder and the folders of the running Python. Containers have namespaces only if
    `wanted` is true.
    """

    def __init__(self, records: Path, work_dir: Path, *, wanted: bool = True) -> None:
        self._wanted = wanted
        self._points = MountPoints(records)
        needed = (work_dir, records.parent, Path(sys.prefix), Path(sys.base_prefix))
        self._machine = MountHost(
            look=look,
            user=os.geteuid(),
            personal=tuple(str(folder) for folder in (Path.home().resolve(), work_dir)),
            needed=tuple(str(folder.resolve()) for folder in needed),
        )

    @functools.cached_property
    def refusal(self) -> str:
        """The reason why containers get no mount namespaces: `wanted` is false, or this machine permits no namespaces.

        The reason is "" if they get mount namespaces. The first call takes some 20 ms.
        """
        if not self._wanted:
            return "mount namespaces are switched off"
        refusal = "only Linux has mount namespaces"
        if sys.platform == "linux":
            refusal = _probe()
        return refusal

    def arguments(self, pod: LocalPod, mounts: Sequence[Mount]) -> list[str]:
        """Make the mount points, and return the mounts as arguments of `container_main`.

        Raises LaunchError if a mount path can't or must not be used.
        """
        resolved = [msgspec.structs.replace(mount, source=mount.source.resolve()) for mount in mounts]
        plan = plan_mounts(resolved, self._machine)
        for point in plan.points:
            self._make(pod, point)
        return _encoded(plan)

    def release(self, pod: LocalPod) -> None:
        """Remove the mount points that only this pod needed."""
        self._points.release(pod.metadata.uid)

    def close(self) -> None:
        """Remove all mount points."""
        self._points.close()

    def _make(self, pod: LocalPod, point: MountPoint) -> None:
        try:
            if point.volume:
                make_beneath(Path(point.volume), os.path.relpath(point.path, point.volume), folder=point.folder)
            else:
                self._points.make(pod.metadata.uid, point.path, folder=point.folder)
        except (OSError, UnsafePath) as error:
            problem = error.strerror if isinstance(error, OSError) else error
            raise LaunchError(f"the mount point {point.path} can't be created: {problem}") from None


def _probe() -> str:
    """Return why the kernel refuses a mount namespace. To find out, make a namespace with a mirror of the root folder.

    Return "" if the kernel permits the namespace.
    """
    command = [*COMMAND, "probe"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"


def look(path: str) -> FileEntry | None:
    """Return the entry at a path of this machine: see `mount_plan.Look`."""
    try:
        status = os.lstat(path)
    except OSError:  # the entry does not exist, or neither this process nor its containers can see it
        return None
    return FileEntry(
        mode=status.st_mode,
        owner=status.st_uid,
        target=_link_target(path),
        writable=os.access(path, os.W_OK | os.X_OK),
        is_point=is_point(status.st_mode, status.st_uid),
    )


def _link_target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:  # no link
        return ""


def _encoded(plan: MountPlan) -> list[str]:
    return encode(plan.mirrors, [(bind.source, bind.target, bind.read_only) for bind in plan.binds])


class NamespaceStart(msgspec.Struct, frozen=True):
    """The command that starts a program in a namespace with these mounts.

    This command first runs `container_main`, which makes the mounts, and then replaces itself with the program.
    """

    mounts: tuple[str, ...]
    """The mounts as arguments, from `Namespaces.arguments`."""
    command: tuple[str, ...]
    wanted_directory: str
    default_directory: str

    def start(
        self, popen: Callable[[Sequence[str], int], subprocess.Popen[bytes]]
    ) -> tuple[subprocess.Popen[bytes], bool]:
        """Start the command and wait until its program runs.

        The method calls `popen` with the command and with a descriptor that the new process must inherit (`pass_fds`).
        Return the process, and whether the wanted directory exists. Raises LaunchError if the program can't be started,
        and all exceptions that `popen` raises.
        """
        reading, writing = os.pipe()
        try:
            try:
                directories = (self.wanted_directory, self.default_directory)
                process = popen([*COMMAND, "run", str(writing), *directories, *self.mounts, *self.command], writing)
            finally:
                os.close(writing)
            report = _read(reading)
        finally:
            os.close(reading)
        if report is None:
            process.kill()
            process.wait()
            raise LaunchError(
                f"the volumes of the container were not mounted within {_TIMEOUT:.0f} s: perhaps a file server does "
                "not respond"
            )
        *warnings, last = report.splitlines() or [""]
        code, _, message = last.partition(" ")
        if code.isdigit():
            process.wait()
            raise LaunchError(message, int(code))
        return process, MISSING_DIRECTORY not in (*warnings, last)


def enter_command(pid: int, directory: Path, command: Sequence[str]) -> tuple[str, ...]:
    """Return the words that run a command in the namespace and the directory of a container.

    `pid` is the ID of the container's first process.
    """
    return (*COMMAND, "enter", str(pid), str(directory), *command)


def _read(descriptor: int) -> str | None:
    """Read the report of `container_main` from a pipe, to its end.

    The pipe ends when the container's program runs, or when it can't be started. Return None if that takes longer than
    `_TIMEOUT`.
    """
    end = time.monotonic() + _TIMEOUT
    report = b""
    waiting = select.poll()  # `select` takes no descriptor above 1023
    waiting.register(descriptor, select.POLLIN)
    while len(report) < _MAX_REPORT:
        if not waiting.poll(1000 * max(0.0, end - time.monotonic())):
            return None
        part = os.read(descriptor, _MAX_REPORT)
        if not part:
            break
        report += part
    return report.decode(errors="surrogateescape")
