"""The log archive: what containers have printed, kept as files when they end and before their pod is deleted.

A pod's logs live on its node and go with it, which is just when somebody wants to know what became of it. The
operator writes the archive (`LogArchive`), clients that can see the directory read it (`archived_pods`).
"""

from tfoperator.logs.archive.layout import ArchivedContainer, ArchivedPod
from tfoperator.logs.archive.log_file import ArchiveSource
from tfoperator.logs.archive.pod_logs import ArchiveBounds
from tfoperator.logs.archive.reader import ARCHIVE_VARIABLE, archived_pods, read_archived
from tfoperator.logs.archive.writer import ArchiveMetrics, LogArchive, ensure_writable

__all__ = [
    "ARCHIVE_VARIABLE",
    "ArchiveBounds",
    "ArchiveMetrics",
    "ArchiveSource",
    "ArchivedContainer",
    "ArchivedPod",
    "LogArchive",
    "archived_pods",
    "ensure_writable",
    "read_archived",
]
