"""Limits of containers that are processes, by the kernel's control groups: cgroups(7), of version 2 or 1.

The groups are made below one that this process may write to: its own, or with version 2 an ancestor that hands its
controllers on, as that of a user's session with systemd does. A group that a dead process has left behind is removed by
the next one that makes any.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tfoperator.local.identity import ProcessIdentity, identify, is_alive
from tfoperator.local.runtime.process.cgroup_mounts import Hierarchy, hierarchies
from tfoperator.local.runtime.protocol import RuntimeUnavailable

logger = logging.getLogger(__name__)

_CONTROLLERS = ("cpu", "memory")
_PERIOD = 100_000  # microseconds, in which a container may use its share of CPU time: the kernel's default
_SMALLEST_QUOTA = 1_000  # microseconds; the kernel refuses less
_REMOVAL_TRIES = 100
_REMOVAL_PAUSE = 0.02  # seconds: a process that was killed takes a moment to leave its group
_NAME = "tfoperator"

_ENTER = 'for procs in $1; do echo $$ > "$procs" || exit 126; done; shift; exec "$@"'
"""Run by a shell, which then becomes the container: so nothing of it is ever outside of its group."""


class GroupLimits(msgspec.Struct, frozen=True):
    """What a container gets at most: CPUs, bytes of memory; None for no limit."""

    cpu: float | None = None
    memory: int | None = None


class ContainerGroup:
    """The control group of one container, one directory for each hierarchy. Belongs to the container's thread."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folders)

    def command(self, program: str, arguments: Sequence[str]) -> list[str]:
        """A command that enters the group and then becomes this program."""
        procs = " ".join(str(folder / "cgroup.procs") for folder in self._folders)
        return ["/bin/sh", "-c", _ENTER, "sh", procs, program, *arguments]

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel has killed a process of it because the limit was reached."""
        return any(
            _counter(folder / name, "oom_kill") > 0
            for folder in self._folders
            for name in ("memory.events", "memory.oom_control")
        )

    @property
    def peak_memory(self) -> int:
        """The most bytes that it had, with page cache; 0 if the kernel doesn't tell."""
        names = ("memory.peak", "memory.max_usage_in_bytes")
        return max(_number(folder / name) for folder in self._folders for name in names)

    def remove(self) -> None:
        """Kill what is left in it, and remove it."""
        for folder in self._folders:
            _remove(folder)


class ControlGroups:
    """Makes a group for each container. Thread-safe."""

    def __init__(self, bases: Sequence[tuple[Hierarchy, Path]]) -> None:
        """Use `open_control_groups`."""
        self._bases = tuple(bases)

    def make(self, name: str, limits: GroupLimits) -> ContainerGroup:
        """A group with these limits; `name` must be new. Raises OSError."""
        made: list[Path] = []
        try:
            for hierarchy, base in self._bases:
                folder = base / name
                folder.mkdir()
                made.append(folder)
                for file, value in _settings(hierarchy, limits).items():
                    _write(folder / file, value)
        except OSError:
            ContainerGroup(made).remove()
            raise
        return ContainerGroup(made)

    def close(self) -> None:
        """Remove what is left."""
        for _, base in self._bases:
            for folder in base.iterdir() if base.is_dir() else ():
                if folder.is_dir():
                    _remove(folder)
            _remove(base)


