"""The logs of the steps of runs: files in a directory, or objects in an object store with local copies."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tfoperator.base.clock import Clock, Repetition, SystemClock
from tfoperator.base.controlchars import without_controls
from tfoperator.base.files import file_mark
from tfoperator.base.private_files import make_folders
from tfoperator.launcher import ComponentError
from tfoperator.object_store import ObjectChanged, Objects, ObjectStoreError

logger = logging.getLogger(__name__)

_PERIOD = 5.0
"""The minimum seconds between two copies of the logs to the object store."""
_SHARE = 20
"""The minimum time between two copies as a multiple of the last copy's duration. So a slow store is used less often."""
_LOOK_PERIOD = 2.0
"""The minimum seconds between two requests of a reader for the size of a log in the object store."""
_MAX_BYTES = 256 << 20
"""The maximum size in bytes of a log that is fetched from the object store."""
_MAX_READ = 20
"""The maximum number of local copies of logs that this process only reads. The copies that were read last are kept."""


class StepLogs:
    """The logs below a folder. With `objects`, the logs are in an object store, and the folder has copies. Thread-safe.

    The key of an object is the path of its copy in the folder. Programs can't append to an object. So a runner writes
    new lines to its local copy. The runner replaces the object every few seconds, and once more before the runner ends.
    The lines since the last replacement are lost if the runner is killed. After the logs, the runner also stores the
    positions up to which it has read the logs of containers. So the runner's successor may repeat lines, but does not
    leave out lines that the container's log still has.
    """

    def __init__(self, folder: Path, objects: Objects | None = None, clock: Clock | None = None) -> None:
        """The constructor makes no request."""
        self._folder = folder
        self._objects = objects
        self._clock = clock or SystemClock()
        self._copying = threading.Lock()  # held during `flush` and `remove`
        self._lock = threading.Lock()  # guards the next five fields, and the files that are fetched
        self._written: dict[Path, tuple[Objects, Path]] = {}  # by log: its object store, the folder of its positions
        self._looked: dict[Path, float] = {}
        self._away = False  # whether the last request to the object store failed
        self._abandoned = False
        self._unread: set[Path] = set()  # logs of which the lines of an earlier runner could not be fetched
        # By file: its size and time when it was last copied. Only the copying thread uses it for logs in `_written`.
        self._copied: dict[Path, object] = {}
        self._copies = Repetition(self.flush, seconds=_PERIOD, clock=self._clock, name="log-copies")

    def close(self) -> None:
        """Copy the last lines to the object store, and end the thread that copies."""
        self._copies.stop()
        self.flush()
        if self._away and self._written:
            logger.warning(
                "the newest lines of the steps' logs are missing at %s, because the store did not answer", self._objects
            )

    def abandon(self) -> None:
        """Stop writing to the object store, because another runner has taken over the lease of the run."""
        self._abandoned = True

    def check(self) -> None:
        """Raise ComponentError if the object store refuses writes. If the store does not answer, only log a warning."""
        try:
            if self._objects is not None and (error := self._objects.check_writable()):
                self._warn(error)
        except ObjectStoreError as error:
            raise ComponentError(f"logs of steps can't be written: {error}") from None

    def run_folder(self, run_id: str) -> Path:
        """Return the folder with the files of a run."""
        return self._folder / "runs" / run_id

    def positions(self, run_id: str, step: str) -> Path:
        """Return the folder with the positions up to which the logs of a step's containers were read."""
        return self.run_folder(run_id) / "steps" / step

    def file(self, run_id: str, step: str) -> Path:
        """Return the local file of a step's log, and fetch new lines from the object store.

        The lines of the last few seconds may be missing. If the store does not answer, the local copy is returned as it
        is. Raises OSError if there is no local copy, or if the store refuses the request.
        """
        path, now = self._log(run_id, step), self._clock.monotonic()
        if self._objects is None:
            return path
        with self._lock:
            if path in self._written or now < self._looked.get(path, now):
                return path
            self._looked[path] = now + _LOOK_PERIOD
            if len(self._looked) > _MAX_READ:
                oldest = min(self._looked, key=self._looked.__getitem__)
                del self._looked[oldest]
                if oldest not in self._written:
                    oldest.unlink(missing_ok=True)
        try:
            self._fetch(self._objects, path)
        except ObjectStoreError as error:
            if not (error.passing and path.exists()):
                raise
        return path

    def lines(self, run_id: str, step: str) -> Iterator[str]:
        """Yield the lines of a log. Raises OSError. If there is no log, raises FileNotFoundError."""
        with self.file(run_id, step).open(encoding="utf-8", errors="backslashreplace") as lines:
            for line in lines:
                yield line.rstrip("\n")

    def append_to(self, run_id: str, step: str) -> Callable[[str], None]:
        """Return a function that receives a step's log lines.

        The returned function removes control characters from a line, and appends the line to the log. The function is
        thread-safe, and raises OSError. `append_to` itself first fetches the log and the positions of an earlier runner
        from the object store. If this fails, `append_to` only logs a warning. Call `append_to` only while this process
        has the lease of the run.
        """
        path, lock = self._log(run_id, step), threading.Lock()  # held while a line is written
        if self._objects is not None and path not in self._written:
            positions = self.positions(run_id, step)
            try:
                self._unread.add(path)
                self._fetch(self._objects, path)
                self._unread.discard(path)
                self._copied[path] = file_mark(path)
                for entry in self._objects.all(self._key(positions)):
                    self._fetch(self._objects, self._folder / entry.key)
                    self._copied[self._folder / entry.key] = None
            except OSError as error:
                self._warn(error)
            with self._lock:
                self._written[path] = self._objects, positions
            self._copies.start()

        def add(line: str) -> None:
            with lock:
                make_folders(path.parent)
                with path.open("a", encoding="utf-8", errors="backslashreplace") as stream:
                    stream.write(f"{without_controls(line)}\n")

        return add

    def remove(self, run_id: str) -> None:
        """Remove the logs of a run from the object store, if there is an object store.

        Also remove the stored positions (see `positions`). The caller removes the local files. Raises ObjectStoreError.
        """
        gone = self.run_folder(run_id)
        with self._copying:  # a simultaneous `flush` could create the objects again
            if self._objects is not None:
                self._objects.delete([entry.key for entry in self._objects.all(f"runs/{run_id}")])
            with self._lock:
                self._written = {log: place for log, place in self._written.items() if not log.is_relative_to(gone)}
                self._copied = {
                    path: version for path, version in self._copied.items() if not path.is_relative_to(gone)
                }

    def _log(self, run_id: str, step: str) -> Path:
        return self.run_folder(run_id) / "logs" / f"{step}.log"

    def _fetch(self, objects: Objects, path: Path) -> None:
        """Append the new bytes of an object to its local file, or remove the file if there is no object.

        Raises OSError.
        """
        key = self._key(path)
        entry = objects.find(key)
        if entry is None:
            path.unlink(missing_ok=True)
            return
        here = file_mark(path)
        if here is not None and here[0] == entry.size:
            return
        local_size = here[0] if here is not None and here[0] < entry.size else 0
        got = objects.get(key, last=entry.size - local_size, limit=_MAX_BYTES)
        data, begin = (b"", 0) if got is None else (got[0], got[1].size - len(got[0]))
        with self._lock:
            make_folders(path.parent)
            now = path.stat().st_size if path.exists() else 0
            if local_size == 0:
                path.write_bytes(data)
            elif begin <= now:  # otherwise another call has replaced the file: the next call fetches the whole log
                with path.open("ab") as stream:
                    stream.write(data[now - begin :])

    # Copies to the object store.

    def flush(self) -> float:
        """Copy all appended lines to the object store, where other machines and the next runner read them.

        Return the seconds until the next copy. Errors are only logged. After `abandon`, nothing is copied.
        """
        with self._copying:
            began = self._clock.monotonic()
            with self._lock:
                written = {} if self._abandoned else dict(self._written)
            failed = False
            for log, (objects, positions) in written.items():
                try:
                    self._copy_log(objects, log, positions)
                except OSError as error:
                    self._warn(error)
                    failed = True
                    if isinstance(error, ObjectStoreError) and error.passing:
                        break
            self._away = failed
            return _PERIOD if failed else max(_PERIOD, _SHARE * (self._clock.monotonic() - began))

    def _copy_log(self, objects: Objects, log: Path, positions: Path) -> None:
        # The positions are read before the log is copied. So the copy of the log has all lines up to these positions.
        read = {position: position.read_bytes() for position in sorted(positions.glob("log-position*"))}
        try:
            if version := file_mark(log):
                self._put(objects, log, log, version)
        except ObjectChanged:
            if self._begins_with(objects, log):  # the object has no lines of another runner: replace it
                self._unread.discard(log)
                self._put(objects, log, log, version)
                return
            with self._lock:
                del self._written[log]
            logger.warning(
                "%s/%s is not updated any more: it has lines of an earlier runner that a new copy would overwrite",
                objects,
                self._key(log),
            )
            return
        for path in [copied for copied in list(self._copied) if copied.parent == positions and copied not in read]:
            objects.delete([self._key(path)])
            del self._copied[path]
        for path, content in read.items():
            self._put(objects, path, content, content)

    def _put(self, objects: Objects, path: Path, content: bytes | Path, version: object) -> None:
        if self._copied.get(path) != version:
            objects.put(self._key(path), content, "create" if path in self._unread else "overwrite")
            self._unread.discard(path)
            self._copied[path] = version

    def _begins_with(self, objects: Objects, log: Path) -> bool:
        """Return whether the local log begins with the whole content of its object, or there is no object."""
        fetched = objects.get(self._key(log), limit=_MAX_BYTES)
        with log.open("rb") as lines:
            return fetched is None or lines.read(len(fetched[0])) == fetched[0]

    def _key(self, path: Path) -> str:
        return path.relative_to(self._folder).as_posix()

    def _warn(self, error: OSError) -> None:
        with self._lock:
            again, self._away = self._away, True
        if not again:
            logger.warning("logs of steps are not copied at the moment: %s", error)
