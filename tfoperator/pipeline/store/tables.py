"""The tables of ML Metadata's schema 10, and our own tables, `tfoperator_*`.

The library ML Metadata (https://github.com/google/ml-metadata) can open a database with these tables. Names are in
lower case: PostgreSQL converts the names in ML Metadata's statements to lower case, and SQLite ignores the case. As in
ML Metadata, there are no foreign keys. ML Metadata's indexes of properties are left out, because PostgreSQL's indexes
refuse texts over 2.7 KB, and our queries don't need them.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

VERSION = 2
"""The version of our tables. tfoperator refuses a database with another version."""
MLMD_SCHEMA = 10

ARTIFACT_STATES: Any = ("UNKNOWN", "PENDING", "LIVE", "MARKED_FOR_DELETION", "DELETED", "ABANDONED", "REFERENCE")
EXECUTION_STATES: Any = ("UNKNOWN", "NEW", "RUNNING", "COMPLETE", "FAILED", "CACHED", "CANCELED")
EVENTS = {"INPUT": 3, "OUTPUT": 4}
KINDS = {"execution": 0, "artifact": 1, "context": 2}
INT, DOUBLE, STRING, BOOLEAN = 1, 2, 3, 6
"""The numbers that ML Metadata uses for data types.

The constants above have its numbers for states, for kinds of events, and for kinds of types. The number of a state is
the index of the state in the tuple.
"""

metadata = sa.MetaData()
_NAME = sa.String(255)


def _table(name: str, *columns: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    return sa.Table(name, metadata, *columns, **options)


def _key(name: str, kind: Any = sa.Integer, **options: Any) -> sa.Column[Any]:
    """Return a column that is a part of the primary key."""
    return sa.Column(name, kind, primary_key=True, **options)


def _required(name: str, kind: Any = sa.Integer, **options: Any) -> sa.Column[Any]:
    """Return a column that must have a value in each row."""
    return sa.Column(name, kind, nullable=False, **options)


def _named(name: str, *more: sa.Column[Any]) -> sa.Table:
    """Return the table `name` of artifacts, executions or contexts, with additional columns `more`."""
    times = ("create_time_since_epoch", "last_update_time_since_epoch")
    return _table(
        name,
        _key("id"),
        _required("type_id"),
        *more,
        sa.Column("name", _NAME),
        sa.Column("external_id", _NAME, unique=True),
        *[_required(time, sa.BigInteger, server_default="0") for time in times],
        sa.UniqueConstraint("type_id", "name"),
        *[sa.Index(f"idx_{name}_{time}", time) for time in times],
        sqlite_autoincrement=True,
    )


def _properties(name: str) -> sa.Table:
    """Return the table of the properties of artifacts, executions or contexts."""
    return _table(
        f"{name}property",
        _key(f"{name}_id"),
        _key("name", _NAME),
        _key("is_custom_property", sa.Boolean),
        sa.Column("int_value", sa.Integer),
        sa.Column("double_value", sa.Float(53)),
        sa.Column("string_value", sa.Text),
        sa.Column("byte_value", sa.LargeBinary),  # ML Metadata does not read it; see `properties.py`
        sa.Column("proto_value", sa.LargeBinary),
        sa.Column("bool_value", sa.Boolean),
    )


def _pairs(name: str, other: str) -> sa.Table:
    """Return a table that connects contexts with executions or artifacts, whose ids are in the column `other`."""
    columns = _key("id"), _required("context_id"), _required(other, index=True)
    return _table(name, *columns, sa.UniqueConstraint("context_id", other), sqlite_autoincrement=True)


mlmd_env = _table("mlmdenv", _key("schema_version", autoincrement=False))
types = _table(
    "type",
    _key("id"),
    _required("name", _NAME, index=True),
    sa.Column("version", _NAME),
    _required("type_kind", sa.SmallInteger),
    *[sa.Column(name, sa.Text) for name in ("description", "input_type", "output_type")],
    sa.Column("external_id", _NAME, unique=True),
    sqlite_autoincrement=True,
)
type_properties = _table("typeproperty", _key("type_id"), _key("name", _NAME), sa.Column("data_type", sa.Integer))
parent_types = _table("parenttype", _key("type_id"), _key("parent_type_id"))
artifacts = _named("artifact", sa.Column("uri", sa.Text), sa.Column("state", sa.Integer))
sa.Index("idx_artifact_uri", artifacts.c.uri, postgresql_using="hash")  # a hash index accepts URIs of any length
executions = _named("execution", sa.Column("last_known_state", sa.Integer))
contexts = _named("context")
artifact_properties, execution_properties, context_properties = map(_properties, ("artifact", "execution", "context"))
events = _table(
    "event",
    _key("id"),
    _required("artifact_id"),
    _required("execution_id", index=True),
    _required("type"),
    sa.Column("milliseconds_since_epoch", sa.BigInteger),
    sa.UniqueConstraint("artifact_id", "execution_id", "type"),
    sqlite_autoincrement=True,
)
event_paths = _table(  # this table has no primary key
    "eventpath",
    _required("event_id", index=True),
    _required("is_index_step", sa.Boolean),
    sa.Column("step_index", sa.Integer),
    sa.Column("step_key", sa.Text),
)
associations = _pairs("association", "execution_id")
attributions = _pairs("attribution", "artifact_id")
parent_contexts = _table("parentcontext", _key("context_id"), _key("parent_context_id", index=True))

our_runs = _table("tfoperator_run", _key("context_id", autoincrement=False), _required("record", sa.Text))  # JSON
our_executions = _table(
    "tfoperator_execution",
    _key("execution_id", autoincrement=False),
    _required("step", _NAME),
    _required("cache_key", sa.String(64), index=True),
    _required("image_id", sa.Text, server_default=""),
    _required("message", sa.Text, server_default=""),  # JSON
)
our_artifacts = _table("tfoperator_artifact", _key("artifact_id", autoincrement=False), _required("made", sa.Boolean))
leases = _table(
    "tfoperator_lease",
    _key("name", sa.String(400)),  # RUN, or RUN/STEP
    _required("term"),  # the number of holders so far
    _required("holder", sa.String(32)),  # "" if the lease has no holder
    _required("until", sa.Float(53)),  # seconds since 1970, by the database's clock
    _required("host", _NAME),
    _required("process"),
    _required("kernel", sa.String(64)),
)
launches = _table("tfoperator_launch", _key("run", _NAME), _key("step", _NAME), _required("record", sa.Text))  # JSON