def open_control_groups(found: Sequence[Hierarchy] | None = None) -> ControlGroups:
    """Make a place for groups, and remove those of processes that are no more. Raises RuntimeUnavailable."""
    identity = identify(os.getpid())
    started = identity.started if identity is not None else "0"
    bases: list[tuple[Hierarchy, Path]] = []
    missing = set(_CONTROLLERS)
    problems: list[str] = []
    for hierarchy in hierarchies() if found is None else found:
        wanted = missing.intersection(hierarchy.controllers)
        if not wanted:
            continue
        try:
            parent = _parent(hierarchy, wanted)
            _remove_leftovers(parent)
            base = parent / f"{_NAME}.{os.getpid()}.{started}"
            base.mkdir()
            bases.append((hierarchy, base))
            if hierarchy.unified:
                _write(base / "cgroup.subtree_control", " ".join(f"+{one}" for one in sorted(wanted)))
        except OSError as error:
            problems.append(f"{error.filename or hierarchy.own}: {error.strerror or error}")
            continue
        missing -= wanted
    if missing:
        ControlGroups(bases).close()
        why = "; ".join(problems) or "no hierarchy of control groups has them"
        raise RuntimeUnavailable(
            f"limits of {' and '.join(sorted(missing))} can't be enforced for processes here ({why}): leave out "
            "--enforce-limits, start it with `systemd-run --user --scope -p Delegate=yes tfoperator ...`, or use "
            "--runtime docker"
        )
    return ControlGroups(bases)


def _parent(hierarchy: Hierarchy, controllers: set[str]) -> Path:
    """The group to make ours in. Raises OSError."""
    if not hierarchy.unified:
        return hierarchy.own
    for folder in (hierarchy.own, *hierarchy.own.parents):
        if not folder.is_relative_to(hierarchy.mount):
            break
        handed_on = (folder / "cgroup.subtree_control").read_text().split()
        writable = os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)
        if writable and controllers.issubset(handed_on):
            return folder
    return _emptied(hierarchy.own, controllers)


def _emptied(own: Path, controllers: set[str]) -> Path:
    """Our own group, ready to have others below: that takes that no process is directly in it but us, and we move."""
    others = set((own / "cgroup.procs").read_text().split()) - {str(os.getpid())}
    if others:
        raise PermissionError(1, "other processes are in this control group, too", str(own))
    leaf = own / f"{_NAME}.self"
    leaf.mkdir(exist_ok=True)
    _write(leaf / "cgroup.procs", str(os.getpid()))
    _write(own / "cgroup.subtree_control", " ".join(f"+{one}" for one in sorted(controllers)))
    return own


def _settings(hierarchy: Hierarchy, limits: GroupLimits) -> dict[str, str]:
    """What to write into which file of a group, in this order."""
    quota = None if limits.cpu is None else max(_SMALLEST_QUOTA, int(limits.cpu * _PERIOD))
    found: dict[str, str] = {}
    if limits.memory is not None and "memory" in hierarchy.controllers:
        if hierarchy.unified:
            # As kubelets do: no swap beyond it, and a container dies as a whole.
            found |= {"memory.max": str(limits.memory), "memory.swap.max": "0", "memory.oom.group": "1"}
        else:
            found |= {"memory.limit_in_bytes": str(limits.memory), "memory.memsw.limit_in_bytes": str(limits.memory)}
    if quota is not None and "cpu" in hierarchy.controllers:
        if hierarchy.unified:
            found["cpu.max"] = f"{quota} {_PERIOD}"
        else:
            found |= {"cpu.cfs_period_us": str(_PERIOD), "cpu.cfs_quota_us": str(quota)}
    return found


_SWAP = ("memory.swap.max", "memory.memsw.limit_in_bytes")
"""Absent where the kernel does not count swap."""


def _write(file: Path, value: str) -> None:
    if file.name in _SWAP and not file.exists():
        return
    with file.open("w") as opened:
        opened.write(value)


def _remove_leftovers(parent: Path) -> None:
    for folder in parent.glob(f"{_NAME}.*.*"):
        _, pid, started = folder.name.split(".", 2)
        if pid.isdigit() and not is_alive(ProcessIdentity(int(pid), started)):
            for child in folder.iterdir():
                if child.is_dir():
                    _remove(child)
            _remove(folder)


def _remove(folder: Path) -> None:
    for _ in range(_REMOVAL_TRIES):
        try:
            for pid in _words(folder / "cgroup.procs"):
                os.kill(int(pid), signal.SIGKILL)
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:  # somebody is in it still
            time.sleep(_REMOVAL_PAUSE)
        else:
            return
    logger.warning("the control group %s can't be removed", folder)


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


def _counter(file: Path, name: str) -> int:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)


def _number(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0
