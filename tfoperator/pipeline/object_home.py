"""The data of pipelines without a local disk that outlives their runner: all of it in an object store."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path

from tfoperator.base.clock import Clock
from tfoperator.launcher.core import LaunchRecord, RecordKeeper
from tfoperator.pipeline.home import DEFAULT_HOME, Home, log_folder
from tfoperator.pipeline.lease import RunLease, RunLeaseRecord
from tfoperator.pipeline.object_keeper import ObjectKeeper, kept_record, launch_prefix
from tfoperator.pipeline.objects import FileObjects, ObjectStore, check_conditional_writes, is_url, open_objects
from tfoperator.pipeline.outbox import Outbox
from tfoperator.pipeline.store import JournaledDatabase, MetadataStore, RunRecord

_METADATA = "metadata/"


class ObjectHome(Home):
    """Metadata, leases, records and logs are objects; a temporary directory, which `close` removes, has the rest."""

    def __init__(self, objects: ObjectStore) -> None:
        """Make no request."""
        # Containers get the name as part of `tmp_path`, and others must not be able to guess it.
        self._scratch = tempfile.TemporaryDirectory(prefix="tfoperator-", ignore_cleanup_errors=True)
        super().__init__(Path(self._scratch.name))
        self._objects = objects
        self._lock = threading.Lock()  # guards _copy
        self._copy: JournaledDatabase | None = None
        self._outboxes: dict[str, Outbox] = {}

    def __str__(self) -> str:
        return str(self._objects)

    def close(self) -> None:
        """Remove the temporary directory."""
        if self._copy is not None:
            self._copy.close()
        self._scratch.cleanup()

    def store(self, *, read_only: bool = False) -> MetadataStore:
        """See `Home`. The copy belongs to this process in any case."""
        del read_only
        if isinstance(self._objects, FileObjects):
            self._objects.begin()
        return MetadataStore(JournaledDatabase(self._objects, Path(tempfile.mkdtemp(dir=self.path))))

    def exists(self) -> bool:
        """See `Home`. Raises ObjectStoreError."""
        if isinstance(self._objects, FileObjects) and not self._objects.is_begun():
            return False
        return next(self._objects.keys(_METADATA), None) is not None

    look_seconds = 5.0  # each check is several requests, and logs are written as often

    def reading(self) -> AbstractContextManager[MetadataStore]:
        """See `Home`. One copy for all readers, until this is closed: each read applies the writes since the last."""
        return nullcontext(MetadataStore(self._reader()))

    def changes(self) -> int:
        """See `Home`."""
        if self._copy is None and not self.exists():
            return -1
        return self._reader().newest()

    def launch_record(self, run_id: str, step: str) -> LaunchRecord | None:
        """See `Home`. Raises ObjectStoreError, too."""
        return kept_record(self._objects, launch_prefix(run_id, step))

    def log_pieces(self, run_id: str, step: str, after: str = "") -> Iterator[str]:
        """Yield the keys of a step's log pieces, in order, those after `after`. Raises ObjectStoreError."""
        return self._objects.keys(f"{log_folder(run_id, step)}/", after)

    def log_piece(self, key: str) -> bytes:
        """Return a piece of a log. Raises ObjectStoreError."""
        stored = self._objects.get(key)
        return b"" if stored is None else stored.data

    def keeper(self, run_id: str, step: str) -> RecordKeeper:
        """See `Home`."""
        return ObjectKeeper(self._objects, launch_prefix(run_id, step), self._outboxes[run_id])

    def log_to(self, run_id: str, step: str) -> partial[None]:
        """See `Home`."""
        return partial(self._outboxes[run_id].add, log_folder(run_id, step))

    def log_lines(self, run_id: str, step: str) -> Iterator[str]:
        """See `Home`."""
        pieces = list(self.log_pieces(run_id, step))
        if not pieces:
            raise FileNotFoundError(f"{self}/{log_folder(run_id, step)}")
        for piece in pieces:
            yield from self.log_piece(piece).decode(errors="backslashreplace").splitlines()

    def remove(self, run_id: str) -> None:
        """See `Home`."""
        for key in list(self._objects.keys(f"runs/{run_id}/")):
            self._objects.delete(key)
        super().remove(run_id)

    def _reader(self) -> JournaledDatabase:
        with self._lock:
            if self._copy is None:
                self._copy = JournaledDatabase(self._objects, Path(tempfile.mkdtemp(dir=self.path)))
            return self._copy

    def _alive(self, run: RunRecord) -> bool:
        owner = self.owner(run)
        return owner is not None and owner.left > 0

    def _enter(self, run_id: str, clock: Clock, held: ExitStack) -> None:
        del run_id, clock, held
        check_conditional_writes(self._objects, str(self))

    def _entered(self, run_id: str, clock: Clock, lease: RunLease, held: ExitStack) -> None:
        outbox = self._outboxes[run_id] = Outbox(self._objects, clock, f"{lease.term:06d}-{lease.holder}")
        outbox.start()
        held.callback(outbox.stop)

    def _gone(self, record: RunLeaseRecord) -> bool:
        del record
        return False


def open_home(place: str | Path = DEFAULT_HOME) -> Home:
    """Return the home of a directory or URL. Raises ComponentError for an invalid one, ObjectStoreError."""
    return ObjectHome(open_objects(str(place))) if is_url(str(place)) else Home(Path(place))
