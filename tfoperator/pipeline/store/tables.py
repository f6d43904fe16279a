"""The tables: those of ML Metadata's schema 10, which its own library opens, and beside them ours, `tfoperator_*`.

ML Metadata: https://github.com/google/ml-metadata. Names are in lower case, as PostgreSQL makes them of its statements,
and SQLite ignores the case. It enforces no relations between tables. Its indexes of properties are left out: those of
PostgreSQL refuse texts over 2.7 KB, and no query of ours needs them.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

VERSION = 2
"""The version of these tables; newer ones are refused, those of version 1 are converted."""
MLMD_SCHEMA = 10

ARTIFACT_STATES: Any = ("UNKNOWN", "PENDING", "LIVE", "MARKED_FOR_DELETION", "DELETED", "ABANDONED", "REFERENCE")
EXECUTION_STATES: Any = ("UNKNOWN", "NEW", "RUNNING", "COMPLETE", "FAILED", "CACHED", "CANCELED")
EVENTS = {"INPUT": 3, "OUTPUT": 4}
KINDS = {"execution": 0, "artifact": 1, "context": 2}
INT, DOUBLE, STRING, BOOLEAN = 1, 2, 3, 6
"""ML Metadata's numbers of states, kinds and data types."""

metadata = sa.MetaData()


def _named(name: str, *more: sa.Column[Any]) -> sa.Table:
    """Return the table of artifacts, executions or contexts."""
    return sa.Table(
        name,
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("type_id", sa.Integer, nullable=False),
        *more,
        sa.Column("name", sa.String(255)),
        sa.Column("external_id", sa.String(255), unique=True),
        sa.Column("create_time_since_epoch", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("last_update_time_since_epoch", sa.BigInteger, nullable=False, server_default="0"),
        sa.UniqueConstraint("type_id", "name"),
        sa.Index(f"idx_{name}_create_time_since_epoch", "create_time_since_epoch"),
        sa.Index(f"idx_{name}_last_update_time_since_epoch", "last_update_time_since_epoch"),
        sqlite_autoincrement=True,
    )


def _properties(name: str) -> sa.Table:
    """Return the table of the properties of artifacts, executions or contexts."""
    return sa.Table(
        f"{name}property",
        metadata,
        sa.Column(f"{name}_id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("is_custom_property", sa.Boolean, primary_key=True),
        sa.Column("int_value", sa.Integer),
        sa.Column("double_value", sa.Float(53)),
        sa.Column("string_value", sa.Text),
        sa.Column("byte_value", sa.LargeBinary),  # ML Metadata does not read it; see `properties.py`
        sa.Column("proto_value", sa.LargeBinary),
        sa.Column("bool_value", sa.Boolean),
    )


def _pairs(name: str, other: str) -> sa.Table:
    """Return the table of the members of contexts."""
    return sa.Table(
        name,
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("context_id", sa.Integer, nullable=False),
        sa.Column(other, sa.Integer, nullable=False, index=True),
        sa.UniqueConstraint("context_id", other),
        sqlite_autoincrement=True,
    )


mlmd_env = sa.Table("mlmdenv", metadata, sa.Column("schema_version", sa.Integer, primary_key=True, autoincrement=False))
types = sa.Table(
    "type",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(255), nullable=False, index=True),
    sa.Column("version", sa.String(255)),
    sa.Column("type_kind", sa.SmallInteger, nullable=False),
    sa.Column("description", sa.Text),
    sa.Column("input_type", sa.Text),
    sa.Column("output_type", sa.Text),
    sa.Column("external_id", sa.String(255), unique=True),
    sqlite_autoincrement=True,
)
type_properties = sa.Table(
    "typeproperty",
    metadata,
    sa.Column("type_id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("data_type", sa.Integer),
)
parent_types = sa.Table(
    "parenttype",
    metadata,
    sa.Column("type_id", sa.Integer, primary_key=True),
    sa.Column("parent_type_id", sa.Integer, primary_key=True),
)
artifacts = _named("artifact", sa.Column("uri", sa.Text), sa.Column("state", sa.Integer))
sa.Index("idx_artifact_uri", artifacts.c.uri, postgresql_using="hash")  # of any length
executions = _named("execution", sa.Column("last_known_state", sa.Integer))
contexts = _named("context")
artifact_properties, execution_properties, context_properties = map(_properties, ("artifact", "execution", "context"))
events = sa.Table(
    "event",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("artifact_id", sa.Integer, nullable=False),
    sa.Column("execution_id", sa.Integer, nullable=False, index=True),
    sa.Column("type", sa.Integer, nullable=False),
    sa.Column("milliseconds_since_epoch", sa.BigInteger),
    sa.UniqueConstraint("artifact_id", "execution_id", "type"),
    sqlite_autoincrement=True,
)
event_paths = sa.Table(
    "eventpath",
    metadata,
    # It has no key of its own. The mapper wants none, either: rows are only inserted and read.
    sa.Column("event_id", sa.Integer, nullable=False, index=True),
    sa.Column("is_index_step", sa.Boolean, nullable=False),
    sa.Column("step_index", sa.Integer),
    sa.Column("step_key", sa.Text),
)
associations = _pairs("association", "execution_id")
attributions = _pairs("attribution", "artifact_id")
parent_contexts = sa.Table(
    "parentcontext",
    metadata,
    sa.Column("context_id", sa.Integer, primary_key=True),
    sa.Column("parent_context_id", sa.Integer, primary_key=True, index=True),
)

our_runs = sa.Table(
    "tfoperator_run",
    metadata,
    sa.Column("context_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("record", sa.Text, nullable=False),  # JSON
)
our_executions = sa.Table(
    "tfoperator_execution",
    metadata,
    sa.Column("execution_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("step", sa.String(255), nullable=False),
    sa.Column("cache_key", sa.String(64), nullable=False, index=True),
    sa.Column("image_id", sa.Text, nullable=False, server_default=""),
    sa.Column("message", sa.Text, nullable=False, server_default=""),  # JSON
)
our_artifacts = sa.Table(
    "tfoperator_artifact",
    metadata,
    sa.Column("artifact_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("made", sa.Boolean, nullable=False),
)
leases = sa.Table(
    "tfoperator_lease",
    metadata,
    sa.Column("name", sa.String(400), primary_key=True),  # RUN, or RUN/STEP
    sa.Column("term", sa.Integer, nullable=False),  # counts the holders
    sa.Column("holder", sa.String(32), nullable=False),  # "": nobody
    sa.Column("until", sa.Float(53), nullable=False),  # seconds since 1970, by the database's clock
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("process", sa.Integer, nullable=False),
    sa.Column("kernel", sa.String(64), nullable=False),
)
launches = sa.Table(
    "tfoperator_launch",
    metadata,
    sa.Column("run", sa.String(255), primary_key=True),
    sa.Column("step", sa.String(255), primary_key=True),
    sa.Column("record", sa.Text, nullable=False),  # JSON
)
