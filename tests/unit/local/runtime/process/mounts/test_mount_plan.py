import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pytest

from tfoperator.local.runtime.process.mounts.mount_plan import (
    Bind,
    FileEntry,
    MountHost,
    MountPlan,
    MountPoint,
    plan_mounts,
)
from tfoperator.local.runtime.protocol import LaunchError, Mount

ME, ANOTHER = 1000, 54321
FOLDER, FILE, LINK = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777

SYSTEM = FileEntry(FOLDER, 0)
MINE = FileEntry(FOLDER, ME, writable=True)
THEIRS = FileEntry(FOLDER, ANOTHER)
FOR_ALL = FileEntry(stat.S_IFDIR | 0o1777, 0, writable=True)
POINT = FileEntry(stat.S_IFDIR | 0o1700, ME, writable=True, is_point=True)

TREE: Mapping[str, FileEntry] = {
    "/": SYSTEM,
    "/opt": SYSTEM,
    "/opt/app": SYSTEM,
    "/opt/app/settings.yaml": FileEntry(FILE, 0),
    "/proc": SYSTEM,
    "/tmp": FOR_ALL,
    "/tmp/project": MINE,
    "/tmp/point": POINT,
    "/tmp/trap": FileEntry(LINK, ANOTHER, target="/home/me"),
    "/tmp/theirs": THEIRS,
    "/var": SYSTEM,
    "/var/run": FileEntry(LINK, 0, target="/run"),
    "/run": SYSTEM,
    "/run/app": SYSTEM,
    "/loop": FileEntry(LINK, 0, target="loop"),
    "/home": SYSTEM,
    "/home/me": MINE,
    "/home/me/up": FileEntry(LINK, ME, target="../../opt/./app"),
    "/v/a": MINE,
    "/v/b": MINE,
    "/v/b/sub": MINE,
    "/v/b/link": FileEntry(LINK, ME, target="/opt"),
    "/v/file": FileEntry(FILE, ME),
}


def machine(*needed: str, user: int = ME, personal: tuple[str, ...] = ("/home/me",)) -> MountHost:
    return MountHost(look=TREE.get, user=user, personal=personal, needed=needed)


def plan(*mounts: tuple[str, str], on: MountHost | None = None) -> MountPlan:
    made = [Mount(PurePosixPath(source).name, Path(source), path) for source, path in mounts]
    return plan_mounts(made, on or machine())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/opt/app", MountPlan(binds=(Bind("/v/a", "/opt/app"),))),
        ("/opt//app/", MountPlan(binds=(Bind("/v/a", "/opt/app"),))),
        ("opt/app", MountPlan(binds=(Bind("/v/a", "/opt/app"),))),
        ("/tmp", MountPlan(binds=(Bind("/v/a", "/tmp"),))),
        ("/var/run/app", MountPlan(binds=(Bind("/v/a", "/run/app"),))),
        ("/home/me/up", MountPlan(binds=(Bind("/v/a", "/opt/app"),))),
        ("/missing", MountPlan(mirrors=("/",), binds=(Bind("/v/a", "/missing"),))),
        ("/opt/x/y", MountPlan(mirrors=("/opt",), binds=(Bind("/v/a", "/opt/x/y"),))),
        ("/var/run/x", MountPlan(mirrors=("/run",), binds=(Bind("/v/a", "/run/x"),))),
        ("/home/new", MountPlan(mirrors=("/home",), binds=(Bind("/v/a", "/home/new"),))),
        ("/tmp/x/y", MountPlan((MountPoint("/tmp/x/y"),), binds=(Bind("/v/a", "/tmp/x/y"),))),
        ("/home/me/data", MountPlan((MountPoint("/home/me/data"),), binds=(Bind("/v/a", "/home/me/data"),))),
        ("/tmp/point", MountPlan((MountPoint("/tmp/point"),), binds=(Bind("/v/a", "/tmp/point"),))),
    ],
)
def test_a_mount_path_is_found_as_the_container_will_see_it(path: str, expected: MountPlan) -> None:
    assert plan(("/v/a", path)) == expected


