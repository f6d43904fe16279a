"""Keeps an archive below a maximum size, also while logs are written to it.

The limit is on bytes and not on age, because the disk must never become full. To make room, the pods that ended first
are removed from the largest namespace. So if the programs of one namespace print very much, their own logs are removed,
and not the logs of namespaces with fewer bytes. The logs of the smaller namespaces are protected in this way for only a
week. Otherwise the logs of deleted namespaces would stay forever.
"""

from __future__ import annotations

import logging
import secrets
import tempfile
import threading
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path, PurePath

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.logs.archive.layout import ArchivedPod
from tfoperator.logs.archive.place import UNFINISHED, Place

logger = logging.getLogger(__name__)

_TARGET_SHARE = 0.9  # of the limit; without spare room, each later pod would cause another scan of all files


_PROTECTED_AGE = timedelta(days=7)

_Pods = dict[str, list[tuple[float, int, PurePath]]]
"""By namespace: (time of the end, bytes, folder) of every pod. The pod that ended first is the last in the list."""


class Retention:
    """Decides which pods to remove from an archive to make room.

    Thread-safe. The archive's size is measured at the first call. After that, each addition updates it.
    """

    def __init__(self, place: Place, max_bytes: int, *, clock: Clock | None = None) -> None:
        self._place = place
        self._max = max_bytes
        self._clock = clock or SystemClock()
        self._mine = f"{UNFINISHED}{secrets.token_hex(4)}-"
        # Guards the fields below, and the folders above the folders of pods. Only threads that write to the archive
        # take it: they need the size of the archive, even if an object store takes long to report it.
        self._lock = threading.Lock()
        self._measured = False
        self._kept: Counter[str] = Counter()  # bytes of finished folders, by namespace
        self._claimed: Counter[Path] = Counter()  # bytes of unfinished folders
        self._oldest = 0.0  # the time of the oldest pod, or earlier

    def prepare(self) -> None:
        """Measure the archive, and clean up after a crash. Idempotent.

        Call it before a record is read: after a crash, the cleanup may put the record's folder back. Raises OSError.
        """
        with self._lock:
            self._measure()

    def new_folder(self, target: PurePath) -> Path:
        """Make an empty folder beside the final folder `target` of a pod, and return it. Raises OSError."""
        # Under the lock, because `_make_room` also removes folders that have become empty.
        with self._lock:
            parent = (self._place.root / target).parent
            parent.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=self._mine, dir=parent))
        folder.chmod(0o750)  # mkdtemp's 0700 would shut out clients in the volume's group
        return folder

    def add(self, folder: Path, target: PurePath, when: datetime, old: ArchivedPod | None = None) -> None:
        """Move a pod's finished folder to the final folder `target`.

        Remove the pods that ended first if the archive is too large. `old` is the record that `target` had when
        `folder` was made. `when` is the time at which the pod ended. The present time would be wrong: after a restart,
        the operator may fetch logs of old pods again, which must not displace the logs of newer pods. Raises OSError.
        """
        target = (self._place.root / target).relative_to(self._place.root)
        namespace = target.parts[0]
        self.prepare()
        # `replace` runs without the lock, because it may send requests. A scan at the same time may count the folder
        # twice. The next scan corrects this.
        size = self._place.replace(target, folder, when, old)
        with self._lock:
            self._claimed.pop(folder, None)
            self._kept[namespace] += size
            self._oldest = min(self._oldest, when.timestamp())
            self._make_room(namespace, 0, spared=target)

    def claim(self, folder: Path, size: int) -> bool:
        """Reserve `size` bytes for an unfinished folder. Return whether these bytes may now be written.

        If there is no room, the call removes pods from the archive. Return False if there is still no room. A negative
        `size` releases reserved bytes.
        """
        with self._lock:
            self._measure()
            if size > 0 and not self._make_room(self._namespace(folder), size):
                return False
            self._claimed[folder] += size
            return True

    def release(self, folder: Path) -> None:
        """Release the bytes that an unfinished folder claimed. Idempotent.

        Call it when the folder was removed, or when `add` has moved it to its final place.
        """
        with self._lock:
            self._claimed.pop(folder, None)

    def _namespace(self, folder: PurePath) -> str:
        return (self._place.root / folder).relative_to(self._place.root).parts[0]

    def _uses(self) -> Counter[str]:
        """Return the bytes of each namespace, in finished and unfinished folders."""
        uses = self._kept.copy()
        for folder, size in self._claimed.items():
            uses[self._namespace(folder)] += size
        return uses

    def _total(self) -> int:
        return self._kept.total() + self._claimed.total()

    def _measure(self) -> None:
        """Measure the archive, after a cleanup of the folders that a crash left behind."""
        if self._measured:
            return
        self._place.tidy(self._mine)
        self._sum_up(self._pods())
        self._measured = True

    def _sum_up(self, pods: _Pods) -> None:
        self._kept = Counter({namespace: sum(size for _, size, _ in entries) for namespace, entries in pods.items()})
        self._oldest = min((entries[-1][0] for entries in pods.values() if entries), default=float("inf"))

    def _make_room(self, namespace: str, size: int, spared: PurePath | None = None) -> bool:
        """Remove pods except `spared` until there is room for `size` more bytes of the namespace.

        Return whether there is room.
        """
        if self._total() + size <= self._max:
            return True
        old = (self._clock.now() - _PROTECTED_AGE).timestamp()
        uses = self._uses()
        wanted = uses[namespace] + size
        # A full archive is not scanned for each piece of a log that will not fit.
        if self._oldest >= old and not any(
            kept and (name == namespace or uses[name] >= wanted) for name, kept in self._kept.items()
        ):
            return False
        pods = self._pods()
        self._sum_up(pods)
        uses = self._uses()
        removed = 0
        while self._total() + size > self._max * _TARGET_SHARE:
            giver = _giver(pods, uses, namespace, size, spared, old)
            if giver is None:
                break
            _, bytes_of_pod, folder = pods[giver].pop()
            self._place.remove(folder)
            self._kept[giver] -= bytes_of_pod
            uses[giver] -= bytes_of_pod
            removed += 1
        if removed:
            logger.info("the log archive was full: removed the logs of %d old pods", removed)
        self._oldest = min((entries[-1][0] for entries in pods.values() if entries), default=float("inf"))
        return self._total() + size <= self._max

    def _pods(self) -> _Pods:
        pods: _Pods = {}
        for time, size, folder in sorted(self._place.found(), reverse=True):
            pods.setdefault(self._namespace(folder), []).append((time, size, folder))
        return pods


def _giver(
    pods: _Pods, uses: Counter[str], namespace: str, size: int, spared: PurePath | None, old: float
) -> str | None:
    """Return the namespace whose oldest pod is removed, so that `namespace` gets `size` more bytes.

    The candidates are `namespace` itself, and each namespace that has at least as many bytes as `namespace` would get.
    Return the candidate with the most bytes. If no candidate has a pod, return the namespace with the oldest pod,
    provided that this pod ended before the time `old`. The pod with the folder `spared` does not count. If there is no
    such namespace, return None.
    """
    wanted = uses[namespace] + size
    oldest: dict[str, float] = {}
    for name, entries in pods.items():
        if len(entries) > 1 and entries[-1][2] == spared:  # this pod stays, even if it is the oldest
            entries[-1], entries[-2] = entries[-2], entries[-1]
        if entries and entries[-1][2] != spared:
            oldest[name] = entries[-1][0]
    fair = [name for name in oldest if name == namespace or uses[name] >= wanted]
    if fair:
        return max(fair, key=lambda name: (uses[name], -oldest[name]))
    return min((name for name in oldest if oldest[name] < old), key=lambda name: oldest[name], default=None)
