"""The data of pipelines for runners on several machines: records in PostgreSQL, logs in a folder."""

from __future__ import annotations

import tempfile
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tfoperator.base.clock import Clock
from tfoperator.launcher import ComponentError
from tfoperator.launcher.core.record import RecordKeeper
from tfoperator.pipeline.home import DEFAULT_HOME, Home
from tfoperator.pipeline.lease import RunLease
from tfoperator.pipeline.local_paths import local_path
from tfoperator.pipeline.store.metadata_store import MetadataStore
from tfoperator.pipeline.store.postgresql import postgres_url
from tfoperator.pipeline.store.records import RunRecord

_SCHEMES = ("postgresql://", "postgres://")


class DatabaseHome(Home):
    """Records are in a database, logs and their positions in a folder.

    The working directories of launches are in a temporary one, which `close` removes: nothing in them is needed later.
    """

    look_seconds = 2.0

    def __init__(self, url: str, folder: str) -> None:
        """Make no request. Raises ComponentError."""
        self._url = url
        place = local_path(folder or str(DEFAULT_HOME))
        if place is None:
            raise ComponentError(f"folder={folder}: logs go to a directory")
        # Containers get the name as part of `tmp_path`, and others must not be able to guess it.
        self._scratch = tempfile.TemporaryDirectory(prefix="tfoperator-", ignore_cleanup_errors=True)
        super().__init__(Path(self._scratch.name))
        self.folder = place.absolute()

    def __str__(self) -> str:
        return self._url

    def close(self) -> None:
        """See `Home`."""
        super().close()
        self._scratch.cleanup()

    def store(self, *, read_only: bool = False) -> MetadataStore:
        """See `Home`."""
        return MetadataStore(self._url, read_only=read_only)

    def exists(self) -> bool:
        """See `Home`. Raises StoreError."""
        with self.reading():
            return True

    def wait(self) -> float:
        """See `Home`."""
        with self.reading() as store:
            return store.database.wait(self.look_seconds)

    def keeper(self, store: MetadataStore, run: RunRecord, step: str) -> RecordKeeper:
        """See `Home`: the record is a row, which only the holder of the lease can write."""
        logs = self.folder / "runs" / run.id / "steps" / step
        return RecordKeeper(partial(store.launch, run.id, step), partial(store.put_launch, run, step), logs)

    def _lock_here(self, run_id: str, held: ExitStack) -> str:
        """See `Home`: the lease suffices."""
        del run_id, held
        return ""

    def lock_step(
        self, store: MetadataStore, run_id: str, step: str, clock: Clock | None = None, **more: Any
    ) -> AbstractContextManager[RunLease | None]:
        """See `Home`."""
        return self.lock(store, f"{run_id}/{step}", clock, **more)

    def check_sharing(self) -> None:
        """See `Home`: the database does it."""

    def _alive(self, run: RunRecord) -> bool:
        owner = self.owner(run)
        return owner is not None and owner.left > 0


def open_home(place: str | Path = DEFAULT_HOME) -> Home:
    """Return the home of a directory or URL. Makes no request. Raises ComponentError for an invalid one."""
    url = database_url(str(place))
    return Home(Path(place)) if url is None else DatabaseHome(*url)


def database_url(place: str) -> tuple[str, str] | None:
    """Return libpq's URL of a database, and the folder; None for a directory. Raises ComponentError for other URLs."""
    if place.startswith(_SCHEMES):
        return postgres_url(place)
    if "://" in place:
        raise ComponentError(
            f"{place}: records are in a directory, or in PostgreSQL at postgresql://HOST/DB?folder=DIRECTORY; objects "
            "and file:// hold none any more. Runs that were recorded there begin anew"
        )
    return None
