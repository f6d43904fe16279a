"""Limits of containers that run as processes. The kernel's control groups enforce them: cgroups(7), version 2 or 1.

The groups are made below a group that this process may write to. With version 1, this is the control group of this
process. With version 2, it can also be an ancestor of this control group, if the ancestor delegates its controllers, as
in a user's session of systemd. If a process dies without removing the groups that it made, the next process that makes
groups removes them.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import msgspec

from tfoperator.local.identity import ProcessIdentity, identify, is_alive
from tfoperator.local.runtime.protocol import RuntimeUnavailable

logger = logging.getLogger(__name__)

_CONTROLLERS = ("cpu", "memory")
_CPU_PERIOD = 100_000  # microseconds, the interval of a CPU quota: the kernel's default
_MIN_QUOTA = 1_000  # microseconds; the kernel rejects less
_REMOVAL_TRIES = 100
_REMOVAL_PAUSE = 0.02  # seconds: a killed process takes a moment to leave its group
_GROUP_PREFIX = "tfoperator"

_PROC_SELF = Path("/proc/self")

_ENTER_SCRIPT = 'for procs in $1; do echo $$ > "$procs" || exit 126; done; shift; exec "$@"'
"""A shell writes its process ID into each `cgroup.procs` file in $1, and then replaces itself with the container's
program. So every process of the container is in the group from the start.
"""


class Hierarchy(msgspec.Struct, frozen=True):
    """One tree of control groups: its mount point, the directory of this process's group, and its controllers.

    Version 2 has a single tree, which is `unified`; version 1 has several trees.
    """

    mount: Path
    own: Path
    controllers: frozenset[str]
    unified: bool


def hierarchies(proc: Path = _PROC_SELF) -> list[Hierarchy]:
    """Return all trees of control groups that are mounted here.

    The list is empty on a system without control groups.
    """
    try:
        memberships = _memberships((proc / "cgroup").read_text())
        mounts = (proc / "mountinfo").read_text()
    except OSError:
        return []
    mounted = []
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = (*after.split(), "", "", "")[:3]
        if kind not in ("cgroup", "cgroup2"):
            continue
        root, mount = before.split()[3:5]  # proc_pid_mountinfo(5)
        unified = kind == "cgroup2"
        names = frozenset[str]() if unified else frozenset(options.split(","))
        path = next((path for controllers, path in memberships if controllers == names or controllers & names), None)
        if path is None:
            continue
        own = _below(Path(_unescaped(mount)), root, path)
        controllers = frozenset(_text(own / "cgroup.controllers").split()) if unified else names
        mounted.append(Hierarchy(Path(_unescaped(mount)), own, controllers, unified))
    return mounted


def _memberships(text: str) -> list[tuple[frozenset[str], str]]:
    """Return (controllers, path) of each line of /proc/self/cgroup. Version 2 lists no controllers there."""
    memberships = []
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        memberships.append((frozenset(controllers.split(",")) if controllers else frozenset[str](), path))
    return memberships


def _below(mount: Path, root: str, path: str) -> Path:
    """Return the directory of the group `path`. At `mount`, the group `root` and the groups below it are mounted.

    If the group `path` is not below `root`, as in some containers, return the mount point.
    """
    try:
        return mount / PurePosixPath(path).relative_to(root)
    except ValueError:
        return mount


def _unescaped(path: str) -> str:
    return path.replace("\\040", " ")


class GroupLimits(msgspec.Struct, frozen=True):
    """The limits of a container: a number of CPUs, and bytes of memory. None means no limit."""

    cpu: float | None = None
    memory: int | None = None


class ContainerGroup:
    """The control group of one container: a directory in each tree of control groups.

    Not thread-safe: only one thread at a time uses it.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folders)

    def command(self, program: str, arguments: Sequence[str]) -> list[str]:
        """Return a command that enters the group and then becomes this program."""
        procs = " ".join(str(folder / "cgroup.procs") for folder in self._folders)
        return ["/bin/sh", "-c", _ENTER_SCRIPT, "sh", procs, program, *arguments]

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel has killed a process of the group because the group reached its memory limit."""
        return any(
            _counter(folder / name, "oom_kill") > 0
            for folder in self._folders
            for name in ("memory.events", "memory.oom_control")
        )

    @property
    def peak_memory(self) -> int:
        """Peak memory in bytes, including page cache. It is 0 if the kernel doesn't report the peak."""
        names = ("memory.peak", "memory.max_usage_in_bytes")
        peaks = [_text(folder / name).strip() for folder in self._folders for name in names]
        return max(int(text) if text.isdecimal() else 0 for text in peaks)

    def remove(self) -> None:
        """Kill the remaining processes of the group, and remove it."""
        for folder in self._folders:
            _remove(folder)


class ControlGroups:
    """Makes a group for each container. Thread-safe."""

    def __init__(self, bases: Sequence[tuple[Hierarchy, Path]]) -> None:
        """Take the parent directories of the groups. Callers use `open_control_groups` instead of this constructor."""
        self._bases = tuple(bases)

    def make(self, name: str, limits: GroupLimits) -> ContainerGroup:
        """Make a new control group with this name and these limits. Raises OSError, also if the group exists."""
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
        """Remove all groups."""
        for _, base in self._bases:
            _remove_with_children(base)


