"""Decides where and how a container sees its volumes in its mount namespace.

The module is pure: it reads the machine only through a function that the caller passes. If a mount path does not exist
on the machine, a *mount point* (an empty folder or file) is necessary at this path:

- Below another volume, the mount point is made in that volume, as container engines do.
- In a folder of the system (`/`, `/opt`, `/home`), the machine stays unchanged. The container sees a *mirror* of the
  folder: a folder in memory with the same entries and, in addition, the missing entry. If a program writes a file
  directly into such a folder, the file disappears when the container ends, as in a cluster.
- In a folder of a person (a home, `/tmp`, the working directory), the mount point is made on the machine. The mount
  point is removed after the end of the last container that needs it. A mirror would be wrong here: files that programs
  write into it would be lost.
"""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from tfoperator.local.runtime.protocol import LaunchError, Mount

_OTHER_PLACE = "choose another mountPath, or use --runtime docker"
_MAX_LINKS = 40
"""The maximum number of symbolic links that are followed on one path, as in the kernel: path_resolution(7)."""
_WITHOUT_MOUNT_POINTS = ("/proc", "/sys")
"""Folders that the kernel provides. These folders can't be mirrored, and it is not possible to make entries in them."""


class FileEntry(msgspec.Struct, frozen=True):
    """An entry of the machine's file systems: the mode and the owner that lstat(2) returns, and the target if it is
    a link.
    """

    mode: int
    owner: int
    target: str = ""
    writable: bool = False
    """Whether this process may make entries in this folder."""
    is_point: bool = False
    """Whether the entry is a mount point that a run of this user has made. A run may remove such an entry."""

    @property
    def is_folder(self) -> bool:
        """Whether the entry is a folder."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        """Whether the entry is a symbolic link."""
        return stat.S_ISLNK(self.mode)


Look = Callable[[str], FileEntry | None]
"""Returns the entry at a path, without following a link at the path's end. Returns None if there is no entry."""


class MountHost(msgspec.Struct, frozen=True):
    """The facts about the machine that mounts depend on. `user` is the user ID of this process."""

    look: Look
    user: int
    personal: tuple[str, ...] = ()
    """Folders that belong to a person, even if root owns them: the home, and the folder in which programs start."""
    needed: tuple[str, ...] = ()
    """Folders of this machine that a container needs. These folders stay visible if a volume is mounted at a folder
    above them.
    """


class MountPoint(msgspec.Struct, frozen=True):
    """An empty folder or file on which a volume is mounted.

    The runtime makes the mount point and the folders above it if they are missing. If another run has made the mount
    point, the runtime locks it, so the other run does not remove it.
    """

    path: str
    folder: bool = True
    volume: str = ""
    """The volume's folder in which the mount point is made. "" means that the mount point is made on the machine,
    outside of volumes, and must be removed again.
    """


class Bind(msgspec.Struct, frozen=True):
    """A folder or file of this machine, and the path at which the container sees it."""

    source: str
    target: str
    read_only: bool = False


class MountPlan(msgspec.Struct, frozen=True):
    """The steps that give a container its mounts, in their order: make `points`, cover each folder of `mirrors` with
    its mirror in memory, mount `binds`.
    """

    points: tuple[MountPoint, ...] = ()
    mirrors: tuple[str, ...] = ()
    binds: tuple[Bind, ...] = ()


def plan_mounts(mounts: Sequence[Mount], machine: MountHost) -> MountPlan:
    """Return the plan for the mounts of a container. The path `source` of each mount must contain no symbolic links.

    Raises LaunchError if a mount path can't or must not be used. The message names the volume and the path.
    """
    planner = _Planner(machine)
    paths = [_normal(mount.mount_path) for mount in mounts]
    needed = [
        Mount(_NEEDED, Path(folder), folder)
        for folder in dict.fromkeys(machine.needed)
        if folder not in paths and any(_is_below(folder, path) for path in paths)
    ]
    # A mount below the path of another mount comes after that mount, for any order in the manifest.
    for mount in sorted((*mounts, *needed), key=lambda mount: len(PurePosixPath(_normal(mount.mount_path)).parts)):
        planner.add(mount)
    return MountPlan(tuple(planner.points), tuple(sorted(planner.mirrors, key=len)), tuple(planner.binds))


_NEEDED = ""
"""The name of a mount that isn't a volume, but a folder of this machine that stays visible."""


class _Place(msgspec.Struct, frozen=True):
    """The last entry on a mount path that exists, and the part of the path that is missing below it.

    The container sees the entry at `path`, and the entry lies on the machine at `source`. `volume` is the innermost
    volume that contains the entry.
    """

    path: str
    source: str
    entry: FileEntry
    missing: tuple[str, ...] = ()
    volume: Mount | None = None


