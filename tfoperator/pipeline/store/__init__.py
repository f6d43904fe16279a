"""Artifacts, executions and runs, and their relations: ML Metadata's data model in SQLite.

`records.py` has the values, `tables.py` the tables, `database.py` a file of them and `journal.py` the same in an object
store, `metadata_store.py` the reads and writes, `lineage.py` the ancestors and descendants of an artifact.
SQLAlchemy is imported here and nowhere else.
"""

from tfoperator.pipeline.store.database import change_counter
from tfoperator.pipeline.store.journal import JournaledDatabase
from tfoperator.pipeline.store.lineage import Lineage, lineage_of
from tfoperator.pipeline.store.metadata_store import MetadataStore, StoreError
from tfoperator.pipeline.store.records import (
    ArtifactRecord,
    ExecutionRecord,
    ExecutionState,
    Maker,
    RunRecord,
    RunState,
    StepOutcome,
)

__all__ = [
    "ArtifactRecord",
    "ExecutionRecord",
    "ExecutionState",
    "JournaledDatabase",
    "Lineage",
    "Maker",
    "MetadataStore",
    "RunRecord",
    "RunState",
    "StepOutcome",
    "StoreError",
    "change_counter",
    "lineage_of",
]
