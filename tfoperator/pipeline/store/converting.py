"""Converts a SQLite file of the releases before ML Metadata's schema, in one transaction; a copy of it is kept."""

from __future__ import annotations

import json
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
_TIMES = "create_time_since_epoch, last_update_time_since_epoch"
_COPIED = (
    "type (id, name, type_kind)"
    " SELECT id, CASE type_kind || name WHEN 'contextrun' THEN 'pipeline_run' ELSE name END, kind(type_kind)"
    " FROM old_Type",
    f"artifact (id, type_id, uri, state, {_TIMES})"
    " SELECT id, type_id, uri, artifact_state(state), milliseconds(create_time), milliseconds(create_time)"
    " FROM old_Artifact",
    "tfoperator_artifact (artifact_id, made) SELECT id, made FROM old_Artifact",
    f"execution (id, type_id, last_known_state, {_TIMES})"
    " SELECT id, type_id, execution_state(last_known_state), milliseconds(create_time),"
    " milliseconds(coalesce(last_update_time, create_time)) FROM old_Execution",
    "tfoperator_execution (execution_id, step, cache_key, image_id, message)"
    " SELECT id, name, cache_key, member(properties, 'image_id'), quoted(properties, 'message') FROM old_Execution",
    f"context (id, type_id, name, {_TIMES})"
    " SELECT id, type_id, name, milliseconds(create_time), milliseconds(create_time) FROM old_Context",
    "tfoperator_run (context_id, record)"
    " SELECT c.id, c.properties FROM old_Context c JOIN old_Type t ON t.id = c.type_id WHERE t.name = 'run'",
    "tfoperator_lease (name, term, holder, until, host, process, kernel)"
    " SELECT c.name, CAST(member(c.properties, 'term') AS INTEGER), '', 0.0, '', 0, ''"
    " FROM old_Context c JOIN old_Type t ON t.id = c.type_id WHERE t.name = 'run'",
    "association (context_id, execution_id) SELECT context_id, execution_id FROM old_Association",
    "attribution (context_id, artifact_id) SELECT context_id, artifact_id FROM old_Attribution",
    "parentcontext (context_id, parent_context_id) SELECT context_id, parent_context_id FROM old_ParentContext",
    # One event for an artifact of an execution, however often it is used there; a path has both its rows of each use.
    "event (id, artifact_id, execution_id, type, milliseconds_since_epoch)"
    " SELECT min(e.id), e.artifact_id, e.execution_id, event_type(e.type), x.create_time_since_epoch"
    " FROM old_Event e JOIN execution x ON x.id = e.execution_id GROUP BY e.artifact_id, e.execution_id, e.type",
    *(
        "eventpath (event_id, is_index_step, step_index, step_key)"
        f" SELECT n.id, {is_index}, e.position, {key} FROM old_Event e JOIN event n"
        " ON n.artifact_id = e.artifact_id AND n.execution_id = e.execution_id AND n.type = event_type(e.type)"
        for key, is_index in (("e.name", 0), ("NULL", 1))
    ),
)
"""What is copied, but for properties, by statements with the functions below; rows keep their ids."""


def convert(db: sqlite3.Connection, path: Path, make_tables: Callable[[], None]) -> None:
    """Convert the file, in the transaction of `db`; beside it a copy stays of what it was."""
    copy = path.with_name(f"{path.stem}-before-schema-10{path.suffix}")
    copy.touch(0o600)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    for name in _OLD:
        db.execute(f'ALTER TABLE "{name}" RENAME TO "old_{name}"')
    for (index,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").fetchall():
        db.execute(f'DROP INDEX "{index}"')
    make_tables()
    functions: dict[str, Callable[[str], int]] = {
        "kind": KINDS.__getitem__,
        "artifact_state": ARTIFACT_STATES.index,
        "execution_state": EXECUTION_STATES.index,
        "event_type": EVENTS.__getitem__,
        "milliseconds": lambda text: round(datetime.fromisoformat(text).timestamp() * 1000),
    }
    for name, function in functions.items():
        db.create_function(name, 1, function)
    db.create_function("member", 2, lambda whole, name: str(json.loads(whole).get(name, "")))
    db.create_function("quoted", 2, lambda whole, name: json.dumps(json.loads(whole).get(name, "")))
    for statement in _COPIED:
        db.execute(f"INSERT INTO {statement}")
    _properties(db, "artifact", lambda found: found)
    _properties(db, "execution", lambda found: found.get("exec_properties") or {})
    for name in reversed(_OLD):
        db.execute(f'DROP TABLE "old_{name}"')


def _properties(db: sqlite3.Connection, name: str, of: Callable[[Any], dict[str, Any]]) -> None:
    known: dict[int, Kinds] = defaultdict(dict)
    values = []
    for owner, kind, text in db.execute(f"SELECT id, type_id, properties FROM old_{name}").fetchall():
        values += [(owner, *row.values()) for row in property_rows(of(json.loads(text)), known[kind])]
    columns = f"{name}_id, name, is_custom_property, int_value, double_value, string_value, bool_value, byte_value"
    db.executemany(f"INSERT INTO {name}property ({columns}) VALUES ({', '.join('?' * 8)})", values)
    kinds = [(kind, one, number) for kind, names in known.items() for one, number in names.items()]
    db.executemany("INSERT INTO typeproperty (type_id, name, data_type) VALUES (?, ?, ?)", kinds)
