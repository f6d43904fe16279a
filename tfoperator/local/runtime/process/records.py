"""Files in the run directory, by which the next run finds the processes and files that a crashed run has left behind.

There is a file for each living process group, and for each link and mount point at a mount path. Another file
identifies their creator.
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
from tfoperator.local.runtime.process.guardian import kill_stragglers
from tfoperator.local.runtime.process.guardian_main import remove_recorded

logger = logging.getLogger(__name__)

RECORDS = "processes"
"""The folder of the run directory that contains the records."""

OWNER_FILE = "owner"
"""The file that identifies the creator of the records."""
_GUARDIAN_SECONDS = 8.0
"""The time that a guardian may take after the end of its run: its grace period is 5 s."""


T = TypeVar("T")


class Group(msgspec.Struct, frozen=True):
    """A process group that runs, by its first process; `container` is its label."""

    pid: int
    started: str
    container: str = ""


class RecordsOwner(msgspec.Struct, frozen=True):
    """The process that made the records, its guardian, and the mark of its containers."""

    owner: ProcessIdentity
    guardian: ProcessIdentity | None = None
    mark: str = ""


def record_owner(records: Path, guardian: int | None, mark: str = "") -> None:
    """Record this process and its guardian as the owner of the other records, with the mark of its containers."""
    me = identify(os.getpid())
    if me is not None:
        owner = RecordsOwner(me, None if guardian is None else identify(guardian), mark)
        _write(records / OWNER_FILE, owner)


def record_group(records: Path, group: int, container: str) -> None:
    """Record a process group that was just started; `container` is its label."""
    identity = identify(group)
    if identity is not None:
        _write(_file(records, group), Group(identity.pid, identity.started, container))


def remove_record(records: Path, group: int) -> None:
    """Remove the record of a group that has ended."""
    _file(records, group).unlink(missing_ok=True)


def remove_records(records: Path) -> None:
    """Remove the folder, when all is ended. It is kept if it has the record of a process that hangs in the kernel."""
    if not any(records.glob("*.json")):
        (records / OWNER_FILE).unlink(missing_ok=True)
    try:
        records.rmdir()
    except OSError:
        pass


def kill_recorded(records: Path) -> list[str]:
    """Kill the process groups that a crashed agent left behind; return their labels.

    Its links and mount points are removed, too. A process that has reused the ID of an ended process is not touched.
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
    """Call `kill_recorded` for each killed run here; wait at most `patience` seconds for its guardian.

    A living run is left alone, and so is a folder to which another user could have written.
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
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def read_record(file: Path, kind: type[T]) -> T | None:
    """Return a record; None if there is no readable one."""
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
