import os
import subprocess
from pathlib import Path

import pytest

from tfoperator.local.identity import identify
from tfoperator.local.runtime.process.groups.control_groups import (
    GroupLimits,
    Hierarchy,
    hierarchies,
    open_control_groups,
)
from tfoperator.local.runtime.protocol import RuntimeUnavailable

BOTH = frozenset({"cpu", "memory"})
LIMITS = GroupLimits(cpu=0.25, memory=1 << 20)
MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
32 31 0:29 / {root}/cpu rw,relatime shared:1 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /docker/1 {root}/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / {root}/unified rw,relatime - cgroup2 cgroup2 rw
"""


def unified(root: Path, *, handed_on: str = "cpu memory") -> Hierarchy:
    """Make the files of a tree of version 2: a parent that hands on its controllers, and our own group."""
    own = root / "app.slice" / "shell.scope"
    own.mkdir(parents=True)
    for folder, processes in ((root, ""), (own.parent, ""), (own, f"1\n{os.getpid()}\n")):
        (folder / "cgroup.procs").write_text(processes)
        (folder / "cgroup.subtree_control").write_text("")
    (own.parent / "cgroup.subtree_control").write_text(handed_on)
    return Hierarchy(root, own, BOTH, unified=True)


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir() if file.is_file()}


def test_limits_of_version_2_are_written_as_by_a_kubelet_and_the_program_is_in_its_group_before_it_begins(
    tmp_path: Path,
) -> None:
    tree = unified(tmp_path)
    groups = open_control_groups([tree])
    [base] = tree.own.parent.glob("tfoperator.*")
    assert contents(base)["cgroup.subtree_control"] == "+cpu +memory"
    group = groups.make("0", LIMITS)
    expected = {"memory.max": "1048576", "memory.oom.group": "1", "cpu.max": "25000 100000"}
    assert contents(base / "0") == expected  # this tree doesn't count swap
    groups.make("1", GroupLimits(cpu=0.000001))
    assert contents(base / "1") == {"cpu.max": "1000 100000"}
    command = group.command("/bin/echo", ["two words", "$HOME", ";"])
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "two words $HOME ;\n"
    assert int((base / "0" / "cgroup.procs").read_text()) > 1


def test_limits_of_version_1_are_in_two_trees(tmp_path: Path) -> None:
    trees = [
        Hierarchy(tmp_path / name, tmp_path / name / "own", frozenset({name}), unified=False)
        for name in ("cpu", "memory", "pids")
    ]
    for tree in trees:
        tree.own.mkdir(parents=True)
    group = open_control_groups(trees).make("0", LIMITS)
    [cpu], [memory] = ((tmp_path / name / "own").glob("tfoperator.*/0") for name in ("cpu", "memory"))
    assert contents(cpu) == {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "25000"}
    assert contents(memory) == {"memory.limit_in_bytes": "1048576"}
    assert list((tmp_path / "pids" / "own").iterdir()) == []
    assert not group.out_of_memory
    (memory / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    (memory / "memory.max_usage_in_bytes").write_text("1048576\n")
    assert (group.out_of_memory, group.peak_memory) == (True, 1 << 20)


def test_a_refusal_says_what_to_do_and_a_group_of_our_own_is_made_ready(tmp_path: Path) -> None:
    tree = unified(tmp_path, handed_on="memory")
    with pytest.raises(RuntimeUnavailable, match="other processes are in the same control group") as refused:
        open_control_groups([tree])
    for way in ("limits of cpu and memory", "systemd-run --user --scope", "--runtime docker", "--enforce-limits"):
        assert way in str(refused.value)
    with pytest.raises(RuntimeUnavailable, match="no control group hierarchy"):
        open_control_groups([])
    (tree.own / "cgroup.procs").write_text(f"{os.getpid()}\n")
    open_control_groups([tree])
    assert (tree.own / "tfoperator.self" / "cgroup.procs").read_text() == str(os.getpid())
    assert (tree.own / "cgroup.subtree_control").read_text() == "+cpu +memory"


def test_groups_of_the_dead_are_removed_and_those_of_the_living_kept(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    living = identify(os.getppid())
    dead, alive = own / "tfoperator.999999999.1", own / f"tfoperator.{living.pid}.{living.started}"
    for folder in (dead / "0", alive / "0"):
        folder.mkdir(parents=True)
        for each in (folder, folder.parent):
            (each / "cgroup.procs").write_text("")
    # In the kernel's tree a group's files go with it.
    for file in dead.rglob("cgroup.procs"):
        file.unlink()
    groups = open_control_groups([Hierarchy(tmp_path, own, BOTH, unified=False)])
    assert not dead.exists()
    assert alive.exists()
    groups.close()


def test_which_trees_there_are(tmp_path: Path) -> None:
    proc, root = tmp_path / "proc", tmp_path / "sys"
    proc.mkdir()
    (root / "unified" / "me").mkdir(parents=True)
    (root / "unified" / "me" / "cgroup.controllers").write_text("pids hugetlb\n")
    (proc / "mountinfo").write_text(MOUNTS.format(root=root))
    (proc / "cgroup").write_text("5:cpu,cpuacct:/a\n4:memory:/docker/1/b\n1:name=systemd:/\n0::/me\n")
    assert hierarchies(proc) == [
        Hierarchy(root / "cpu", root / "cpu" / "a", frozenset({"rw", "cpu", "cpuacct"}), unified=False),
        Hierarchy(root / "memory", root / "memory" / "b", frozenset({"rw", "memory"}), unified=False),
        Hierarchy(root / "unified", root / "unified" / "me", frozenset({"pids", "hugetlb"}), unified=True),
    ]
    assert hierarchies(tmp_path / "none") == []
