from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tfoperator.local.gpus.locks import DeviceLocks

HOLD = """
import sys, time
from pathlib import Path
from tfoperator.local.gpus.locks import DeviceLocks
locks = DeviceLocks(Path(sys.argv[1]))
print(sorted(locks.try_all(["a", "b"])), flush=True)
sys.stdin.read()
"""


def test_what_one_has_no_other_gets_until_it_is_given_back(tmp_path: Path) -> None:
    ours, theirs = DeviceLocks(tmp_path / "locks"), DeviceLocks(tmp_path / "locks")
    assert ours.try_all(["a", "b"]) == {"a", "b"}
    assert ours.try_all(["a"]) == {"a"}
    assert theirs.try_all(["a", "b", "c"]) == {"c"}
    ours.release(["a", "nothing"])
    assert theirs.try_all(["a", "b"]) == {"a"}
    ours.release_all()
    assert theirs.try_all(["b"]) == {"b"}
    theirs.release_all()


def test_a_process_that_is_killed_has_none_any_more(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "locks")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "['a', 'b']\n"
        locks = DeviceLocks(tmp_path / "locks")
        assert locks.try_all(["a", "b"]) == set()
        other.kill()
    eventually(lambda: locks.try_all(["a", "b"]) == {"a", "b"}, what="the locks are free")
    locks.release_all()


def test_the_folder_is_for_everybody_and_nobody_can_remove_anothers_file(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        locks = DeviceLocks(tmp_path / "locks")
        locks.try_all(["a"])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "locks").stat().st_mode) == 0o1777
    assert stat.S_IMODE((tmp_path / "locks" / "a.lock").stat().st_mode) == 0o644
    locks.release_all()


@pytest.mark.parametrize("trap", ["link", "folder", "pipe"])
def test_what_somebody_else_has_put_there_is_not_touched(tmp_path: Path, trap: str) -> None:
    folder, secret = tmp_path / "locks", tmp_path / "secret"
    folder.mkdir()
    secret.write_text("mine")
    secret.chmod(0o600)
    place = folder / "a.lock"
    if trap == "link":
        place.symlink_to(secret)
    elif trap == "folder":
        place.mkdir()
    else:
        os.mkfifo(place)
    locks = DeviceLocks(folder)
    assert locks.try_all(["a"]) == {"a"}  # nobody may keep a machine from its own devices
    locks.release_all()
    assert (secret.read_text(), stat.S_IMODE(secret.stat().st_mode)) == ("mine", 0o600)


def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "locks").symlink_to(tmp_path / "elsewhere")
    DeviceLocks(tmp_path / "locks").try_all(["a"])
    assert list((tmp_path / "elsewhere").iterdir()) == []
