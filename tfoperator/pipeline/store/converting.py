"""Converts a SQLite file of the releases before ML Metadata's schema, in one transaction; a copy of it is kept."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from tfoperator.pipeline.store.properties import Kinds, property_rows
from tfoperator.pipeline.store.tables import ARTIFACT_STATES, EVENTS, EXECUTION_STATES, KINDS

_OLD = ("Type", "Artifact", "Execution", "Context", "Event", "Association", "Attribution", "ParentContext")
_RUN = "pipeline_run"


def kept_copy(path: Path) -> Path:
    """Return where the file as it was before is."""
    return path.with_name(f"{path.stem}-before-schema-10{path.suffix}")


def convert(db: sqlite3.Connection, path: Path, make_tables: Callable[[], None]) -> None:
    """Convert the file, in the transaction of `db`."""
    copy = kept_copy(path)
    os.close(os.open(copy, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    for name in _OLD:
        db.execute(f'ALTER TABLE "{name}" RENAME TO "old_{name}"')
    for (index,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").fetchall():
        db.execute(f'DROP INDEX "{index}"')
    make_tables()
    _types_and_artifacts(db)
    _executions(db)
    _contexts(db)
    _events(db)
    for name in reversed(_OLD):
        db.execute(f'DROP TABLE "old_{name}"')


def _types_and_artifacts(db: sqlite3.Connection) -> None:
    rows = db.execute("SELECT id, name, type_kind FROM old_Type").fetchall()
    names = {"run": _RUN}
    _insert(
        db,
        "type (id, name, type_kind)",
        [(one, names.get(name, name) if kind == "context" else name, KINDS[kind]) for one, name, kind in rows],
    )
    found = db.execute("SELECT id, type_id, uri, state, properties, made, create_time FROM old_Artifact").fetchall()
    columns = "artifact (id, type_id, uri, state, create_time_since_epoch, last_update_time_since_epoch)"
    _insert(
        db,
        columns,
        [
            (one, kind, uri, ARTIFACT_STATES.index(state), _time(at), _time(at))
            for one, kind, uri, state, _, _, at in found
        ],
    )
    _insert(db, "tfoperator_artifact (artifact_id, made)", [(one[0], one[5]) for one in found])
    _properties(db, "artifact", [(one[0], one[1], json.loads(one[4])) for one in found])


def _executions(db: sqlite3.Connection) -> None:
    found = db.execute(
        "SELECT id, type_id, name, last_known_state, cache_key, properties, create_time, last_update_time"
        " FROM old_Execution"
    ).fetchall()
    columns = "execution (id, type_id, last_known_state, create_time_since_epoch, last_update_time_since_epoch)"
    _insert(
        db,
        columns,
        [
            (one, kind, EXECUTION_STATES.index(state), _time(at), _time(ended or at))
            for one, kind, _, state, _, _, at, ended in found
        ],
    )
    known = {one[0]: json.loads(one[5]) for one in found}
    _insert(
        db,
        "tfoperator_execution (execution_id, step, cache_key, image_id, message)",
        [
            (one, step, key, known[one].get("image_id", ""), json.dumps(known[one].get("message", "")))
            for one, _, step, _, key, _, _, _ in found
        ],
    )
    _properties(db, "execution", [(one[0], one[1], known[one[0]].get("exec_properties") or {}) for one in found])


def _contexts(db: sqlite3.Connection) -> None:
    found = db.execute(
        "SELECT old_Context.id, type_id, old_Context.name, properties, create_time, old_Type.name"
        " FROM old_Context JOIN old_Type ON old_Type.id = type_id"
    ).fetchall()
    columns = "context (id, type_id, name, create_time_since_epoch, last_update_time_since_epoch)"
    _insert(db, columns, [(one[0], one[1], one[2], _time(one[4]), _time(one[4])) for one in found])
    runs = [(one[0], json.loads(one[3]), one[2]) for one in found if one[5] == "run"]
    _insert(db, "tfoperator_run (context_id, record)", [(one, json.dumps(record)) for one, record, _ in runs])
    _insert(
        db,
        "tfoperator_lease (name, term, holder, until, host, process, kernel)",
        [(name, record.get("term", 0), "", 0.0, "", 0, "") for _, record, name in runs],
    )
    for table, columns in (
        ("Association", "context_id, execution_id"),
        ("Attribution", "context_id, artifact_id"),
        ("ParentContext", "context_id, parent_context_id"),
    ):
        db.execute(f"INSERT INTO {table.lower()} ({columns}) SELECT {columns} FROM old_{table}")


def _events(db: sqlite3.Connection) -> None:
    """One event for an artifact of an execution, however often it is used there."""
    db.execute(
        "INSERT INTO event (id, artifact_id, execution_id, type, milliseconds_since_epoch)"
        f" SELECT min(e.id), e.artifact_id, e.execution_id, {_number('e.type')}, x.create_time_since_epoch"
        " FROM old_Event e JOIN execution x ON x.id = e.execution_id GROUP BY e.artifact_id, e.execution_id, e.type"
    )
    for key, is_index in (("e.name", 0), ("NULL", 1)):
        db.execute(
            "INSERT INTO eventpath (event_id, is_index_step, step_index, step_key)"
            f" SELECT n.id, {is_index}, e.position, {key} FROM old_Event e"
            " JOIN event n ON n.artifact_id = e.artifact_id"
            f" AND n.execution_id = e.execution_id AND n.type = {_number('e.type')}"
        )


def _number(column: str) -> str:
    return f"CASE {column} WHEN 'INPUT' THEN {EVENTS['INPUT']} ELSE {EVENTS['OUTPUT']} END"


def _properties(db: sqlite3.Connection, name: str, owners: list[tuple[int, int, dict[str, Any]]]) -> None:
    known: dict[int, Kinds] = defaultdict(dict)
    values = [
        (owner, *row.values()) for owner, kind, properties in owners for row in property_rows(properties, known[kind])
    ]
    columns = f"{name}_id, name, is_custom_property, int_value, double_value, string_value, bool_value, byte_value"
    _insert(db, f"{name}property ({columns})", values)
    kinds = [(kind, one, number) for kind, names in known.items() for one, number in names.items()]
    _insert(db, "typeproperty (type_id, name, data_type)", kinds)


def _insert(db: sqlite3.Connection, columns: str, rows: list[Any]) -> None:
    if rows:
        db.executemany(f"INSERT INTO {columns} VALUES ({', '.join('?' * len(rows[0]))})", rows)


def _time(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
