"""The data of pipelines: the metadata store, and the lease, the records and the logs of each run."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
import psutil

from tfoperator.base.clock import StopSignal
from tfoperator.base.files import hold_lock, is_locked, local_path
from tfoperator.base.private_files import check_own_place, make_folders
from tfoperator.base.urls import shown_url
from tfoperator.launcher import ComponentError, LaunchContext, LauncherError
from tfoperator.launcher.core.record import LaunchRecord, RecordKeeper, WorkDirectory
from tfoperator.object_store import Objects, ObjectStoreError, is_object_url
from tfoperator.pipeline.lease import LEASE_SECONDS, RunInProgress, RunLease
from tfoperator.pipeline.scratch import RUNS, remove_left, scratch_directory
from tfoperator.pipeline.step_logs import StepLogs
from tfoperator.pipeline.store.database import StoreError
from tfoperator.pipeline.store.metadata_store import MetadataStore
from tfoperator.pipeline.store.postgresql import database_url
from tfoperator.pipeline.store.records import RunRecord

DEFAULT_HOME = Path(".tfoperator", "pipelines")

LATEST = "latest"
"""A word that stands for the id of the newest run."""

ORCHESTRATOR = "orchestrator"
"""A key in a run's `place`. Its value is the orchestrator that starts a process for each step of the run: `argo` or
`airflow`. A run without this key belongs to a single runner process.
"""

_LOCK = "lock"
"""The name of the lock file in the folder of a run or step. The runner, or the launcher of the step, locks this file
while it works.
"""
_LOCK_SECONDS = 0.5
"""The maximum seconds to wait for the lock. A process that only checks the lock (`is_locked`) also holds the lock for a
very short time (two system calls). So a failed attempt is repeated for a time that is longer than a check.
"""

_NETWORK = re.compile(r"nfs4?|cifs|smb3|ceph|lustre|gpfs|beegfs|afs|9p|fuse\.(?!fuse-overlayfs).*")
"""The types of file systems that several machines can share."""
_RUN_ID = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,98}[A-Za-z0-9])?")


class NoSuchRun(ComponentError):
    """There is no run with this id."""


class Home:
    """The place of the data of pipelines: a directory, or a database together with a folder for logs.

    Several processes may use the same place. Each run has only one runner at a time. With a database, the working
    directory of each step's launch is in a temporary directory of this machine, which `close` removes.
    """

    def __init__(self, place: str | Path = DEFAULT_HOME) -> None:
        """Check the place without a request to a database. Raises ComponentError if the place is not valid."""
        self._opened = ExitStack()  # closes `_reader`
        self._scratch = ExitStack()
        self._guard = threading.Lock()  # guards `_reader` and `_identity`
        self._reader: MetadataStore | None = None
        self._identity = 0  # the inode number of the file that `_reader` reads
        self.look_seconds = 1.0
        """Seconds between two checks of an unfinished run."""
        self.path = Path(place).absolute()
        self.database: Path | str = self.path / "metadata.db"
        """The file of the metadata store, or the URL of its database in libpq's format."""
        folder, objects = self.path, None
        if url := database_url(str(place)):
            self.look_seconds = 2.0
            self.database, logs = url
            folder, objects = _place_of_logs(logs)
            self.path = self._scratch.enter_context(scratch_directory(str(self)))
        else:
            try:
                check_own_place(self.path)
            except OSError as error:
                raise ComponentError(f"{error.filename}: {error.strerror}: choose another place with --home") from None
        self.logs = StepLogs(self.path / folder, objects)
        self._scratch.callback(self.logs.close)

    def __str__(self) -> str:
        return str(self.path) if self._local else shown_url(str(self.database))

    @property
    def _local(self) -> bool:
        return isinstance(self.database, Path)

    def close(self) -> None:
        """Close the store that all callers of `reading` share, and remove the temporary directory."""
        self._opened.close()
        self._scratch.close()

    def store(self, *, read_only: bool = False) -> MetadataStore:
        """Return the metadata store; the caller closes it.

        With `read_only`, the store must exist. Raises StoreError.
        """
        return MetadataStore(self.database, read_only=read_only)

    def exists(self) -> bool:
        """Return False if the home is a directory without a metadata store. Otherwise return True: there may be runs.

        Raises StoreError if the database can't be read.
        """
        if isinstance(self.database, Path):
            return self.database.exists()
        self.reading()
        return True

    # Shared access for repeated reads, for example for the page.

    def reading(self) -> MetadataStore:
        """Return the metadata store for reading. All readers share it, until the home is closed.

        If the file of the store has been replaced, the call closes the old store and opens the new file. Raises
        StoreError if the store can't be opened.
        """
        with self._guard:
            try:
                identity = Path(self.database).stat().st_ino  # the user may have replaced the file
            except OSError:
                identity = 0
            if self._reader is None or identity != self._identity:
                self._opened.close()
                self._reader, self._identity = None, identity
                self._reader = self._opened.enter_context(self.store(read_only=True))
            return self._reader

    def known_launch(self, store: MetadataStore, run: RunRecord, step: str) -> LaunchRecord | None:
        """Return the record of a step's launch. Return None if there is no record, or if it can't be read.

        The names of the run and the step come from the store, and may be invalid. For a name that would lead out of the
        home, such as `..`, the result is None.
        """
        if names_files(run.id, step):
            with suppress(LauncherError):
                return WorkDirectory(self.step_folder(run.id, step), self.keeper(store, run, step)).load()
        return None

    # The files and the lock of a run.

    def run_folder(self, run_id: str) -> Path:
        """Return the folder of a run."""
        return self.path / RUNS / run_id

    def step_folder(self, run_id: str, step: str) -> Path:
        """Return the working directory of a step's launch."""
        return self.run_folder(run_id) / "steps" / step

    def keeper(self, store: MetadataStore, run: RunRecord, step: str) -> RecordKeeper | None:
        """Return the functions that read and write the launch record of a step in the database.

        A launch record has the progress of a launch, and identifies the container, pod or TFJob that was launched.

        Return None if the home is a directory: then the record is a file in the working directory of the launch.
        """
        if self._local:
            return None
        read, write = partial(store.launch, run.id, step), partial(store.put_launch, run, step)
        return RecordKeeper(read, write, self.logs.positions(run.id, step))

    @contextmanager
    def lock(
        self,
        store: MetadataStore,
        run_id: str,
        context: LaunchContext | None = None,
        *,
        step: str = "",
        wait: bool = False,
        stop: StopSignal | None = None,
        seconds: float = LEASE_SECONDS,
        when_lost: Callable[[], object] = lambda: None,
    ) -> Iterator[RunLease]:
        """Own a run, or with `step` a step of it, within the `with` block. At most one process can own it.

        The lease is valid for `seconds` after each renewal. If another process takes over the lease, or if the lease
        expires because the store does not respond, the lease calls `when_lost`. With `wait`, the call waits until the
        lease of another machine has expired; `stop` ends the wait. `context` has the clock of the lease, and the
        function that shows the user the reason for the wait. Raises RunInProgress if another process owns the run, or
        StoreError.
        """
        name = f"{run_id}/{step}" if step else run_id
        context = context or LaunchContext()
        with ExitStack() as held:
            kernel = ""
            if self._local:
                # The file lock is taken before the lease. The kernel releases the file lock when a process ends, even
                # after `kill -9`. So a runner of the same machine need not wait until the lease expires.
                lock = self.run_folder(run_id).joinpath(*(("launchers", step) if step else ()), _LOCK)
                make_folders(lock.parent)
                if (locked := hold_lock(lock, _LOCK_SECONDS)) is None:
                    raise RunInProgress(f"run {name} is running: its runner has locked {lock}")
                held.enter_context(locked)
                kernel = _kernel_id()
            lease = RunLease(store, name, context.clock, seconds=seconds, kernel=kernel, when_lost=when_lost)
            lease.acquire(wait=wait, tell=context.tell, stop=stop)
            held.enter_context(lease)
            held.callback(self.logs.flush)
            yield lease

    def check_sharing(self) -> None:
        """Raise ComponentError if the home is a directory on a network file system, such as NFS.

        If Argo or Airflow runs the launchers of a run on several nodes, the launchers would not see each other's locks,
        and could overwrite each other's records.
        """
        if not self._local:
            return
        types: dict[Path, str] = {}
        with suppress(OSError):  # if several file systems are mounted at the same path, the last of them is visible
            types = {Path(partition.mountpoint): partition.fstype for partition in psutil.disk_partitions(all=True)}
        path = self.path.resolve()
        kind = next((types[folder] for folder in (path, *path.parents) if folder in types), "")
        if _NETWORK.fullmatch(kind):
            raise ComponentError(
                f"--home {self.path} is on a network file system ({kind}), which can't have the records of a run "
                "that an orchestrator controls: keep the records in PostgreSQL, "
                "--home=postgresql://HOST/DB?folder=LOGS"
            )

    def find(self, store: MetadataStore, wanted: str, pipeline: str = "") -> RunRecord:
        """Return the run with the id `wanted`. For `latest`, return the newest run, or the newest run of `pipeline`.

        Raises NoSuchRun.
        """
        run = next(iter(store.runs(pipeline)), None) if wanted == LATEST else store.run(wanted)
        if run is None:
            of = f" of {pipeline}" if pipeline else ""
            raise NoSuchRun(f"there is no run{of} yet" if wanted == LATEST else f"there is no run {wanted}")
        return self.seen(run)

    def seen(self, run: RunRecord) -> RunRecord:
        """Return the run with its current state.

        The state is `interrupted` if the run is recorded as running but no longer has a runner. A run whose steps Argo
        or Airflow starts (`orchestrated`) needs no runner, so its recorded state is returned.
        """
        if run.state != "running" or orchestrated(run):
            return run
        # If the runner has started on this machine since the last boot, the file lock shows whether it still runs.
        held = run.lease.left > 0 and not (self._local and run.lease.kernel == _kernel_id())
        if is_run_id(run.id) and (held or is_locked(self.run_folder(run.id) / _LOCK)):
            return run
        return msgspec.structs.replace(run, state="interrupted", message="its runner has died")

    def remove(self, run_id: str) -> None:
        """Remove the directory of a run, and the files of its logs."""
        for folder in (self.run_folder(run_id), self.logs.run_folder(run_id)):
            shutil.rmtree(folder, ignore_errors=True)

    def remove_left(self, store: MetadataStore) -> None:
        """Remove the working directories of ended runs that killed processes have left in temporary directories.

        Do nothing if the home is a directory, because it has the working directories itself. If the store can't be
        read, a later command removes the directories.
        """
        if not self._local:
            with suppress(StoreError):
                remove_left(str(self), lambda run_id: (run := store.run(run_id)) is not None and run.over)


