from datetime import UTC, datetime
from pathlib import Path

import pytest

from hack.s3_server import BUCKET
from tests.support.services import s3, s3_variables
from tfoperator.launcher import Execution, LaunchContext
from tfoperator.launcher.core.component import Artifact
from tfoperator.object_store import Objects, ObjectStoreError
from tfoperator.pipeline import Home, RunInProgress
from tfoperator.pipeline.driver import publish
from tfoperator.pipeline.lease import RunLease
from tfoperator.pipeline.runner import leftovers
from tfoperator.pipeline.runner.leftovers import clean_run, old_runs
from tfoperator.pipeline.store.metadata_store import MetadataStore
from tfoperator.pipeline.store.records import ArtifactRecord, ExecutionRecord, RunRecord

__all__ = ["s3", "s3_variables"]

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def over(store: MetadataStore, root: Path | str, name: str, *uris: str) -> RunRecord:
    """A run whose only step has put out what is at these URIs."""
    run = RunRecord(name, "p", "succeeded", str(root), "f", NOW, steps={"a": ()})
    store.put_run(run)
    planned = ArtifactRecord(0, "T", f"{root}/a/o/{name}", "PENDING")
    new = ExecutionRecord(0, name, "a", "A", "RUNNING", outputs={"o": (planned,)})
    begun = store.begin_execution(run, new, NOW)
    outputs = {"o": tuple([Artifact(uri) for uri in uris])}
    publish(store, Execution(begun.id, "a", "succeeded", outputs=outputs, ended=NOW), run, {})
    return run


def test_only_what_lies_where_the_runs_outputs_go_is_removed(tmp_path: Path) -> None:
    """output.json names any URI it likes."""
    home, root = Home(tmp_path / "home"), tmp_path / "root"
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("somebody else's")
    link = root / "a" / "o" / "linked"
    link.parent.mkdir(parents=True)
    link.symlink_to(victim)
    own = root / "a" / "o" / "own"
    own.mkdir()
    with home.store() as store:
        for name, uri in (("elsewhere", str(victim)), ("upwards", f"{root}/a/o/upwards/../../../../victim")):
            assert clean_run(home, store, over(store, root, name, uri), outputs=True) == []
        assert clean_run(home, store, over(store, root, "linked", str(link)), outputs=True) == [str(link)]
        assert clean_run(home, store, over(store, root, "own", str(own), str(victim)), outputs=True) == [str(own)]
        assert store.runs() == []
        assert store.artifacts(str(own))[0].state == "DELETED"
    assert (victim / "file").read_text() == "somebody else's"
    assert list(link.parent.iterdir()) == []


@pytest.mark.full
def test_of_objects_too_only_what_lies_there_is_removed(s3: dict[str, str], tmp_path: Path) -> None:
    home, root = Home(tmp_path / "home"), f"s3://{BUCKET}/{tmp_path.name}"
    objects = Objects(root)
    keys = ["a/o/one", "a/o/many/0", "a/o/many/10", "a/o/many/x", "a/o/other/0", "elsewhere"]
    for key in keys:
        objects.put(key, b"x")
    elsewhere = [f"{root}/a/o/many/{end}" for end in ("x", "../../../elsewhere", "..", "0?x")]
    with home.store() as store:
        many = [f"{root}/a/o/many/0", *elsewhere, f"{root}/elsewhere", f"{root}/a/o/many/10", f"{root}/a/o/many/11"]
        assert clean_run(home, store, over(store, root, "many", *many), outputs=True) == [many[0], many[-2]]
        assert clean_run(home, store, over(store, root, "one", f"{root}/a/o/one"), outputs=True)
        lost = over(store, "s3://nobucket/x", "lost", "s3://nobucket/x/a/o/lost")
        with pytest.raises(ObjectStoreError):
            clean_run(home, store, lost, outputs=True)
        assert [run.id for run in store.runs()] == ["lost"]
    assert [obj.key for obj in objects.all()] == ["a/o/many/x", "a/o/other/0", "elsewhere"]


def test_a_run_is_taken_over_before_it_is_stopped_from_its_end_and_over_when_its_steps_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunRecord("r", "p", "running", str(tmp_path), "f", NOW, steps={"a": (), "b": ("a",)})
    home, done = Home(tmp_path / "home"), list[tuple[str, ...]]()
    monkeypatch.setattr(leftovers, "stop_recorded", lambda folder, *_: done.append(("stop", folder.name)))
    monkeypatch.setattr(home.logs, "flush", lambda: done.append(("flush",)))
    monkeypatch.setattr(RunLease, "release", lambda _: done.append(("release",)))
    with home.store() as store:
        store.put_run(run)
        for step in run.steps:
            store.begin_execution(run, ExecutionRecord(0, "r", step, "A", "RUNNING"), NOW)
        for name in ("put_run", "publish"):
            write = lambda run, *_, name=name: done.append((name, run.state, str(run.term)))  # noqa: E731
            monkeypatch.setattr(store, name, write)
        leftovers.stop_run(home, store, run, LaunchContext())
    assert done == [
        ("put_run", "running", "1"),
        *[call for step in "ba" for call in (("stop", step), ("publish", "running", "1"))],
        ("put_run", "cancelled", "1"),
        ("flush",),
        ("release",),
    ]


def test_old_runs_are_those_beyond_the_newest_that_are_over(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with home.store() as store:
        for number in range(4):
            over(store, tmp_path, f"r{number}")
        assert [run.id for run in old_runs(home, store, 2)] == ["r1", "r0"]
        with home.lock(store, "r0"), pytest.raises(RunInProgress):
            clean_run(home, store, old_runs(home, store, 3)[0], outputs=False)
