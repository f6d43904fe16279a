"""A folder that users share: whoever made `.tfoperator` first must not decide what another user runs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run
from tfoperator.base.private_files import OWN, make_folders
from tfoperator.launcher.core.errors import ComponentError
from tfoperator.launcher.core.metadata import LocalMetadata
from tfoperator.launcher.core.record import WorkDirectory
from tfoperator.pipeline import Home

THEIRS = "another user can replace the files in it"


@pytest.fixture
def shared(
    request: pytest.FixtureRequest, tmp_path: Path, give_away: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A shared folder in which another user has made `.tfoperator`, or a place in it."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / OWN / request.param
    make_folders(place)
    give_away(place)
    return place


USERS: list[tuple[str, Callable[[], object]]] = [
    ("pipelines", lambda: Home(Path(OWN, "pipelines"))),
    ("launches", lambda: WorkDirectory(Path(OWN, "launches", "step")).__enter__()),
    ("executions", lambda: LocalMetadata(Path(OWN, "executions"))),
]


@pytest.mark.parametrize(
    ("shared", "use"), [(place, use) for name, use in USERS for place in ("", name)], indirect=["shared"]
)
def test_places_that_another_user_has_made_are_refused(shared: Path, use: Callable[[], object]) -> None:
    with pytest.raises(ComponentError, match=THEIRS):
        use()


@pytest.mark.parametrize("shared", ["", "checkpoints"], indirect=True)
def test_checkpoints_of_another_user_are_not_resumed(shared: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    result = run("run", "train.py", "--workers", "1", "--resume", code=2)
    assert THEIRS in result.err
    assert "--checkpoint" in result.err


@pytest.mark.parametrize("shared", ["", "pipelines"], indirect=True)
def test_the_page_and_the_lists_of_pipelines_refuse_them_too(shared: Path, run: Run) -> None:
    for command in (["pipeline", "runs"], ["pipeline", "show", "latest"], ["pipeline", "ui"]):
        result = run(*command)
        assert THEIRS in result.err, command
        assert result.code != 0


@pytest.mark.parametrize("shared", ["", "executions"], indirect=True)
def test_a_cache_of_another_user_is_not_used(shared: Path, run: Run, tmp_path: Path) -> None:
    component = {"name": "step", "container": {"image": "x", "command": ["true"]}}
    (tmp_path / "step.yaml").write_text(json.dumps(component))
    result = run("launch", "step.yaml", "--cache", "--dry-run")
    assert THEIRS in result.err
    assert result.code != 0
