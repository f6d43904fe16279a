"""The records of a run: files in its directory, from which a later run finds what must be cleaned up.

If a run was killed together with its guardian, its processes, links and mount points remain. There is a file for each
living process group, for each link at a mount path, and for each mount point. Another file identifies the process that
made the records.
"""

from __future__ import annotations

import logging
import os
import signal
import stat
import time
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.local.identity import ProcessIdentity, identify, is_alive, signal_process
from tfoperator.local.runtime.process.cleanup.guardian import kill_stragglers
from tfoperator.local.runtime.process.cleanup.guardian_main import remove_recorded

logger = logging.getLogger(__name__)

RECORDS = "processes"
"""The folder of the run directory that contains the records."""

OWNER_FILE = "owner"
"""The file that identifies the process that made the records."""
_GUARDIAN_SECONDS = 8.0
"""The time in seconds that a guardian may take after its run has ended. The grace period of this guardian is 5 s."""


T = TypeVar("T")


class Group(msgspec.Struct, frozen=True):
    """A running process group, identified by its first process: the process ID and the start time.

    `container` names its container, as in `default/digits-worker-0/tensorflow`.
    """

    pid: int
    started: str
    container: str = ""


class RecordsOwner(msgspec.Struct, frozen=True):
    """The process that made the records, its guardian, and the mark of its containers (see `CONTAINER_VARIABLE`)."""

    owner: ProcessIdentity
    guardian: ProcessIdentity | None = None
    mark: str = ""


def record_owner(records: Path, guardian: int | None, mark: str = "") -> None:
    """Record this process as the owner of the other records.

    The record also contains the guardian's process ID and the mark of the run's containers (see `CONTAINER_VARIABLE`).
    """
    me = identify(os.getpid())
    if me is not None:
        owner = RecordsOwner(me, None if guardian is None else identify(guardian), mark)
        _write(records / OWNER_FILE, owner)


def record_group(records: Path, group: int, container: str) -> None:
    """Record a process group that was just started. `container` is the name of its container for messages."""
    identity = identify(group)
    if identity is not None:
        _write(_file(records, group), Group(identity.pid, identity.started, container))


def remove_record(records: Path, group: int) -> None:
    """Remove the record of a group that has ended."""
    _file(records, group).unlink(missing_ok=True)


def remove_records(records: Path) -> None:
    """Remove the folder of records. Call this function after all process groups have ended.

    The folder is kept if it contains the record of a process that hangs in the kernel.
    """
    if not any(records.glob("*.json")):
        (records / OWNER_FILE).unlink(missing_ok=True)
    try:
        records.rmdir()
    except OSError:
        pass


def kill_recorded(records: Path) -> list[str]:
    """Kill the processes that a killed run left behind. Return the names of the containers whose groups were killed.

    `records` is the folder with the records of the killed run. The function also removes the run's links and mount
    points. A process that has the ID of an ended process, but another start time, is not killed.
    """
    killed = []
    for file in sorted(records.glob("*.json")):
        record = read_record(file, Group)
        if record is None:
            logger.warning("%s is not a process record, and is ignored", file)
            continue
        if signal_process(ProcessIdentity(record.pid, record.started), signal.SIGKILL, group=True):
            killed.append(record.container or str(record.pid))
        file.unlink(missing_ok=True)
    owner = read_record(records / OWNER_FILE, RecordsOwner)
    if owner is not None and owner.mark:
        kill_stragglers(owner.mark)
    remove_recorded(str(records))
    return killed


def kill_left_behind(runs: Path, *, patience: float = _GUARDIAN_SECONDS) -> list[str]:
    """Call `kill_recorded` for each killed run in this folder. Return the names of the containers that were killed.

    Before each call, wait at most `patience` seconds until the run's guardian has ended. The function skips a run that
    is alive, and a folder to which another user could have written.
    """
    killed = []
    for records in sorted(runs.glob(f"*/{RECORDS}")):
        owner = read_record(records / OWNER_FILE, RecordsOwner) if _is_our_own(records) else None
        if owner is None or is_alive(owner.owner):
            continue
        if owner.guardian is not None:
            _await_end(owner.guardian, patience)
        killed += kill_recorded(records)
        remove_records(records)
    return killed


def _await_end(guardian: ProcessIdentity, seconds: float) -> None:
    end = time.monotonic() + seconds
    while is_alive(guardian) and time.monotonic() < end:
        time.sleep(0.05)


def _is_our_own(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def read_record(file: Path, kind: type[T]) -> T | None:
    """Return a record. Return None if the file is missing or not readable."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, *UNDECODABLE):
        return None


def _write(file: Path, record: Any) -> None:
    try:
        file.write_bytes(msgspec.json.encode(record))
    except OSError as error:  # the guardian knows the group, too
        logger.warning("can't write the record %s: %s", file, error)


def _file(records: Path, group: int) -> Path:
    return records / f"{group}.json"
