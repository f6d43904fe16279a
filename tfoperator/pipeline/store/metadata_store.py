"""The metadata store. Each public method is one transaction, whose body may run more than once."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tfoperator.pipeline.store.executions import Executions
from tfoperator.pipeline.store.postgresql import PostgreSQL
from tfoperator.pipeline.store.runs import Runs
from tfoperator.pipeline.store.sqlite_file import SQLiteFile


class MetadataStore(Runs, Executions, AbstractContextManager[Any]):
    """Artifacts, executions and runs. Thread-safe; several processes may share the database.

    With `read_only` nothing is created, and every write is a StoreError. Writes for a run name its `term`, that of the
    lease under which they are made. Once another has taken the lease over, they raise OwnershipLost.
    """

    def __init__(self, place: Path | str, *, read_only: bool = False) -> None:
        """Open a file, or with a text libpq's URL. Raises StoreError, ComponentError."""
        made = SQLiteFile(place, read_only=read_only) if isinstance(place, Path) else None
        self.database = made or PostgreSQL(str(place), read_only=read_only)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.database.close()