class _Planner:
    """The state during one call of `plan_mounts`."""

    def __init__(self, machine: MountHost) -> None:
        self.points: list[MountPoint] = []
        self.mirrors: list[str] = []
        self.binds: list[Bind] = []
        self._machine = machine
        self._placed: dict[str, Mount] = {}  # by the path in the container

    def add(self, mount: Mount) -> None:
        source = self._machine.look(str(mount.source))
        if source is None:
            problem = f"its content does not exist on this machine ({mount.source})"
            raise _error(mount, problem, remedy="create this file or folder")
        place = self._find(mount)
        target = str(PurePosixPath(place.path, *place.missing))
        if target == "/":
            raise _error(mount, "a volume can't replace the root folder")
        if place.missing:
            self._make_point(mount, place, folder=source.is_folder)
        elif place.entry.is_folder != source.is_folder:
            kinds = ("a folder", "a file") if source.is_folder else ("a file", "a folder")
            raise _error(mount, f"the volume's content is {kinds[0]}, but {target} is {kinds[1]}")
        self.binds.append(Bind(str(mount.source), target, mount.read_only))
        self._placed[target] = mount

    def _make_point(self, mount: Mount, place: _Place, *, folder: bool) -> None:
        if not place.entry.is_folder:
            raise _error(mount, f"{place.path} is no folder")
        path = str(PurePosixPath(place.source, *place.missing))
        if place.volume is not None and not _is_on_machine(place.volume):
            self.points.append(MountPoint(path, folder, volume=str(place.volume.source)))
        elif any(_is_in(place.path, folder) for folder in _WITHOUT_MOUNT_POINTS):
            raise _error(mount, f"a mount point can't be created in {place.path}")
        elif self._is_personal(place):
            self.points.append(MountPoint(path, folder))
        elif place.path not in self.mirrors:
            self.mirrors.append(place.path)

    def _is_personal(self, place: _Place) -> bool:
        """Return whether the place is in a folder of a person, such as a home or `/tmp`.

        Programs may write files there, and the person later looks for them there. A mirror would be wrong here: these
        files would be lost.
        """
        entry = place.entry
        belongs = any(_is_in(place.source, folder) for folder in self._machine.personal)
        return entry.writable and (belongs or entry.owner != 0 or bool(entry.mode & 0o022))

    def _find(self, mount: Mount) -> _Place:
        """Return the last existing entry on the mount path, as the container will see the path.

        Raises LaunchError if the path can't or must not be used.
        """
        root = self._machine.look("/") or FileEntry(stat.S_IFDIR | 0o755, 0)
        place = _Place("/", "/", root)
        parts = list(PurePosixPath(_normal(mount.mount_path)).parts[1:])
        links = 0
        while parts:
            name = parts.pop(0)
            if name == "..":  # in the target of a symbolic link
                parts = [*PurePosixPath(place.path).parent.parts[1:], *parts]
                place = _Place("/", "/", root)
                continue
            path = str(PurePosixPath(place.path, name))
            placed = self._placed.get(path)
            source = str(placed.source) if placed else str(PurePosixPath(place.source, name))
            entry = self._machine.look(source) if place.entry.is_folder else None
            if entry is None:
                return msgspec.structs.replace(place, missing=(name, *parts))
            self._check_owner(mount, place, entry, path)
            volume = placed or place.volume
            if entry.is_point and _is_on_machine(volume):
                self.points.append(MountPoint(source, entry.is_folder))
            if not entry.is_link:
                place = _Place(path, source, entry, volume=volume)
                continue
            if not _is_on_machine(volume):
                raise _error(mount, f"{path} is a symbolic link in a volume: programs could make it point anywhere")
            links += 1
            if links > _MAX_LINKS:
                raise _error(mount, "the path contains too many symbolic links")
            parts = [*PurePosixPath(place.path, entry.target).parts[1:], *parts]
            place = _Place("/", "/", root)
        return place

    def _check_owner(self, mount: Mount, above: _Place, entry: FileEntry, path: str) -> None:
        """Refuse a path that another user could replace while the container runs. Raises LaunchError."""
        mine = entry.owner in (0, self._machine.user)
        open_to_all = bool(above.entry.mode & stat.S_IWOTH)
        if not mine and (entry.is_link or open_to_all):
            in_open_folder = "an entry of a folder that all users may write to, and belongs to"
            kind = "a symbolic link of" if entry.is_link else in_open_folder
            raise _error(mount, f"{path} is {kind} another user (ID {entry.owner}), who could replace it")


def _is_on_machine(volume: Mount | None) -> bool:
    return volume is None or volume.name == _NEEDED


def _normal(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))


def _is_in(path: str, folder: str) -> bool:
    return PurePosixPath(path).is_relative_to(folder)


def _is_below(path: str, folder: str) -> bool:
    return path != folder and _is_in(path, folder)


def _error(mount: Mount, problem: str, *, remedy: str = _OTHER_PLACE) -> LaunchError:
    return LaunchError(f"volume {mount.name!r} can't be mounted at {mount.mount_path}: {problem}; {remedy}")
