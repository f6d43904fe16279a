import os
import stat
from pathlib import Path

import pytest

from tfoperator.local.runtime.beneath import UnsafePath, folder_beneath, make_beneath


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume with a link to a folder beside it, as a container may have made it."""
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside/file").touch()
    root = tmp_path / "volume"
    root.mkdir()
    (root / "out").symlink_to(tmp_path / "beside")
    (root / "loop").symlink_to("loop")
    (root / "dangling").symlink_to(tmp_path / "beside/none")
    (root / "file").write_text("mine")
    return root


LINKS = ("out", "out/file", "out/new", "out/new/deep", "loop", "dangling", "dangling/x")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        *((path, f"^'{path}' contains a symbolic link$") for path in LINKS),
        *((path, "is outside of its volume") for path in ("../beside", "a/../../beside", "/etc", "a/..", "a\0b")),
    ],
)
def test_no_link_is_followed_and_no_path_leads_out(volume: Path, path: str, words: str) -> None:
    with pytest.raises(UnsafePath, match=words):
        make_beneath(volume, path)
    assert [path.name for path in (volume.parent / "beside").iterdir()] == ["file"]
    assert not (volume / "a").exists()


def test_what_is_there_stays_what_is_missing_is_a_folder_for_all_and_what_is_neither_is_refused(volume: Path) -> None:
    volume.chmod(0o777)
    for path in ("a/b/c", "a//b/./c/", "file", "."):
        make_beneath(volume, path)
    assert (volume / "file").read_text() == "mine"
    assert [stat.S_IMODE((volume / path).stat().st_mode) for path in ("a", "a/b", "a/b/c")] == [0o777] * 3
    os.mkfifo(volume / "pipe")
    with pytest.raises(UnsafePath, match="'pipe' is neither a file nor a folder"):
        make_beneath(volume, "pipe")
    with pytest.raises(UnsafePath, match="'file/x': file: Not a directory"):
        make_beneath(volume, "file/x")
    with pytest.raises(UnsafePath, match=r"'x': .*none: No such file"):
        make_beneath(volume / "none", "x")


def test_no_descriptor_is_left(volume: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a/b", "out/x", "file/x"):
        try:
            with folder_beneath(volume, path.split("/")):
                pass
        except UnsafePath:
            pass
    assert len(os.listdir("/proc/self/fd")) == before