def test_a_folder_of_the_system_that_root_may_write_to_is_mirrored_unless_it_is_roots_home() -> None:
    root = machine(user=0, personal=("/opt/app",))
    assert plan(("/v/a", "/opt/new"), on=root).mirrors == ("/opt",)
    tree = {**TREE, "/opt/app": FileEntry(FOLDER, 0, writable=True)}
    root = MountHost(look=tree.get, user=0, personal=("/opt/app",))
    assert plan(("/v/a", "/opt/app/data"), on=root).points == (MountPoint("/opt/app/data"),)


def test_a_folder_is_mirrored_once_and_the_outer_before_the_inner_one() -> None:
    made = plan(("/v/a", "/opt/x/y"), ("/v/b", "/opt/z"), ("/v/file", "/new"))
    assert made.mirrors == ("/", "/opt")
    assert made.binds == (Bind("/v/file", "/new"), Bind("/v/b", "/opt/z"), Bind("/v/a", "/opt/x/y"))
    assert made.points == ()


def test_a_mount_within_a_volume_gets_its_mount_point_there_whatever_the_order_in_the_manifest() -> None:
    made = plan(("/v/a", "/data/sub"), ("/v/file", "/data/deep/file"), ("/v/b", "/data"))
    assert made.mirrors == ("/",)
    assert made.points == (MountPoint("/v/b/deep/file", folder=False, volume="/v/b"),)
    assert made.binds == (Bind("/v/b", "/data"), Bind("/v/a", "/data/sub"), Bind("/v/file", "/data/deep/file"))


def test_a_link_in_a_volume_is_not_followed() -> None:
    with pytest.raises(LaunchError, match="/data/link is a symbolic link in a volume"):
        plan(("/v/a", "/data/link/app"), ("/v/b", "/data"))


def test_a_file_of_a_volume_is_mounted_on_a_file() -> None:
    assert plan(("/v/file", "/opt/app/settings.yaml")).binds == (Bind("/v/file", "/opt/app/settings.yaml"),)
    assert plan(("/v/file", "/tmp/new.yaml")).points == (MountPoint("/tmp/new.yaml", folder=False),)


def test_a_folder_that_containers_need_stays_visible_below_a_volume() -> None:
    made = plan(("/v/a", "/tmp"), on=machine("/tmp/project", "/home/me", "/tmp/project"))
    assert made.points == (MountPoint("/v/a/project", volume="/v/a"),)
    assert made.binds == (Bind("/v/a", "/tmp"), Bind("/tmp/project", "/tmp/project"))
    inner = plan(("/v/a", "/tmp"), ("/v/b", "/tmp/project/data"), on=machine("/tmp/project"))
    assert inner.points[1:] == (MountPoint("/tmp/project/data"),)
    assert inner.binds[-1] == Bind("/v/b", "/tmp/project/data")
    assert len(plan(("/v/a", "/tmp/project"), on=machine("/tmp/project")).binds) == 1, "the volume is wanted there"


@pytest.mark.parametrize(
    ("source", "path", "words"),
    [
        ("/v/a", "/", "can't replace the root folder"),
        ("/v/a", "/opt/..", "can't replace the root folder"),
        ("/v/a", "/proc/x", "a mount point can't be created in /proc"),
        ("/v/a", "/tmp/trap/x", "/tmp/trap is a symbolic link of another user .ID 54321."),
        ("/v/a", "/tmp/trap", "/tmp/trap is a symbolic link of another user"),
        ("/v/a", "/tmp/theirs/x", "/tmp/theirs is an entry of a folder that all users may write to"),
        ("/v/a", "/loop", "too many symbolic links"),
        ("/v/a", "/opt/app/settings.yaml", "content is a folder, but /opt/app/settings.yaml is a file"),
        ("/v/a", "/opt/app/settings.yaml/x", "/opt/app/settings.yaml is no folder"),
        ("/v/file", "/opt/app", "content is a file, but /opt/app is a folder"),
        ("/v/none", "/opt/app", "its content does not exist on this machine"),
    ],
)
def test_a_mount_that_cannot_be_made_names_the_volume_and_the_path(source: str, path: str, words: str) -> None:
    with pytest.raises(LaunchError, match=rf"^volume '\w+' can't be mounted at {path}: .*{words}"):
        plan((source, path))
