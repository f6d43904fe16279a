"""Finds archived logs.

The module needs only the archive's directory or URL: the job and the cluster may no longer exist.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePath

from tfoperator.logs.archive.layout import (
    ArchivedContainer,
    ArchivedPod,
    is_file_name,
    job_folder,
    namespace_folder,
)
from tfoperator.logs.archive.opening import open_place
from tfoperator.logs.archive.place import Place

logger = logging.getLogger(__name__)

ARCHIVE_VARIABLE = "TFOPERATOR_ARCHIVE_DIR"
"""The environment variable that contains the archive's directory or URL. Clients and the operator read it."""

_READS = 16
"""The number of records that are read in parallel. An object store needs some milliseconds for each record."""


def archived_pods(root: str | os.PathLike[str], namespace: str, job: str, uid: str | None = None) -> list[ArchivedPod]:
    """Return the archived pods of a job, the oldest first.

    Without a `uid`, the function takes the latest job with this name. The list is empty if the archive has nothing of
    the job. Raises OSError if the archive itself can't be read.
    """
    place = open_place(root)
    if uid is not None:
        return _pods(place, [job_folder(namespace, job, uid)], job)
    folder = namespace_folder(namespace)
    # `path_component` changes a name with characters that Kubernetes does not allow: then `_` comes first.
    jobs = [name for name in place.children(folder) if name.startswith((f"{job}-", "_"))]
    pods = _pods(place, [folder / name for name in jobs], job)
    return [pod for pod in pods if pod.job_uid == pods[-1].job_uid]


def read_archived(pod: ArchivedPod, run: ArchivedContainer, *, tail_lines: int | None = None) -> str | None:
    """Return the text of a run's log. Return None if there is no log, or if it was removed."""
    if not is_file_name(run.log):
        return None
    try:
        data = open_place(pod.folder).read(run.log, tail_lines=tail_lines)
    except OSError as error:  # the archive has removed it meanwhile
        logger.debug("no log of %s: %s", pod.pod, error)
        return None
    return data.decode(errors="replace")


def _pods(place: Place, folders: Iterable[PurePath], job: str) -> list[ArchivedPod]:
    targets = [folder / name for folder in folders for name in place.children(folder)]
    if not targets:
        return []
    with ThreadPoolExecutor(min(_READS, len(targets)), thread_name_prefix="archive-reader") as pool:
        records = [record for record in pool.map(place.record, targets) if record is not None and record.job == job]
    return sorted(records, key=lambda pod: (pod.created or pod.archived, pod.archived))
