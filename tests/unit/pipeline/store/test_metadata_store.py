import functools
import multiprocessing
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from tests.support.threads import run_at_once
from tests.unit.pipeline.samples import Place, home_of
from tfoperator.launcher import OwnershipLost
from tfoperator.pipeline import Home
from tfoperator.pipeline.store.database import StoreError
from tfoperator.pipeline.store.metadata_store import MetadataStore, lineage_of
from tfoperator.pipeline.store.records import ArtifactRecord, ExecutionRecord, Maker, RecordedLease, RunRecord

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def run(name: str = "r1", pipeline: str = "p") -> RunRecord:
    return RunRecord(name, pipeline, "running", "/root", "f", NOW, steps={"a": (), "b": ("a",)})


def ended(store: MetadataStore, execution: ExecutionRecord, *outputs: ArtifactRecord, **more: Any) -> None:
    values = {"state": "COMPLETE", "image_id": "sha256:1", "outputs": {"o": outputs}, **more}
    store.publish(run(), msgspec.structs.replace(execution, **values), NOW)


def artifact(uri: str, properties: Any = None, kind: str = "Model", *, made: bool = False) -> ArtifactRecord:
    return ArtifactRecord(0, kind, uri, "LIVE", properties or {}, made=made)


@pytest.fixture
def store(tmp_path: Path, place: Place) -> Iterator[MetadataStore]:
    with home_of(tmp_path).store() as metadata_store:
        metadata_store.put_run(run())
        yield metadata_store


def begin(store: MetadataStore, step: str = "a", inputs: Any = None, **more: Any) -> Any:
    outputs = {"o": (ArtifactRecord(0, "Model", f"/{step}", "PENDING"),)}
    values = {"exec_properties": {"x": 1}, "inputs": inputs or {}, "outputs": outputs, **more}
    return store.begin_execution(run(), ExecutionRecord(0, "r1", step, "Kind", "RUNNING", **values), NOW)


def again(store: MetadataStore, earlier: ExecutionRecord) -> ExecutionRecord:
    return store.begin_execution(run("r2"), msgspec.structs.replace(earlier, state="CACHED"), NOW)


def made(store: MetadataStore, step: str = "a", inputs: Any = None) -> Any:
    """An execution that has succeeded, with one output."""
    execution = begin(store, step, inputs)
    ended(store, execution, artifact(f"/{step}", made=True))
    return execution


def test_an_execution_is_begun_once_and_its_outputs_come_to_life_when_it_has_succeeded(store: MetadataStore) -> None:
    first = begin(store)
    assert begin(store).id == first.id
    assert [output.state for output in first.outputs["o"]] == ["PENDING"]
    for _ in range(2):
        ended(store, first, artifact("/a", {"rows": 3}, made=True), artifact("/more"))
    saved = store.executions("r1")["a"]
    assert (saved.state, saved.image_id, saved.exec_properties, saved.ended) == ("COMPLETE", "sha256:1", {"x": 1}, NOW)
    assert [
        (output.uri, output.state, output.properties, output.made, output.type) for output in saved.outputs["o"]
    ] == [
        ("/a", "LIVE", {"rows": 3}, True, "Model"),
        ("/more", "LIVE", {}, False, "Model"),
    ]


def test_what_a_failure_was_to_make_is_abandoned_and_planned_again_when_it_goes_on(store: MetadataStore) -> None:
    execution = begin(store)
    ended(store, execution, state="FAILED", message="no disk")
    saved = store.executions("r1")["a"]
    assert (saved.message, saved.outputs["o"][0].state, saved.run_id) == ("no disk", "ABANDONED", "r1")
    ended(store, execution, state="RUNNING")
    now = store.executions("r1")["a"]
    assert (now.state, now.ended, now.outputs["o"][0].state) == ("RUNNING", None, "PENDING")


def test_a_success_is_found_by_its_key_in_its_own_pipeline(store: MetadataStore) -> None:
    execution = begin(store, cache_key="k")
    assert store.usable("p", "a", "k") == []
    ended(store, execution, artifact("/a"))
    assert [usable.id for usable in store.usable("p", "a", "k")] == [execution.id]
    assert store.usable("other", "a", "k") == store.usable("p", "b", "k") == store.usable("p", "a", "z") == []
    store.put_run(run("r2"))
    used = again(store, store.usable("p", "a", "k")[0])
    assert (used.state, used.outputs["o"][0].id, used.run_id) == ("CACHED", execution.outputs["o"][0].id, "r2")


def test_lineage_goes_up_and_down_and_not_in_circles(store: MetadataStore) -> None:
    given = store.external_artifact(artifact("/in"), NOW)
    assert store.external_artifact(artifact("/in"), NOW).id == given.id
    assert store.external_artifact(artifact("/in", {"v": 2}), NOW).id != given.id
    first = made(store, inputs={"i": (given,)})
    made(store, "b", inputs={"i": first.outputs["o"], "j": (given,)})
    up = lineage_of(store, store.artifacts("/b")[0])
    assert [execution.step for execution in up.executions] == ["b"]
    assert [node.artifact.uri for node in up.next] == ["/a", "/in"]
    assert [node.repeated for node in up.next] == [False, True]
    down = lineage_of(store, store.artifacts(str(given.id))[0], downstream=True)
    assert sorted(node.artifact.uri for node in down.next) == ["/a", "/b"]


