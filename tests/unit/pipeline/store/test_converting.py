"""Files of the first release are converted when they are opened, and kept as they were."""

import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tfoperator.pipeline.store.database import StoreError
from tfoperator.pipeline.store.metadata_store import MetadataStore, lineage_of

TABLES = """
CREATE TABLE "Type" (id INTEGER PRIMARY KEY, name VARCHAR(255), type_kind VARCHAR(16), UNIQUE (name, type_kind));
CREATE TABLE "Artifact" (id INTEGER PRIMARY KEY, type_id INTEGER, uri TEXT, state VARCHAR(16), properties JSON,
                         made BOOLEAN, create_time VARCHAR(40));
CREATE INDEX "ix_Artifact_uri" ON "Artifact" (uri);
CREATE TABLE "Execution" (id INTEGER PRIMARY KEY, type_id INTEGER, name VARCHAR(255), last_known_state VARCHAR(16),
                          cache_key VARCHAR(64), properties JSON, create_time VARCHAR(40), last_update_time TEXT);
CREATE TABLE "Context" (id INTEGER PRIMARY KEY, type_id INTEGER, name VARCHAR(255), properties JSON,
                        create_time VARCHAR(40), UNIQUE (type_id, name));
CREATE TABLE "Event" (id INTEGER PRIMARY KEY, artifact_id INTEGER, execution_id INTEGER, type VARCHAR(8),
                      name VARCHAR(255), position INTEGER);
CREATE TABLE "Association" (execution_id INTEGER, context_id INTEGER, PRIMARY KEY (execution_id, context_id));
CREATE TABLE "Attribution" (artifact_id INTEGER, context_id INTEGER, PRIMARY KEY (artifact_id, context_id));
CREATE TABLE "ParentContext" (context_id INTEGER, parent_context_id INTEGER,
                              PRIMARY KEY (context_id, parent_context_id));
CREATE INDEX association_by_context ON "Association" (context_id);
INSERT INTO "Type" VALUES (1, 'run', 'context'), (2, 'pipeline', 'context'), (3, 'Kind', 'execution'),
                          (4, 'Model', 'artifact');
PRAGMA user_version = 1;
"""
AT = "2026-01-01T00:00:00+00:00"


def first_release(path: Path, runs: int) -> None:
    """Runs of two steps; the second reads what the first has made, at two inputs."""
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(TABLES)
        db.execute("INSERT INTO Context VALUES (1, 2, 'p', '{}', ?)", (AT,))
        for n in range(1, runs + 1):
            record = {
                "id": f"r{n}", "pipeline": "p", "state": "succeeded", "root": "/root", "fingerprint": "f", "began": AT,
                "steps": {"a": [], "b": ["a"]}, "term": 3,
            }  # fmt: skip
            db.execute("INSERT INTO Context VALUES (?, 1, ?, ?, ?)", (n + 1, f"r{n}", json.dumps(record), AT))
            db.execute("INSERT INTO ParentContext VALUES (?, 1)", (n + 1,))
            for at, step in enumerate("ab"):
                one = 2 * n + at
                facts = {"message": "m\0", "image_id": "sha256:1", "exec_properties": {"x": 10**12, "y": at or "text"}}
                row = (one, step, f"k{n}", json.dumps(facts), AT, AT)
                db.execute("INSERT INTO Execution VALUES (?, 3, ?, 'COMPLETE', ?, ?, ?, ?)", row)
                row = (one, f"/{step}{n}", json.dumps({"rows": n, "more": [1]}), AT)
                db.execute("INSERT INTO Artifact VALUES (?, 4, ?, 'LIVE', ?, 1, ?)", row)
                db.execute("INSERT INTO Event VALUES (NULL, ?, ?, 'OUTPUT', 'o', 0)", (one, one))
                for context in (1, n + 1):
                    db.execute("INSERT INTO Association VALUES (?, ?)", (one, context))
                    db.execute("INSERT INTO Attribution VALUES (?, ?)", (one, context))
            for name in ("i", "j"):
                db.execute("INSERT INTO Event VALUES (NULL, ?, ?, 'INPUT', ?, 0)", (2 * n, 2 * n + 1, name))


def test_what_the_first_release_has_recorded_is_read_and_used_as_before(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    first_release(path, 2)
    with pytest.raises(StoreError, match="has not the present format: `tfoperator pipeline runs` converts it"):
        MetadataStore(path, read_only=True)
    for _ in range(2):
        with MetadataStore(path) as store:
            runs = [(run.id, run.lease.term, run.steps) for run in store.runs()]
            assert runs == [(name, 3, {"a": (), "b": ("a",)}) for name in ("r2", "r1")]
            (found,) = store.usable("p", "b", "k2")
            assert (found.run_id, found.message, found.image_id) == ("r2", "m\0", "sha256:1")
            assert found.exec_properties == {"x": 10**12, "y": 1}
            assert [name for name, (one,) in found.inputs.items() if one.uri == "/a2"] == ["i", "j"]
            (made,) = found.outputs["o"]
            assert (made.type, made.properties, made.made) == ("Model", {"rows": 2, "more": [1]}, True)
            assert found.began == found.ended == datetime(2026, 1, 1, tzinfo=UTC)
            assert [one.artifact.uri for one in lineage_of(store, made).next] == ["/a2"]
            assert store.executions("r1")["a"].exec_properties["y"] == "text"
    copy = path.with_name("metadata-before-schema-10.db")
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("SELECT count(*) FROM Event").fetchone() == (8,)
    assert copy.stat().st_mode & 0o777 == 0o600


@pytest.mark.full
def test_ten_thousand_runs_are_converted_within_half_a_minute(tmp_path: Path) -> None:
    first_release(tmp_path / "metadata.db", 10_000)
    began = time.monotonic()
    with MetadataStore(tmp_path / "metadata.db") as store:
        assert len(store.runs()) == 10_000
    assert time.monotonic() - began < 30
