"""Folders of strangers: whatever is in their repository, other files don't travel, and their programs don't run."""

import hashlib
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tfoperator.sdk import WorkdirError
from tfoperator.sdk.workdir.packing import IGNORE_FILE, pack

SECRET = "the secret of this user"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's home with a secret, in which a stranger's folder is put as `work`."""
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube/config").write_text(SECRET)
    (tmp_path / "work").mkdir()
    (tmp_path / "work/train.py").write_text("print(1)")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def index_of(*names: str) -> bytes:
    """Git's index, as a stranger's program may write it: git itself refuses to make some of these names."""
    entries = []
    for name in sorted(names):
        path = name.encode()
        entry = bytes(24) + struct.pack(">I", 0o100644) + bytes(12) + bytes(20) + struct.pack(">H", len(path)) + path
        entries.append(entry + bytes(8 - len(entry) % 8))
    content = b"DIRC" + struct.pack(">II", 2, len(entries)) + b"".join(entries)
    return content + hashlib.sha1(content).digest()


@pytest.mark.parametrize("name", ["../.kube/config", "{home}/.kube/config", "a/../../.kube/config"])
@pytest.mark.parametrize("layout", ["git", "bare"])
def test_a_name_of_the_index_that_leads_out_is_refused(home: Path, name: str, layout: str) -> None:
    work = home / "work"
    git(work, "init")
    if layout == "bare":
        # The files of a repository may themselves be tracked by another repository, and come with a clone of it.
        for part in ("HEAD", "config", "objects", "refs"):
            shutil.move(work / ".git" / part, work / part)
        shutil.rmtree(work / ".git")
        git(work, "config", "--file", "config", "core.bare", "false")
        git(work, "config", "--file", "config", "core.worktree", str(work))
    place = work if layout == "bare" else work / ".git"
    (place / "index").write_bytes(index_of("train.py", name.format(home=home)))
    with pytest.raises(WorkdirError, match=r"outside of the folder|git can't list its files"):
        pack(work)


def test_files_behind_a_link_are_not_read(home: Path) -> None:
    work = home / "work"
    git(work, "init")
    os.symlink("../.kube", work / "data")
    (work / ".git/index").write_bytes(index_of("train.py", "data/config"))
    with pytest.raises(WorkdirError, match=r"'data' is a symbolic link to '\.\./\.kube', which is outside of"):
        pack(work)
    (work / ".gitignore").write_text("data\n")
    with pytest.raises(
        WorkdirError, match=f"'data/config' contains the symbolic link 'data': list the link in {IGNORE_FILE}"
    ):
        pack(work)
    (work / IGNORE_FILE).write_text("data\n")
    assert pack(work).names == {"train.py", ".gitignore", IGNORE_FILE}


def test_a_tracked_folder_that_became_a_link_to_a_large_disk_is_named_in_an_honest_case(home: Path) -> None:
    work = home / "work"
    (work / "data").mkdir()
    (work / "data/large.csv").write_text("1,2")
    git(work, "init")
    git(work, "add", ".")
    shutil.move(work / "data", home / "disk")
    os.symlink(home / "disk", work / "data")
    with pytest.raises(WorkdirError, match=f"'data' is a symbolic link to .*: list the link in {IGNORE_FILE}"):
        pack(work)
    (work / IGNORE_FILE).write_text("/data\n")
    assert pack(work).names == {"train.py", IGNORE_FILE}
    shutil.move(home / "disk", work / "real")
    (work / "data").unlink()
    os.symlink("real", work / "data")
    (work / IGNORE_FILE).unlink()
    assert pack(work).names == {"train.py", "data", "real/large.csv"}, "a link within the folder travels as a link"


def test_the_rules_are_not_read_through_a_link(home: Path) -> None:
    os.symlink("../.kube/config", home / "work" / IGNORE_FILE)
    with pytest.raises(WorkdirError, match=f"{IGNORE_FILE} can't be read: .* is a link"):
        pack(home / "work")


def sparse_with_a_missing_tree(work: Path) -> None:
    """A partial clone whose index has a folder as one entry, and whose tree is not there."""
    (work / "out").mkdir()
    (work / "out/a.py").write_text("1")
    (work / "in").mkdir()
    (work / "in/b.py").write_text("2")
    git(work, "init")
    git(work, "add", ".")
    git(work, "commit", "-m", "x")
    git(work, "sparse-checkout", "set", "--cone", "--sparse-index", "in")
    tree = git(work, "rev-parse", "HEAD:out").strip()
    (work / ".git/objects" / tree[:2] / tree[2:]).unlink()
    git(work, "config", "core.repositoryFormatVersion", "1")
    git(work, "config", "extensions.partialClone", "origin")
    git(work, "config", "remote.origin.promisor", "true")


@pytest.mark.parametrize("way", ["uploadpack", "ssh", "helper"])
def test_git_runs_no_program_of_the_repository_and_its_failure_is_no_shorter_list(home: Path, way: str) -> None:
    work = home / "work"
    sparse_with_a_missing_tree(work)
    program = home / "program"
    program.write_text(f"#!/bin/sh\ntouch {home}/ran\n")
    program.chmod(0o755)
    if way == "uploadpack":
        git(work, "config", "remote.origin.url", str(home))
        git(work, "config", "remote.origin.uploadpack", str(program))
    elif way == "ssh":
        git(work, "config", "remote.origin.url", "ssh://nowhere/x")
        git(work, "config", "core.sshCommand", str(program))
    else:
        git(work, "config", "remote.origin.url", f"ext::{program}")
        git(work, "config", "protocol.ext.allow", "always")
    with pytest.raises(WorkdirError, match=f"{re.escape(str(work))}: git can't list its files"):
        pack(work)
    assert not (home / "ran").exists()


def test_a_folder_whose_files_git_does_not_list_is_an_error(home: Path) -> None:
    """A submodule that was not fetched is empty; git does not list other files there."""
    work = home / "work"
    git(work, "init")
    (work / "sub").mkdir()
    git(work, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    assert pack(work).names == {"train.py"}
    (work / "sub/a.py").write_text("1")
    with pytest.raises(
        WorkdirError, match=f"sub: git can't list the files of this folder: list this folder in {IGNORE_FILE}"
    ):
        pack(work)
    (work / IGNORE_FILE).write_text("sub/\n")
    assert pack(work).names == {"train.py", IGNORE_FILE}
