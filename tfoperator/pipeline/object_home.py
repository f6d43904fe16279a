"""Where pipelines keep what they know if no local disk is to outlive their runner: all of it in an object store."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tfoperator.clock import Clock
from tfoperator.launcher.core import RecordKeeper
from tfoperator.pipeline.home import DEFAULT_HOME, Home
from tfoperator.pipeline.lease import Lease, LeaseRecord
from tfoperator.pipeline.object_keeper import ObjectKeeper
from tfoperator.pipeline.objects import ObjectStore, check_conditional_writes, is_url, open_objects
from tfoperator.pipeline.outbox import Outbox
from tfoperator.pipeline.step_log import log_folder
from tfoperator.pipeline.store import JournaledDatabase, MetadataStore, RunRecord

_METADATA = "metadata/"


class ObjectHome(Home):
    """Metadata, leases, records and logs are objects; a temporary directory, which `close` removes, has the rest."""

    def __init__(self, objects: ObjectStore) -> None:
        """Make no request."""
        # The name is part of what containers are told (`tmp_path`), and others must not be able to guess it.
        self._scratch = tempfile.TemporaryDirectory(prefix="tfoperator-", ignore_cleanup_errors=True)
        super().__init__(Path(self._scratch.name))
        self._objects = objects
        self._outboxes: dict[str, Outbox] = {}

    def __str__(self) -> str:
        return str(self._objects)

    def close(self) -> None:
        """Remove what may be lost."""
        self._scratch.cleanup()

    def store(self, *, read_only: bool = False) -> MetadataStore:
        """See `Home`. The copy is this process's own in any case."""
        del read_only
        return MetadataStore(JournaledDatabase(self._objects, Path(tempfile.mkdtemp(dir=self.path))))

    def exists(self) -> bool:
        """See `Home`. Raises ObjectStoreError."""
        return next(self._objects.keys(_METADATA), None) is not None

    def keeper(self, run_id: str, step: str) -> RecordKeeper:
        """See `Home`."""
        return ObjectKeeper(self._objects, f"runs/{run_id}/steps/{step}/", self._outboxes[run_id])

    def log_to(self, run_id: str, step: str) -> partial[None]:
        """See `Home`."""
        return partial(self._outboxes[run_id].add, log_folder(run_id, step))

    def log_lines(self, run_id: str, step: str) -> Iterator[str]:
        """See `Home`."""
        pieces = list(self._objects.keys(f"{log_folder(run_id, step)}/"))
        if not pieces:
            raise FileNotFoundError(f"{self}/{log_folder(run_id, step)}")
        for piece in pieces:
            stored = self._objects.get(piece)
            if stored is not None:
                yield from stored.data.decode(errors="backslashreplace").splitlines()

    def remove(self, run_id: str) -> None:
        """See `Home`."""
        for key in list(self._objects.keys(f"runs/{run_id}/")):
            self._objects.delete(key)
        super().remove(run_id)

    def _alive(self, run: RunRecord) -> bool:
        owner = self.owner(run)
        return owner is not None and owner.left > 0

    def _enter(self, run_id: str, clock: Clock, held: ExitStack) -> None:
        del run_id, clock, held
        check_conditional_writes(self._objects, str(self))

    def _entered(self, run_id: str, clock: Clock, lease: Lease, held: ExitStack) -> None:
        outbox = self._outboxes[run_id] = Outbox(self._objects, clock, f"{lease.term:06d}-{lease.holder}")
        outbox.start()
        held.callback(outbox.stop)

    def _gone(self, record: LeaseRecord) -> bool:
        del record
        return False


def open_home(place: str | Path = DEFAULT_HOME) -> Home:
    """A directory, or what a URL means. Raises ComponentError for one that makes no sense, ObjectStoreError."""
    return ObjectHome(open_objects(str(place))) if is_url(str(place)) else Home(Path(place))
