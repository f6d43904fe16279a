"""A file for each living process group, by which the next run finds what a crashed one has left behind."""

from __future__ import annotations

import json
import logging
import signal
from pathlib import Path

import msgspec

from tfoperator.local.identity import ProcessIdentity, identify, signal_process

logger = logging.getLogger(__name__)

RECORDS = "processes"
"""The folder of the run directory with the records."""


def record_group(records: Path, group: int, container: str) -> None:
    """Record a process group that has just been started; `container` is what to call it."""
    identity = identify(group)
    if identity is None:
        return
    record = {"pid": identity.pid, "started": identity.started, "container": container}
    try:
        _file(records, group).write_text(json.dumps(record))
    except OSError as error:  # the guardian knows it as well
        logger.warning("can't record process %d: %s", group, error)


def remove_record(records: Path, group: int) -> None:
    """Remove the record of a group that has ended."""
    _file(records, group).unlink(missing_ok=True)


def kill_recorded(records: Path) -> list[str]:
    """Kill the process groups that a crashed agent left behind; returns what they were.

    A process that has inherited the id of one that ended is not touched.
    """
    killed = []
    for file in sorted(records.glob("*.json")):
        try:
            record = msgspec.json.decode(file.read_bytes())
            identity = ProcessIdentity(int(record["pid"]), str(record["started"]))
        except (OSError, msgspec.DecodeError, KeyError, ValueError):
            logger.warning("%s is not a process record, ignored", file)
            continue
        if signal_process(identity, signal.SIGKILL, group=True):
            killed.append(str(record.get("container", identity.pid)))
        file.unlink(missing_ok=True)
    return killed


def _file(records: Path, group: int) -> Path:
    return records / f"{group}.json"
