"""The words by which a step of a pipeline sees its folders. Steps really see them in tests/e2e."""

from pathlib import Path

import pytest

from tfoperator.launcher import PermanentFailure
from tfoperator.launcher.core.context import FolderMount
from tfoperator.local.runtime.process.container_main import COMMAND, decode
from tfoperator.local.runtime.process.mounts import mounted_command


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("source/part", "there", "work"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mounted_command, "_is_possible", lambda: True)
    return tmp_path


def binds(folders: Path, *mounts: FolderMount) -> list[tuple[str, str, bool]]:
    words = mounted_command.mounted_command(mounts, [folders / "work"])
    assert words is not None
    shell, arguments = words[:4], words[4:]
    assert shell == ["/bin/sh", "-c", 'exec "$@" 9>&2', "mounts"]
    assert tuple(arguments[: len(COMMAND)]) == COMMAND
    mode, report, *directories = arguments[len(COMMAND) : len(COMMAND) + 4]
    assert (mode, report, directories) == ("run", "9", [str(folders / "work")] * 2)
    mirrors, bound, command = decode(arguments[len(COMMAND) + 4 :])
    assert (mirrors, command) == ([], [])
    return bound


def test_a_folder_is_bound_to_its_path_and_the_places_of_the_program_stay_visible(folders: Path) -> None:
    source, there = str(folders / "source"), str(folders / "there")
    assert binds(folders, FolderMount(source, there, read_only=True)) == [(source, there, True)]
    above = binds(folders, FolderMount(source, str(folders)))
    assert above[0] == (source, str(folders), False)
    assert (str(folders / "work"), str(folders / "work"), False) in above


def test_a_path_that_is_missing_in_a_persons_folder_is_refused(folders: Path) -> None:
    with pytest.raises(PermanentFailure, match="missing, which does not exist: create it first"):
        binds(folders, FolderMount(str(folders / "source"), str(folders / "missing")))
    assert not (folders / "missing").exists()


def test_a_source_that_is_missing_is_refused(folders: Path) -> None:
    with pytest.raises(PermanentFailure, match="its content does not exist on this machine"):
        binds(folders, FolderMount(str(folders / "none"), str(folders / "there")))


def test_where_namespaces_are_forbidden_there_are_no_such_words(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounted_command, "_is_possible", lambda: False)
    assert mounted_command.mounted_command([FolderMount("/a", "/b")], [folders]) is None
