import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tfoperator.base.private_files import (
    check_own,
    check_own_place,
    make_folders,
    others_may_replace,
    private_folder,
    private_opener,
    temporary_file,
    write_private,
)


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_private_file_is_replaced_whole_stays_private_and_is_not_written_through_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "f", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, b"new")
    assert (path.read_text(), mode(path)) == ("new", 0o600)
    assert list(tmp_path.iterdir()) == [path]
    link.symlink_to("f")
    with pytest.raises(OSError, match="symbolic links"), open(link, "a", opener=private_opener):
        pass
    write_private(link, b"newer")
    assert (link.is_symlink(), path.read_text()) == (False, "new")


def test_a_folder_is_closed_to_others_also_if_it_was_open_but_not_what_a_link_points_to(tmp_path: Path) -> None:
    private_folder(tmp_path / "new/below")
    (tmp_path / "old").mkdir(0o777)
    private_folder(tmp_path / "old")
    assert mode(tmp_path / "new/below") == mode(tmp_path / "old") == 0o700
    (tmp_path / "theirs").mkdir(0o755)
    (tmp_path / "link").symlink_to("theirs")
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        private_folder(tmp_path / "link")
    assert mode(tmp_path / "theirs") == 0o755


@pytest.mark.parametrize(
    ("kind", "owner", "open_to_others"),
    [
        *((stat.S_IFDIR | 0o755, owner, owner == 1001) for owner in (0, 1000, 1001)),
        (stat.S_IFDIR | 0o775, 1000, False),
        (stat.S_IFDIR | 0o777, 1000, True),
        (stat.S_IFDIR | 0o1777, 0, False),
        *((stat.S_IFLNK | 0o777, owner, owner == 1001) for owner in (1000, 1001)),
    ],
)
def test_who_may_replace_files_in_a_folder(kind: int, owner: int, open_to_others: bool) -> None:
    status = os.stat_result((kind, 1, 1, 1, owner, 1000, 0, 0, 0, 0))
    assert others_may_replace(status, 1000) is open_to_others


def test_a_folder_that_is_open_to_all_is_refused_also_behind_a_link(tmp_path: Path) -> None:
    check_own(tmp_path)
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "link").symlink_to("open")
    for name in ("open", "link"):
        with pytest.raises(PermissionError, match="another user can replace the files in it"):
            check_own(tmp_path / name)


def test_missing_parents_are_as_private_as_the_folder_and_existing_ones_keep_their_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_folders(tmp_path / "a/b/c")
    assert [mode(tmp_path / name) for name in (".", "a", "a/b", "a/b/c")] == [0o755, 0o700, 0o700, 0o700]
    make_folders(tmp_path / "a/b/c")
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file/below"):
        with pytest.raises(OSError, match=r"File exists|Not a directory"):
            make_folders(path)


def test_a_place_in_tfoperators_folder_must_not_be_another_users(
    tmp_path: Path, give_away: Callable[[Path], None]
) -> None:
    place = tmp_path / ".tfoperator/pipelines"
    check_own_place(place)  # it is not there yet
    make_folders(place)
    check_own_place(place)
    give_away(place)
    with pytest.raises(PermissionError, match="another user can replace the files in it") as raised:
        check_own_place(place / "runs")
    assert raised.value.filename == str(place)
    other = tmp_path / "chosen"
    other.mkdir()
    give_away(other)
    check_own_place(other)


def test_a_link_of_another_user_is_no_place_either(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o777)
    (tmp_path / "theirs").chmod(0o777)
    (tmp_path / ".tfoperator").symlink_to("theirs")
    with pytest.raises(PermissionError):
        check_own_place(tmp_path / ".tfoperator/pipelines")


def test_a_temporary_file_needs_no_writable_directory_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform == "linux":
        monkeypatch.setattr("tempfile.tempdir", "/read-only/root")
    with temporary_file(b"key") as path:
        assert Path(path).read_bytes() == b"key"
    assert not os.path.exists(path)