def test_a_run_is_listed_whose_record_has_no_value_of_a_member(store: MetadataStore) -> None:
    nothing: Any = None
    store.put_run(msgspec.structs.replace(run(), parameters=nothing))
    assert store.runs() == [run()]


def test_runs_are_listed_and_forgotten_but_not_what_they_made(store: MetadataStore) -> None:
    made(store)
    store.put_run(run("r2", "q"))
    assert [listed_run.id for listed_run in store.runs()] == ["r2", "r1"]
    assert [listed_run.id for listed_run in store.runs("p")] == ["r1"]
    store.forget_run("r1")
    assert store.run("r1") is None
    assert [execution.step for execution in lineage_of(store, store.artifacts("/a")[0]).executions] == ["a"]


@pytest.mark.usefixtures("place")
def test_threads_and_processes_share_the_records(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for attempt in range(5):  # each opens the records anew, while others have them open
            home = home_of(tmp_path)
            with home.store() as store:
                store.put_run(run(f"{number}-{attempt}"))
            home.reading().database.changes()

    children = [multiprocessing.get_context("fork").Process(target=write, args=(10 + n,)) for n in range(2)]
    for child in children:
        child.start()
    run_at_once(*(functools.partial(write, number) for number in range(4)))
    for child in children:
        child.join(60)
    with home_of(tmp_path).store() as store:
        assert len(store.runs()) == 30
    for file in (tmp_path / "home").glob("metadata.*"):
        assert file.stat().st_mode & 0o077 == 0


def test_a_file_that_is_none_or_of_another_format_is_an_error_that_names_it_and_a_reader_makes_nothing(
    tmp_path: Path,
) -> None:
    odd = tmp_path / "odd.db"
    odd.write_text("this is no database at all, but long enough to be taken for one: " * 20)
    with pytest.raises(StoreError, match=r"odd\.db"):
        MetadataStore(odd)
    for version in (1, 99):
        other = tmp_path / f"format-{version}.db"
        with closing(sqlite3.connect(other)) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(StoreError, match=f"format-{version}.db has format {version}, but this tfoperator reads"):
            MetadataStore(other)
        assert str(other) not in {file.path for file in psutil.Process().open_files()}
    with pytest.raises(StoreError, match="No such file"):
        MetadataStore(tmp_path / "other" / "metadata.db", read_only=True)
    assert not (tmp_path / "other").exists()
    assert not Home(tmp_path / "nothing").exists()


def test_a_reader_writes_nothing_and_sees_what_others_write(store: MetadataStore, tmp_path: Path) -> None:
    with home_of(tmp_path).store(read_only=True) as reader:
        with pytest.raises(StoreError, match=r"readonly|permission denied|read-only"):
            reader.put_run(run("r2"))
        before = reader.database.changes()
        reader.runs()
        if before.count(":") == 0:  # PostgreSQL's changes with any database of its server
            assert reader.database.changes() == before
        store.put_run(run("r2"))
        assert reader.database.changes() != before
        store.put_run(run("r3", "q"))
        assert [listed_run.id for listed_run in reader.runs(most=2)] == ["r3", "r2"]


VALUES = {
    "small": 2**31 - 1, "large": 10**18, "negative": -(2**31), "half": 0.5, "text": "x\u2603\U0001f600", "empty": "",
    "true": True, "nothing": None, "list": [1, "a"], "nul": "a\0b", "half a pair": "\ud800", "endless": float("inf"),
}  # fmt: skip


def test_each_value_of_a_property_is_stored_alike(store: MetadataStore) -> None:
    execution = begin(store, exec_properties=VALUES)
    assert execution.exec_properties == VALUES
    for values in (VALUES, {**VALUES, "small": "another type", "text": 3, "nan": float("nan")}):
        ended(store, execution, artifact("/a", values))
        properties = store.artifacts("/a")[0].properties
        assert repr(sorted(properties.items())) == repr(sorted(values.items()))


@pytest.mark.parametrize("name", ["x" * 256, "a\0b", "\udcff"])
def test_a_name_that_one_engine_does_not_take_is_refused_on_both(store: MetadataStore, name: str) -> None:
    for write in (
        lambda: store.put_run(run(name)),
        lambda: begin(store, name),
        lambda: store.external_artifact(artifact("/x", kind=name), NOW),
        lambda: store.external_artifact(artifact("/x", {name: 1}), NOW),
    ):
        with pytest.raises(StoreError, match="a name may have at most 255"):
            write()
    assert store.artifacts("1" * 18) == store.artifacts(str(2**31)) == []
    assert ([listed_run.id for listed_run in store.runs()], store.executions("r1")) == (["r1"], {})


def test_who_has_lost_a_lease_writes_nothing_more_for_its_run_or_step(store: MetadataStore) -> None:
    for name in ("r1", "r1/a", f"{'r' * 100}/{'s' * 253}"):  # the longest that there are
        for term in (1, 2):
            assert store.take_lease(name, RecordedLease(holder=f"h{term}", host="h"), -10.0) == term
    old, older = (msgspec.structs.replace(run(), term=1), msgspec.structs.replace(run(), term=2, step_terms={"a": 1}))
    for late in (old, older):
        for write in (
            lambda late=late: store.put_run(late),
            lambda late=late: store.put_launch(late, "a", b"{}"),
            lambda late=late: store.begin_execution(late, ExecutionRecord(0, "r1", "a", "Kind", "RUNNING"), NOW),
        ):
            with pytest.raises(OwnershipLost):
                write()
    assert (store.launch("r1", "a"), store.executions("r1")) == (None, {})
    store.put_launch(msgspec.structs.replace(older, step_terms={"a": 2}), "a", b"{}")
    assert store.launch("r1", "a") == b"{}"


def test_states_of_many_runs_and_who_has_made_an_artifact(store: MetadataStore) -> None:
    made(store)
    (output,) = store.executions("r1")["a"].outputs["o"]
    store.put_run(run("r2"))
    used = again(store, store.executions("r1")["a"])
    assert store.execution_states() == {"r1": {"a": "COMPLETE"}, "r2": {"a": "CACHED"}}
    assert store.execution_states(most=1) == {"r2": {"a": "CACHED"}}
    assert store.makers("r2") == {output.id: Maker("r1", "a")}
    assert used.outputs["o"] == (output,)
    store.forget_run("r1")
    assert store.makers("r2") == {output.id: Maker("", "a")}


def test_a_long_lineage_is_cut_and_says_so(store: MetadataStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is trained on for ever: Python's calls and JSON's levels have limits."""
    monkeypatch.setattr("tfoperator.pipeline.store.metadata_store._DEEPEST", 3)
    inputs: dict[str, tuple[ArtifactRecord, ...]] = {}
    for number in range(6):
        (model,) = begin(store, str(number), inputs).outputs["o"]
        inputs = {"i": (model,)}
    tree = lineage_of(store, store.artifacts(str(model.id))[0])
    uris = []
    while tree.next:
        uris.append(tree.artifact.uri)
        (tree,) = tree.next
    assert (uris, tree.artifact.uri, tree.cut, tree.executions) == (["/5", "/4", "/3"], "/2", True, ())


def put_out(
    store: MetadataStore, number: int, properties: Any, pipeline: str = "p", minutes: int = 0
) -> ArtifactRecord:
    """Return the artifact of a run that has ended."""
    at, pipeline_run = NOW + timedelta(minutes=minutes), run(f"n{number}", pipeline)
    outputs = {"o": (ArtifactRecord(0, "Model", f"/n{number}", "PENDING"),)}
    begun = store.begin_execution(
        pipeline_run, ExecutionRecord(0, pipeline_run.id, "a", "Kind", "RUNNING", outputs=outputs), at
    )
    done = {"o": (artifact(f"/n{number}", properties, made=True),)}
    store.publish(pipeline_run, msgspec.structs.replace(begun, state="COMPLETE", outputs=done), at)
    return store.executions(pipeline_run.id)["a"].outputs["o"][0]


def test_the_newest_artifact_is_one_of_the_pipeline_and_older_than_the_run(store: MetadataStore) -> None:
    later = msgspec.structs.replace(run("later"), began=NOW + timedelta(minutes=10))
    assert store.newest_artifacts(later, "Model", {}) == []
    odd = "'; DROP TABLE artifact; --"
    blessed = put_out(store, 1, {"blessed": 1, "flag": True, "text": odd, "exact": 0.5})
    plain = put_out(store, 2, {"blessed": 0}, minutes=1)
    put_out(store, 3, {"blessed": 1}, "other", minutes=2)
    put_out(store, 4, {"blessed": 1}, minutes=11)  # after the run has begun
    begin(store)  # it has put out nothing yet
    assert store.newest_artifacts(later, "Model", {}) == [plain]
    assert store.newest_artifacts(later, "Examples", {}) == []
    for wanted in (
        {"properties.blessed": 1.0},
        {"properties.blessed": 1},
        {"properties.flag": True},
        {"properties.text": odd},
        {"properties.exact": 0.5, "uri": "/n1"},
    ):
        assert store.newest_artifacts(later, "Model", wanted) == [blessed]
    for wanted in (
        {"properties.blessed": 2},
        {"properties.blessed": "1"},
        {"properties.blessed": 1e300},
        {"properties.gone": 1},
        {"properties.text": "%"},
    ):
        assert store.newest_artifacts(later, "Model", wanted) == []
    store.mark_deleted([plain.uri])
    assert store.newest_artifacts(later, "Model", {}) == [blessed]