def open_control_groups(found: Sequence[Hierarchy] | None = None) -> ControlGroups:
    """Make a parent directory for the groups, and return the object that makes groups in it.

    The function removes the groups that processes left behind when they died. `found` contains the trees to use, by
    default all mounted trees. Raises RuntimeUnavailable if this process can't limit CPU and memory with these trees.
    """
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
            base = parent / f"{_GROUP_PREFIX}.{os.getpid()}.{started}"
            base.mkdir()
            bases.append((hierarchy, base))
            if hierarchy.unified:
                _write(base / "cgroup.subtree_control", " ".join(f"+{controller}" for controller in sorted(wanted)))
        except OSError as error:
            problems.append(f"{error.filename or hierarchy.own}: {error.strerror or error}")
            continue
        missing -= wanted
    if missing:
        ControlGroups(bases).close()
        why = "; ".join(problems) or "this machine has no control group hierarchy for these limits"
        raise RuntimeUnavailable(
            f"limits of {' and '.join(sorted(missing))} can't be enforced for processes here ({why}): leave out "
            "--enforce-limits, start the command with `systemd-run --user --scope -p Delegate=yes tfoperator ...`, "
            "or use --runtime docker"
        )
    return ControlGroups(bases)


def _parent(hierarchy: Hierarchy, controllers: set[str]) -> Path:
    """Return the group in which this process may make the parent directory of its containers' groups.

    Raises OSError if there is no such group.
    """
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
    """Move this process to a subgroup of its group `own`, hand `controllers` to the subgroups, and return `own`.

    The kernel allows no process in a group that hands its controllers to subgroups. So the function raises
    PermissionError if other processes are in the group.
    """
    others = set((own / "cgroup.procs").read_text().split()) - {str(os.getpid())}
    if others:
        raise PermissionError(1, "other processes are in the same control group", str(own))
    leaf = own / f"{_GROUP_PREFIX}.self"
    leaf.mkdir(exist_ok=True)
    _write(leaf / "cgroup.procs", str(os.getpid()))
    _write(own / "cgroup.subtree_control", " ".join(f"+{controller}" for controller in sorted(controllers)))
    return own


def _settings(hierarchy: Hierarchy, limits: GroupLimits) -> dict[str, str]:
    """Return the files of a control group that set these limits: their values by file name, in the order of writing."""
    quota = None if limits.cpu is None else max(_MIN_QUOTA, int(limits.cpu * _CPU_PERIOD))
    settings: dict[str, str] = {}
    if limits.memory is not None and "memory" in hierarchy.controllers:
        if hierarchy.unified:
            # As with kubelets: no swap, and if memory runs out, all processes of the container are killed.
            settings |= {"memory.max": str(limits.memory), "memory.swap.max": "0", "memory.oom.group": "1"}
        else:
            settings |= {"memory.limit_in_bytes": str(limits.memory), "memory.memsw.limit_in_bytes": str(limits.memory)}
    if quota is not None and "cpu" in hierarchy.controllers:
        if hierarchy.unified:
            settings["cpu.max"] = f"{quota} {_CPU_PERIOD}"
        else:
            settings |= {"cpu.cfs_period_us": str(_CPU_PERIOD), "cpu.cfs_quota_us": str(quota)}
    return settings


_SWAP_FILES = ("memory.swap.max", "memory.memsw.limit_in_bytes")
"""The files that limit swap. The files are absent if the kernel does not count swap."""


def _write(file: Path, value: str) -> None:
    if file.name in _SWAP_FILES and not file.exists():
        return
    with file.open("w") as opened:
        opened.write(value)


def _remove_leftovers(parent: Path) -> None:
    for folder in parent.glob(f"{_GROUP_PREFIX}.*.*"):
        _, pid, started = folder.name.split(".", 2)
        if pid.isdigit() and not is_alive(ProcessIdentity(int(pid), started)):
            _remove_with_children(folder)


def _remove_with_children(folder: Path) -> None:
    for child in folder.iterdir() if folder.is_dir() else ():
        if child.is_dir():
            _remove(child)
    _remove(folder)


def _remove(folder: Path) -> None:
    for _ in range(_REMOVAL_TRIES):
        try:
            for pid in _text(folder / "cgroup.procs").split():
                os.kill(int(pid), signal.SIGKILL)
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:  # a process is still in the group
            time.sleep(_REMOVAL_PAUSE)
        else:
            return
    logger.warning("the control group %s can't be removed", folder)


def _text(file: Path) -> str:
    """Return the content of a file, "" if there is none."""
    try:
        return file.read_text()
    except OSError:
        return ""


def _counter(file: Path, name: str) -> int:
    return next((int(line.split()[1]) for line in _text(file).splitlines() if line.startswith(f"{name} ")), 0)
