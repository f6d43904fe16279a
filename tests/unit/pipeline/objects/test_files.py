"""Whether a folder is a store, a new one, or the place of one that is not mounted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfoperator.pipeline import ObjectStoreError, open_home
from tfoperator.pipeline.objects import ABSENT, FileObjects
from tfoperator.pipeline.objects.files import MARKER


@pytest.mark.parametrize("below", ["", "pipelines", "team/pipelines"])
def test_a_folder_on_which_nothing_is_mounted_is_no_new_store(tmp_path: Path, below: str) -> None:
    folder = tmp_path / below
    home = open_home(f"file://{folder}")
    for look in (home.exists, home.changes, home.store):
        with pytest.raises(ObjectStoreError, match=f"{tmp_path} is empty.*mount that.*touch {folder}/{MARKER}"):
            look()
    assert list(tmp_path.iterdir()) == []
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).touch()  # as the error says
    assert not home.exists()
    home.store().close()
    home.close()


def test_a_store_is_marked_when_it_is_begun_and_known_by_that_when_it_is_empty(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    objects = FileObjects(tmp_path / "store")
    assert not objects.is_begun()
    objects.begin()
    assert objects.is_begun()
    assert (tmp_path / "store" / MARKER).read_text()
    objects.begin()
    assert list(objects.keys("metadata/")) == list(objects.keys("runs/")) == []


def test_an_empty_volume_is_a_new_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_mount", lambda self: self == tmp_path)
    for folder in (tmp_path / "store", tmp_path):
        FileObjects(folder).begin()
        assert FileObjects(folder).is_begun()


def test_a_store_of_an_earlier_version_gets_the_mark_if_that_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = FileObjects(tmp_path)
    objects.put("metadata/journal/0000000001", b"{}", ABSENT)
    assert objects.is_begun()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", refuse)
        objects.begin()
    assert not (tmp_path / MARKER).exists()
    objects.begin()
    assert (tmp_path / MARKER).exists()
