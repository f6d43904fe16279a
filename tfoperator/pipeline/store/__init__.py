"""Artifacts, executions and runs, and their relations: in ML Metadata's tables, in SQLite or PostgreSQL.

`records.py` has the values, `tables.py` the tables, `engines.py` what differs between the two, `sqlite_file.py` the
file of the one, `database.py` the transactions; `metadata_store.py` has the reads and writes, of which `reading.py`,
`queries.py` and `properties.py` are the parts, `lineage.py` the ancestors and descendants of an artifact;
`converting.py` opens files of earlier releases.
SQLAlchemy is imported here and nowhere else.
"""

from tfoperator.pipeline.store.engines import postgres_url
from tfoperator.pipeline.store.lease_table import LeaseTable
from tfoperator.pipeline.store.limits import StoreError
from tfoperator.pipeline.store.lineage import Lineage, lineage_of
from tfoperator.pipeline.store.metadata_store import MetadataStore
from tfoperator.pipeline.store.records import (
    ArtifactRecord,
    ExecutionRecord,
    ExecutionState,
    Lease,
    Maker,
    RunRecord,
    RunState,
    StepOutcome,
)
from tfoperator.pipeline.store.sqlite_file import file_changes

__all__ = [
    "ArtifactRecord",
    "ExecutionRecord",
    "ExecutionState",
    "Lease",
    "LeaseTable",
    "Lineage",
    "Maker",
    "MetadataStore",
    "RunRecord",
    "RunState",
    "StepOutcome",
    "StoreError",
    "file_changes",
    "lineage_of",
    "postgres_url",
]
