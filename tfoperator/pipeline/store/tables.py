"""The tables: those of ML Metadata, with properties as JSON instead of rows."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA_VERSION = 1
"""`PRAGMA user_version` of the file. A newer one is refused."""

metadata = MetaData()

types = Table(
    "Type",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(255), nullable=False),
    Column("type_kind", String(16), nullable=False),  # execution, artifact, context
    UniqueConstraint("name", "type_kind"),
)
artifacts = Table(
    "Artifact",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("type_id", ForeignKey("Type.id"), nullable=False),
    Column("uri", Text, nullable=False, index=True),
    Column("state", String(16), nullable=False),
    Column("properties", JSON, nullable=False),
    Column("made", Boolean, nullable=False, default=False),
    Column("create_time", String(40), nullable=False),  # ISO 8601, UTC
)
executions = Table(
    "Execution",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("type_id", ForeignKey("Type.id"), nullable=False),
    Column("name", String(255), nullable=False),  # the step's
    Column("last_known_state", String(16), nullable=False),
    Column("cache_key", String(64), nullable=False, index=True),
    Column("properties", JSON, nullable=False),
    Column("create_time", String(40), nullable=False),
    Column("last_update_time", String(40)),
)
contexts = Table(
    "Context",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("type_id", ForeignKey("Type.id"), nullable=False),
    Column("name", String(255), nullable=False),
    Column("properties", JSON, nullable=False),
    Column("create_time", String(40), nullable=False),
    UniqueConstraint("type_id", "name"),
)
events = Table(
    "Event",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("artifact_id", ForeignKey("Artifact.id"), nullable=False, index=True),
    Column("execution_id", ForeignKey("Execution.id"), nullable=False),
    Column("type", String(8), nullable=False),  # INPUT, OUTPUT
    Column("name", String(255), nullable=False),
    Column("position", Integer, nullable=False),
    UniqueConstraint("execution_id", "type", "name", "position"),
)
associations = Table(
    "Association",
    metadata,
    Column("execution_id", ForeignKey("Execution.id"), primary_key=True),
    Column("context_id", ForeignKey("Context.id"), primary_key=True),
)
attributions = Table(
    "Attribution",
    metadata,
    Column("artifact_id", ForeignKey("Artifact.id"), primary_key=True),
    Column("context_id", ForeignKey("Context.id"), primary_key=True),
)
parent_contexts = Table(
    "ParentContext",
    metadata,
    Column("context_id", ForeignKey("Context.id"), primary_key=True),
    Column("parent_context_id", ForeignKey("Context.id"), primary_key=True),
)
Index("association_by_context", associations.c.context_id)
