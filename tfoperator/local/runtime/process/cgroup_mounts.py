"""The mount points of the kernel's control groups, and the group of this process."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import msgspec

_PROC_SELF = Path("/proc/self")


class Hierarchy(msgspec.Struct, frozen=True):
    """One tree of control groups: its mount point, the directory of this process's group, and its controllers.

    `unified` is the only tree of version 2; version 1 has several.
    """

    mount: Path
    own: Path
    controllers: frozenset[str]
    unified: bool


def hierarchies(proc: Path = _PROC_SELF) -> list[Hierarchy]:
    """Return all trees that are mounted here; none on a system without control groups."""
    try:
        memberships = _memberships((proc / "cgroup").read_text())
        mounts = (proc / "mountinfo").read_text()
    except OSError:
        return []
    found = []
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
        controllers = _words(own / "cgroup.controllers") if unified else names
        found.append(Hierarchy(Path(_unescaped(mount)), own, controllers, unified))
    return found


def _memberships(text: str) -> list[tuple[frozenset[str], str]]:
    """Return (controllers, path) of each line of /proc/self/cgroup; version 2 names no controllers."""
    found = []
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        found.append((frozenset(controllers.split(",")) if controllers else frozenset[str](), path))
    return found


def _below(mount: Path, root: str, path: str) -> Path:
    """Return the directory of a group; a container may have mounted only a part of the tree."""
    try:
        return mount / PurePosixPath(path).relative_to(root)
    except ValueError:
        return mount


def _words(file: Path) -> frozenset[str]:
    try:
        return frozenset(file.read_text().split())
    except OSError:
        return frozenset()


def _unescaped(path: str) -> str:
    return path.replace("\\040", " ")
