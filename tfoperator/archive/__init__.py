"""The log archive: what containers have printed, kept as files from before their pod is deleted.

A pod's logs live on its node and go with it, which is just when somebody wants to know why it was restarted. The
operator writes the archive (`LogArchive`), clients that can see the directory read it (`archived_pods`).
"""

from tfoperator.archive.layout import ArchivedContainer, ArchivedPod
from tfoperator.archive.logs import LogSource
from tfoperator.archive.reader import ARCHIVE_VARIABLE, archived_pods, read_archived
from tfoperator.archive.writer import ArchiveMetrics, LogArchive, NoArchiveMetrics, ensure_writable

__all__ = [
    "ARCHIVE_VARIABLE",
    "ArchiveMetrics",
    "ArchivedContainer",
    "ArchivedPod",
    "LogArchive",
    "LogSource",
    "NoArchiveMetrics",
    "archived_pods",
    "ensure_writable",
    "read_archived",
]
