"""The temporary directories of homes in a database, and those that killed processes have left."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, cast

import msgspec
import pytest

from tests.unit.pipeline.samples import diamond, home_of, runner
from tfoperator.base.files import hold_lock
from tfoperator.launcher import LaunchContext
from tfoperator.pipeline import finish_run, stop_run
from tfoperator.pipeline.home import Home
from tfoperator.pipeline.store.database import StoreError
from tfoperator.pipeline.store.metadata_store import MetadataStore
from tfoperator.pipeline.store.records import RunRecord, RunState

ALL = ["ended", "going", "unknown"]


class Store:
    """The states of two runs."""

    states: ClassVar[dict[str, RunState]] = {"ended": "succeeded", "going": "running"}

    def run(self, run_id: str) -> RunRecord | None:
        state = self.states.get(run_id)
        return state and RunRecord(run_id, "p", state, "/root", "f", datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary directories."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"postgresql://host/db?folder={tmp_path}/logs"


@pytest.fixture
def home(temporary: Path, place: str) -> Iterator[Home]:
    """The home of a later command, after the process of an earlier command was killed."""
    with closing(Home(place)) as killed:
        for run in ALL:
            folder = killed.step_folder(run, "train") / "mounts"
            folder.mkdir(parents=True)
            (folder / "password").write_text("s3cret")
        # After `kill -9`, the directory stays, and the kernel has released the lock of its owner.
        shutil.copytree(killed.path, temporary / f"{killed.path.name}-killed")
    with closing(Home(place)) as later:
        yield later


def runs_left(temporary: Path) -> list[str]:
    """The runs whose working directories exist, and contain a Secret."""
    return sorted(file.parents[3].name for file in temporary.rglob("password"))


def test_the_directories_of_a_run_of_a_killed_process_are_removed_when_the_run_is_over(
    home: Home, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runs_left(temporary) == ALL
    home.remove_left(cast(MetadataStore, Store()))
    assert runs_left(temporary) == ["going", "unknown"]
    monkeypatch.setattr(Store, "states", dict.fromkeys(ALL, "cancelled"))
    home.remove_left(cast(MetadataStore, Store()))
    assert [temporary / home.path.name] == list(temporary.iterdir()), "the whole directory is gone"


def test_directories_that_a_process_still_uses_stay(home: Home, temporary: Path) -> None:
    (password,) = temporary.glob("*/runs/ended/steps/train/mounts/password")
    lock = password.parents[1] / "processes" / "train-1" / "lock"
    lock.parent.mkdir(parents=True)
    with hold_lock(lock) or pytest.fail("locked"):
        home.remove_left(cast(MetadataStore, Store()))
    assert runs_left(temporary) == ALL
    owner = password.parents[5] / "owner"
    with hold_lock(owner) or pytest.fail("locked"):
        home.remove_left(cast(MetadataStore, Store()))
    assert runs_left(temporary) == ALL


def test_directories_of_another_database_or_that_others_may_use_stay(
    home: Home, temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Home(f"postgresql://host/other?folder={tmp_path}/logs")) as other:
        other.remove_left(cast(MetadataStore, Store()))
    assert runs_left(temporary) == ALL

    def fail(_: Store, run_id: str) -> None:
        raise StoreError("the database can't be reached")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "run", fail)
        home.remove_left(cast(MetadataStore, Store()))
    assert runs_left(temporary) == ALL
    (password,) = temporary.glob("*/runs/ended/steps/train/mounts/password")
    password.parents[5].chmod(0o755)
    home.remove_left(cast(MetadataStore, Store()))
    assert runs_left(temporary) == ALL
    with closing(Home(tmp_path / "home")) as local:
        local.remove_left(cast(MetadataStore, Store()))
    assert runs_left(temporary) == ALL


def test_every_end_of_a_run_removes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[RunState]] = []
    monkeypatch.setattr(Home, "remove_left", lambda _, store: seen.append([run.state for run in store.runs()]))
    runner(tmp_path).run(diamond(tmp_path))
    assert seen == [["succeeded"]]
    home = home_of(tmp_path)
    with home.store() as store:
        for end in (stop_run, finish_run):
            (run,) = store.runs()
            running = msgspec.structs.replace(run, state="running", ended=None, term=run.lease.term)
            store.put_run(running)
            end(home, store, running, LaunchContext())
    assert seen[1:] == [["cancelled"], ["succeeded"]]