def _place_of_logs(text: str) -> tuple[Path, Objects | None]:
    """Return the folder of the logs, and the object store of the logs or None.

    `text` is a directory or the URL of an object store. For an object store, the folder has local copies of the logs.
    Raises ComponentError if `text` is neither, or if the URL is not valid.
    """
    if is_object_url(text):
        try:
            return Path("logs"), Objects(text)
        except ObjectStoreError as error:
            raise ComponentError(f"folder={shown_url(text)}: {error}") from None
    local = local_path(text or str(DEFAULT_HOME))
    if local is None:
        raise ComponentError(
            f"folder={shown_url(text)}: must be a directory, or a URL that begins with s3://, gs:// or az://"
        )
    return local.absolute(), None


def _kernel_id() -> str:
    """Return an identifier of the running kernel, which changes at each boot.

    Return "" if the system has no such identifier.
    """
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return ""


def orchestrated(run: RunRecord) -> bool:
    """Return whether an orchestrator (Argo or Airflow) starts and retries the run's steps.

    If not, a PipelineRunner starts and retries the steps.
    """
    return ORCHESTRATOR in run.place


def is_run_id(text: str) -> bool:
    """Return whether this text is a valid id of a run. The id is a part of paths and URIs."""
    return _RUN_ID.fullmatch(text) is not None and text != LATEST


def names_files(run_id: str, step: str) -> bool:
    """Return whether the id and the step can be parts of a path in the home, without leading out of it."""
    return is_run_id(run_id) and step not in ("", ".", "..") and not {os.sep, "\0"} & set(step)
