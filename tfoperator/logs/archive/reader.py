"""Finds archived logs. Needs only the directory: the job, and the cluster, may be gone."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from tfoperator.logs.archive.layout import (
    ArchivedContainer,
    ArchivedPod,
    job_folder,
    namespace_folder,
    read_record,
)
from tfoperator.logs.archive.retention import UNFINISHED

logger = logging.getLogger(__name__)

ARCHIVE_VARIABLE = "TFOPERATOR_ARCHIVE_DIR"
"""The environment variable with the archive's directory, for clients and the operator."""


def archived_pods(root: str | os.PathLike[str], namespace: str, job: str, uid: str | None = None) -> list[ArchivedPod]:
    """Return the archived pods of a job, the oldest first.

    Without a `uid` it is the latest job of that name. Empty if there is nothing. Raises OSError if the archive
    itself can't be read.
    """
    base = Path(root)
    os.stat(base)
    if uid is not None:
        return _pods([job_folder(base, namespace, job, uid)], job)
    found = _pods(_entries(namespace_folder(base, namespace)), job)
    return [pod for pod in found if pod.job_uid == found[-1].job_uid]


def read_archived(
    pod: ArchivedPod, container: ArchivedContainer, *, previous: bool = False, tail_lines: int | None = None
) -> str | None:
    """Return the text of a container's log; None if there is none, or it was removed."""
    name = container.previous_log if previous else container.log
    if not name or os.sep in name:
        return None
    try:
        with (Path(pod.folder) / name).open("rb") as stream:
            data = stream.read() if tail_lines is None else b"".join(deque(stream, maxlen=tail_lines))
    except OSError as error:  # the archive has removed it meanwhile
        logger.debug("no log of %s: %s", pod.pod, error)
        return None
    return data.decode(errors="replace")


def _pods(folders: Iterable[Path], job: str) -> list[ArchivedPod]:
    found = []
    for folder in folders:
        for entry in _entries(folder):
            record = read_record(entry)
            if record is not None and record.job == job:
                found.append(record)
    return sorted(found, key=lambda pod: (pod.created or pod.archived, pod.archived))


def _entries(folder: Path) -> list[Path]:
    try:
        return [entry for entry in folder.iterdir() if not entry.name.startswith(UNFINISHED)]
    except (FileNotFoundError, NotADirectoryError):
        return []
