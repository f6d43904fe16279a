"""The log archive: the output of containers, kept as files when they end and before their pod is deleted.

A pod's logs are on its node and are deleted with it, just when a user wants to know the cause of its end. The
operator writes the archive (`LogArchive`), clients that can see its directory or bucket read it (`archived_pods`).
"""

from tfoperator.logs.archive.layout import ArchivedContainer, ArchivedPod
from tfoperator.logs.archive.place import open_place
from tfoperator.logs.archive.pod_logs import ArchiveBounds
from tfoperator.logs.archive.reader import ARCHIVE_VARIABLE, archived_pods, read_archived
from tfoperator.logs.archive.runs import runs_of_container
from tfoperator.logs.archive.writer import ArchiveMetrics, LogArchive

__all__ = [
    "ARCHIVE_VARIABLE",
    "ArchiveBounds",
    "ArchiveMetrics",
    "ArchivedContainer",
    "ArchivedPod",
    "LogArchive",
    "archived_pods",
    "open_place",
    "read_archived",
    "runs_of_container",
]
