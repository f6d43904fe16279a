"""The tables: those of ML Metadata's schema 10, which its own library opens, and beside them ours, `tfoperator_*`.

ML Metadata: https://github.com/google/ml-metadata. Names are in lower case, as PostgreSQL makes them of its statements,
and SQLite ignores the case. It enforces no relations between tables. Its indexes of properties are left out: those of
PostgreSQL refuse texts over 2.7 KB, and no query of ours needs them.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)

VERSION = 2
"""The version of these tables; newer ones are refused, those of version 1 are converted."""
MLMD_SCHEMA = 10

ARTIFACT_STATES = ("UNKNOWN", "PENDING", "LIVE", "MARKED_FOR_DELETION", "DELETED", "ABANDONED", "REFERENCE")
EXECUTION_STATES = ("UNKNOWN", "NEW", "RUNNING", "COMPLETE", "FAILED", "CACHED", "CANCELED")
EVENTS = {"INPUT": 3, "OUTPUT": 4}
KINDS = {"execution": 0, "artifact": 1, "context": 2}
INT, DOUBLE, STRING, BOOLEAN = 1, 2, 3, 6
"""ML Metadata's numbers of states, kinds and data types."""

metadata = MetaData()


def _named(name: str, *more: Column[Any]) -> Table:
    """Return the table of artifacts, executions or contexts."""
    return Table(
        name,
        metadata,
        Column("id", Integer, primary_key=True),
        Column("type_id", Integer, nullable=False),
        *more,
        Column("name", String(255)),
        Column("external_id", String(255), unique=True),
        Column("create_time_since_epoch", BigInteger, nullable=False, server_default="0"),
        Column("last_update_time_since_epoch", BigInteger, nullable=False, server_default="0"),
        UniqueConstraint("type_id", "name"),
        Index(f"idx_{name}_create_time_since_epoch", "create_time_since_epoch"),
        Index(f"idx_{name}_last_update_time_since_epoch", "last_update_time_since_epoch"),
        sqlite_autoincrement=True,
    )


def _properties(name: str) -> Table:
    """Return the table of the properties of artifacts, executions or contexts."""
    return Table(
        f"{name}property",
        metadata,
        Column(f"{name}_id", Integer, primary_key=True),
        Column("name", String(255), primary_key=True),
        Column("is_custom_property", Boolean, primary_key=True),
        Column("int_value", Integer),
        Column("double_value", Float(53)),
        Column("string_value", Text),
        Column("byte_value", LargeBinary),  # ML Metadata does not read it; see `properties.py`
        Column("proto_value", LargeBinary),
        Column("bool_value", Boolean),
    )


def _pairs(name: str, other: str) -> Table:
    """Return the table of the members of contexts."""
    return Table(
        name,
        metadata,
        Column("id", Integer, primary_key=True),
        Column("context_id", Integer, nullable=False),
        Column(other, Integer, nullable=False, index=True),
        UniqueConstraint("context_id", other),
        sqlite_autoincrement=True,
    )


mlmd_env = Table("mlmdenv", metadata, Column("schema_version", Integer, primary_key=True, autoincrement=False))
types = Table(
    "type",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(255), nullable=False, index=True),
    Column("version", String(255)),
    Column("type_kind", SmallInteger, nullable=False),
    Column("description", Text),
    Column("input_type", Text),
    Column("output_type", Text),
    Column("external_id", String(255), unique=True),
    sqlite_autoincrement=True,
)
type_properties = Table(
    "typeproperty",
    metadata,
    Column("type_id", Integer, primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("data_type", Integer),
)
parent_types = Table(
    "parenttype",
    metadata,
    Column("type_id", Integer, primary_key=True),
    Column("parent_type_id", Integer, primary_key=True),
)
artifacts = _named("artifact", Column("uri", Text), Column("state", Integer))
Index("idx_artifact_uri", artifacts.c.uri, postgresql_using="hash")  # of any length
executions = _named("execution", Column("last_known_state", Integer))
contexts = _named("context")
artifact_properties, execution_properties, context_properties = map(_properties, ("artifact", "execution", "context"))
events = Table(
    "event",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("artifact_id", Integer, nullable=False),
    Column("execution_id", Integer, nullable=False, index=True),
    Column("type", Integer, nullable=False),
    Column("milliseconds_since_epoch", BigInteger),
    UniqueConstraint("artifact_id", "execution_id", "type"),
    sqlite_autoincrement=True,
)
event_paths = Table(
    "eventpath",
    metadata,
    # It has no key of its own. The mapper wants none, either: rows are only inserted and read.
    Column("event_id", Integer, nullable=False, index=True),
    Column("is_index_step", Boolean, nullable=False),
    Column("step_index", Integer),
    Column("step_key", Text),
)
associations = _pairs("association", "execution_id")
attributions = _pairs("attribution", "artifact_id")
parent_contexts = Table(
    "parentcontext",
    metadata,
    Column("context_id", Integer, primary_key=True),
    Column("parent_context_id", Integer, primary_key=True, index=True),
)

our_runs = Table(
    "tfoperator_run",
    metadata,
    Column("context_id", Integer, primary_key=True, autoincrement=False),
    Column("record", Text, nullable=False),  # JSON
)
our_executions = Table(
    "tfoperator_execution",
    metadata,
    Column("execution_id", Integer, primary_key=True, autoincrement=False),
    Column("step", String(255), nullable=False),
    Column("cache_key", String(64), nullable=False, index=True),
    Column("image_id", Text, nullable=False, server_default=""),
    Column("message", Text, nullable=False, server_default=""),  # JSON
)
our_artifacts = Table(
    "tfoperator_artifact",
    metadata,
    Column("artifact_id", Integer, primary_key=True, autoincrement=False),
    Column("made", Boolean, nullable=False),
)
leases = Table(
    "tfoperator_lease",
    metadata,
    Column("name", String(400), primary_key=True),  # RUN, or RUN/STEP
    Column("term", Integer, nullable=False),  # counts the holders
    Column("holder", String(32), nullable=False),  # "": nobody
    Column("until", Float(53), nullable=False),  # seconds since 1970, by the database's clock
    Column("host", String(255), nullable=False),
    Column("process", Integer, nullable=False),
    Column("kernel", String(64), nullable=False),
)
launches = Table(
    "tfoperator_launch",
    metadata,
    Column("run", String(255), primary_key=True),
    Column("step", String(255), primary_key=True),
    Column("record", Text, nullable=False),  # JSON
)
