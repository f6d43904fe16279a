import io
import os
import shutil
import socket
import subprocess
import tarfile
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from tfoperator.sdk import WorkdirError
from tfoperator.sdk.workdir import packing
from tfoperator.sdk.workdir.packing import pack


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is not git's."""
    return tmp_path_factory.mktemp("work")


def fill(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {name}")


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def test_the_bytes_are_those_of_names_contents_and_programs_alone(tmp_path: Path) -> None:
    first, other = tmp_path / "one", tmp_path / "other"
    fill(first, "b.py", "a/c.py", "a.py", *map(str, range(40)))
    fill(other, *map(str, range(40)), "a.py", "a/c.py", "b.py")
    os.utime(other / "a.py", (1, 1))
    (other / "b.py").chmod(0o600)
    assert pack(first) == pack(other)
    with tarfile.open(fileobj=io.BytesIO(pack(first).content)) as tar:
        assert [name for name in tar.getnames() if not name.startswith(".tfoperator/")] == sorted(pack(first).names)
    assert pack(first).content[4:8] == bytes(4)  # gzip's own time
    (other / "b.py").chmod(0o700)
    assert pack(first).digest != pack(other).digest


def test_git_says_what_travels(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(folder, "train.py", "removed.py", "sub/deep.py", "nested/own.py", "nested/left.o", "kept.csv", "large.csv")
    fill(folder, "data.tmp", "src/.tfoperator/run.log")
    (folder / ".gitignore").write_text("*.tmp\n")
    (folder / "nested/.gitignore").write_text("*.o\n")
    git(folder / "nested", "init")
    git(folder, "init")
    git(folder, "add", "train.py", "removed.py", "kept.csv")
    (folder / "removed.py").unlink()
    (folder / packing.IGNORE_FILE).write_text("# data\n*.csv\n!large.csv\n")
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    git(folder, "config", "core.fsmonitor", str(program))
    (tmp_path / "ran").unlink(missing_ok=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))  # as in a hook
    names = {"train.py", "sub/deep.py", "nested/own.py", "nested/.gitignore", ".gitignore", "large.csv"}
    assert pack(folder).names == {*names, packing.IGNORE_FILE}
    assert pack(folder / "sub").names == {"deep.py"}
    assert not (tmp_path / "ran").exists()


def test_without_git_all_travels_that_is_not_ignored(folder: Path) -> None:
    fill(folder, "train.py", "data/large.bin", "data/small.bin", "src/data.py", ".tfoperator/runs/1/log", "a.log")
    (folder / packing.IGNORE_FILE).write_text("data/\n*.log\n")
    assert pack(folder).names == {"train.py", "src/data.py", packing.IGNORE_FILE}
    (folder / packing.IGNORE_FILE).write_text("*\n")
    with pytest.raises(WorkdirError, match="no file to copy: the folder"):
        pack(folder)


def test_a_repository_without_git_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(folder, "train.py", "sub/a.py", ".env")
    monkeypatch.setenv("PATH", "")
    assert pack(folder).secrets == (".env",)
    (folder / ".git").mkdir()
    with pytest.raises(WorkdirError, match="install git"):
        pack(folder / "sub")


def test_what_is_no_file_of_the_folder_is_refused_by_name(folder: Path) -> None:
    fill(folder, "real/train.py")
    os.symlink("real/train.py", folder / "to-file")
    os.symlink("real", folder / "to-folder")
    os.symlink("..", folder / "real/up")
    os.symlink("nowhere", folder / "dangling")
    assert pack(folder).names == {"real/train.py", "to-file", "to-folder", "real/up", "dangling"}
    for target in ("../secret", "real/up/..", "/etc/passwd", str(folder / "real/train.py")):
        os.symlink(target, folder / "out")
        with pytest.raises(WorkdirError, match="'out' is a symbolic link to"):
            pack(folder)
        (folder / "out").unlink()
    os.mkfifo(folder / "pipe")
    with pytest.raises(WorkdirError, match="'pipe' is not a file"):
        pack(folder)
    (folder / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        with chdir(folder):  # a socket's path is short
            listener.bind("socket\n")
        with pytest.raises(WorkdirError, match=r"'socket\\n' is not a file"):
            pack(folder)


def test_a_folder_that_is_too_large_is_refused_with_its_largest_files(folder: Path) -> None:
    for number in range(8):
        (folder / f"f{number}").write_bytes(b"x" * 10_000 * number)
    total = 280_000 + 8 * 512
    assert pack(folder, total).names
    with pytest.raises(WorkdirError, match=r"'f7' \(0\.1 MiB\), 'f6' .*'f3' \([^,]*\)\. Name") as refused:
        pack(folder, total - 1)
    assert "'f2'" not in str(refused.value)


class Meddling:
    """Does something at each second opening of a file, while it has not been done so often."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Any, times: int) -> None:
        self.opened, self.times, self.open, self.act = 0, times, packing.open_beneath, act
        monkeypatch.setattr(packing, "open_beneath", self)

    def __call__(self, root: int, name: str) -> Any:
        stream = self.open(root, name)
        if name == packing.IGNORE_FILE:
            return stream
        self.opened += 1
        if self.opened % 2 == 0 and self.opened // 2 <= self.times:
            self.act()
        return stream


def rewrite_with_its_old_time(folder: Path) -> None:
    before = os.stat(folder / "a.py")
    (folder / "a.py").write_text("CONTENT of a.py")
    os.utime(folder / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "act",
    [
        lambda folder: (folder / "a.py").write_text("more than there was"),
        lambda folder: (folder / "a.py").write_text("less"),
        rewrite_with_its_old_time,
        lambda folder: fill(folder, "new.py"),
        lambda folder: (folder / "b.py").unlink(),
        lambda folder: ((folder / "b.py").unlink(), os.symlink("a.py", folder / "b.py")),
    ],
)
def test_a_folder_that_changes_is_packed_as_it_is_afterwards(folder: Path, tmp_path: Path, act: Any) -> None:
    fill(folder, "a.py", "b.py")
    with pytest.MonkeyPatch.context() as patch:
        Meddling(patch, lambda: act(folder), 1)
        packed = pack(folder)
    assert packed == pack(folder)
    shutil.copytree(folder, tmp_path / "copy", symlinks=True)
    assert packed == pack(tmp_path / "copy")


def test_a_folder_that_goes_on_changing_is_refused_with_the_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(folder, "a.py", "log.txt")

    def write() -> None:
        with (folder / "log.txt").open("a") as stream:
            stream.write("a line\n")

    Meddling(monkeypatch, write, 100)
    with pytest.raises(WorkdirError, match=r"^'log\.txt' changed twice while"):
        pack(folder)


def test_a_file_that_can_not_be_read_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(folder, "a.py")

    def refuse(root: int, name: str) -> Any:
        if name == packing.IGNORE_FILE:
            raise FileNotFoundError(2, "No such file or directory", name)
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr(packing, "open_beneath", refuse)
    with pytest.raises(PermissionError, match=r"a\.py"):
        pack(folder)
