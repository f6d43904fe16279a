"""Reads the live state of all the operator's objects, and compares it with the caches.

A *look* is one reading of the live state. A *whole* look lists each collection: TFJobs, pods, services, and PodGroups
if there is a gang scheduler. The lists are paged, contain only metadata, and select objects by the operator's label.
Each page is compared when it arrives, and then dropped.

Between whole looks, a collection of more than one page is not listed. Instead, a short watch from the last version on
reads the changes since the last look. This watch has its own connection, so it is independent of the watch that fills
the cache. The changes are compared with the cache like a page of a list. The server ends such a watch after a few
seconds. If there is a newer version, it first sends a bookmark. (It sends no bookmark for a version that the watch has
already reached.) If a server is behind etcd, it sends the changes at the next look. If the watch can't be opened, ends
early or breaks (because the version is too old, for example), the look becomes a whole look. So the cost of a look
grows with the number of changes, and not with the number of objects. Each state that the server sent is compared. A
look at the changes can't find objects that the cache lost without a change on the server, and it can't find changes
that the server omits from a watch. The whole looks find both.

A list is never older than the events of an earlier watch. So if a list is older than the version that the cache had
before the request, the server was restored from a backup. After a restore, the server's versions continue from the
backup's version. The watches of the caches wait for versions that the server has not reached yet, and receive nothing
until then.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.api.replicas.names import MANAGED_SELECTOR
from tfoperator.api.v1.types import TFJOBS
from tfoperator.base.clock import Clock
from tfoperator.controller import OF_JOBS, is_older
from tfoperator.informers import InformerGroup
from tfoperator.kube import EVERYTHING, ListWatch, Selection, WatchOptions, list_pages
from tfoperator.kube.protocol.errors import ForbiddenError, KubeError
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import ApiClient, WatchEventType, WatchStream, decode_metadata
from tfoperator.kube.views.objects import PartialObject
from tfoperator.kube.watching.listing import PAGE_SIZE
from tfoperator.reconciler.compare import NO_DIFFERENCES, Collation, Difference, Differences

logger = logging.getLogger(__name__)

_SELECTIONS = {TFJOBS: EVERYTHING, WORKLOADS: OF_JOBS}
"""The selections for collections whose objects do not have the operator's label."""

_WATCH_SECONDS = 3
"""The time limit of a watch in seconds. The server sends changes for this time. If the server has a newer version, it
sends a bookmark about 2 s before the end.
"""

_EARLY_SECONDS = 0.5
"""If a watch ends more than this many seconds before its time limit, the time limit was not the reason."""

_PARALLEL_NAMESPACES = 8
"""The number of namespaces that are read in parallel. A read of one namespace takes a second or two."""

_FRUITLESS_LIMIT = 3
"""If this number of watches of a collection end early in a row, the collection is listed instead for
`_FRUITLESS_PAUSE`.
"""

_FRUITLESS_PAUSE = 3600.0
"""Seconds for which a collection is listed after its watches ended early. API servers end watches early during a
rollout, and proxies during a drain.
"""


class Look(msgspec.Struct, frozen=True):
    """The differences between the server and the caches that one look (a reading of the live state) found.

    `jobs` has the differences of TFJobs, by key. `owned` has the differences of other objects, by the resource's
    plural, the owner's UID, and the key. The state of the namespaces in `closed` is unknown, because the operator has
    no right to read these namespaces (any more). If `went_back` is true, the caches have versions that are later than
    the server's newest version, as after a restore of the server from a backup.
    """

    jobs: Mapping[str, Difference]
    owned: Mapping[str, Differences]
    closed: frozenset[str] = frozenset()
    went_back: bool = False

    def found_of(self, uid: str) -> dict[str, Mapping[str, Difference]]:
        """Return the differences of an owner's objects, by the resource's plural and by key."""
        return {kind: differences[uid] for kind, differences in self.owned.items() if uid in differences}


class _Collection:
    """The known state of one collection in one namespace ("" means all namespaces).

    `Looker` keeps this object from one call of `look` to the next.
    """

    def __init__(self, client: ApiClient, resource: Resource, namespace: str, group: InformerGroup[Any]) -> None:
        self.resource = resource
        self.namespace = namespace
        self.group = group
        self.collation = Collation(group.lister.get_all)
        selection = _SELECTIONS.get(resource, Selection(label_selector=MANAGED_SELECTOR))
        self.live = ListWatch(client, resource, namespace, decode_metadata, selection)
        self.version = ""  # version up to which the server has sent everything; empty before the first whole list
        self.listed_at = 0.0
        self.size = 0  # the number of objects in the last whole list
        self.opened_at = 0.0
        self.fruitless = 0  # watches in a row that ended early; 0 again after `_FRUITLESS_PAUSE` without a watch
        self.went_back = False  # whether the last whole list was older than the cache's version

    def differences(self) -> Differences:
        """Return the current differences between the server's answers and the cache."""
        return self.collation.differences(self.group.version_of(self.namespace))


class Looker:
    """Reads the live state and compares it with the caches at each `look`.

    Call `look` from one thread, `close` from any.
    """

    def __init__(
        self,
        client: ApiClient,
        namespaces: Sequence[str],
        *,
        whole_every: float,
        clock: Clock,
        news_above: int = PAGE_SIZE,
    ) -> None:
        """Initialize. Each of `namespaces` is read separately, and "" means all namespaces.

        A collection is listed if `whole_every` seconds have passed since its last list. Otherwise, a watch reads the
        changes. A collection of at most `news_above` objects is always listed, because its list costs less than the
        connection of a watch.
        """
        self._client = client
        self._namespaces = tuple(namespaces)
        self._whole_every = whole_every
        self._news_above = news_above
        self._clock = clock
        self._collections: dict[tuple[Resource, str], _Collection] = {}
        self._lock = threading.Lock()  # guards the fields below: a watch opened just as close() is called must end
        self._closed = False
        self._watches: set[WatchStream[PartialObject]] = set()

    def close(self) -> None:
        """Make a running `look` end soon: `look` then returns None. `close` is idempotent and does not block."""
        with self._lock:
            self._closed = True
            watches = list(self._watches)
        for watch in watches:
            watch.close()

    @property
    def differing(self) -> set[Resource]:
        """The resources whose caches differed from the server at the last comparison. For the thread of `look`.

        A later `look` without these resources does not read them, so their differences stay.
        """
        return {resource for (resource, _), collection in self._collections.items() if collection.collation.differs}

    def look(self, jobs: InformerGroup[Any], owned: Mapping[Resource, InformerGroup[Any]]) -> Look | None:
        """Read the live state of the objects in the caches `jobs` and `owned`, and compare it with these caches.

        Return None if `close` was called meanwhile. Raises KubeError if a request to the API server fails. If the
        operator may not read a namespace (for example because it was deleted, with the operator's Role in it), the
        other namespaces are still compared. ForbiddenError is raised only if the operator may read none of them.
        """
        groups = {TFJOBS: jobs, **owned}
        differences: dict[Resource, list[Differences]] = {resource: [] for resource in groups}
        closed: dict[str, ForbiddenError] = {}
        went_back = False
        for start in range(0, len(self._namespaces), _PARALLEL_NAMESPACES):
            together = self._namespaces[start : start + _PARALLEL_NAMESPACES]
            for namespace, updated in self._updated(together, groups):
                if isinstance(updated, ForbiddenError):
                    closed[namespace] = updated
                    continue
                for collection in updated:
                    differences[collection.resource].append(collection.differences())
                    went_back = went_back or collection.went_back
            if self._closed:
                return None
        # The state of these namespaces is unknown, so their earlier differences mean nothing any more.
        self._collections = {key: known for key, known in self._collections.items() if key[1] not in closed}
        if len(closed) == len(self._namespaces):
            raise next(iter(closed.values()))
        of_jobs = {
            key: difference for group in _joined(differences[TFJOBS]).values() for key, difference in group.items()
        }
        of_owned = {resource.plural: _joined(differences[resource]) for resource in owned}
        return Look(of_jobs, of_owned, frozenset(closed), went_back)

    def _collection(self, resource: Resource, namespace: str, group: InformerGroup[Any]) -> _Collection:
        key = (resource, namespace)
        if key not in self._collections:
            self._collections[key] = _Collection(self._client, resource, namespace, group)
        return self._collections[key]

    def _updated(
        self, namespaces: Sequence[str], groups: Mapping[Resource, InformerGroup[Any]]
    ) -> Iterator[tuple[str, Sequence[_Collection] | ForbiddenError]]:
        """Yield each namespace with its updated collections, or with the error if the operator may not read it.

        The iteration ends early if `close` was called. Raises KubeError if a request fails for any other reason.
        """
        by_namespace = {
            name: [self._collection(resource, name, group) for resource, group in groups.items()] for name in namespaces
        }
        # All watches are opened before the first watch is read, so that their waiting times overlap.
        opened = {
            collection: self._open(collection) for collections in by_namespace.values() for collection in collections
        }
        try:
            for namespace, collections in by_namespace.items():
                try:
                    if not all(self._update(collection, opened[collection]) for collection in collections):
                        return
                except ForbiddenError as error:
                    yield namespace, error
                else:
                    yield namespace, collections
        finally:
            for watch in opened.values():
                if watch is not None:
                    self._end(watch)

    def _update(self, collection: _Collection, watch: WatchStream[PartialObject] | None) -> bool:
        """Update the known state of a collection. Return False if `close` was called meanwhile.

        `watch` reads the changes. If it is None or does not end normally, the collection is listed.
        """
        collection.went_back = False
        if watch is not None and self._read(collection, watch):
            return not self._closed
        return self._list(collection) and not self._closed

    # Changes.

    def _open(self, collection: _Collection) -> WatchStream[PartialObject] | None:
        """Return a watch of the changes since the collection was last read.

        Return None if the watch can't be opened, or if the collection must be listed, for example because its last list
        is too old.
        """
        now = self._clock.monotonic()
        old = now >= collection.listed_at + self._whole_every
        if now >= collection.opened_at + _FRUITLESS_PAUSE:
            collection.fruitless = 0
        if (
            not collection.version
            or collection.size <= self._news_above
            or old
            or collection.fruitless >= _FRUITLESS_LIMIT
        ):
            return None
        collection.opened_at = now
        try:
            watch = collection.live.watch(
                WatchOptions(resource_version=collection.version, timeout_seconds=_WATCH_SECONDS)
            )
        except KubeError:
            return None
        with self._lock:
            self._watches.add(watch)
            closed = self._closed
        if closed:
            watch.close()
        return watch

    def _read(self, collection: _Collection, watch: WatchStream[PartialObject]) -> bool:
        """Pass the events of the watch to `collection.collation`, which compares them with the cache.

        Return False if the watch does not end normally, because changes may then be missing.
        """
        try:
            for event in watch:
                if event.object is None:
                    collection.version = event.resource_version or collection.version
                    collection.fruitless = 0
                    return True
                meta = event.object.metadata
                collection.version = meta.resource_version or collection.version
                collection.collation.happened(event.object, deleted=event.type is WatchEventType.DELETED)
        except KubeError:
            return False
        if self._clock.monotonic() - collection.opened_at >= _WATCH_SECONDS - _EARLY_SECONDS:
            collection.fruitless = 0
            return True
        collection.fruitless += 1
        if collection.fruitless == _FRUITLESS_LIMIT:
            logger.info(
                "watches of %s end early, so for an hour the operator lists these objects instead of watching them",
                collection.resource.plural,
            )
        return False

    def _end(self, watch: WatchStream[PartialObject]) -> None:
        with self._lock:
            self._watches.discard(watch)
        watch.close()

    # Whole lists.

    def _list(self, collection: _Collection) -> bool:
        began = self._clock.monotonic()
        collection.version, version, size = "", "", 0
        reached = collection.group.versions
        collection.collation.list_begins(collection.group.lister.keys(collection.namespace))
        for page in list_pages(collection.live):
            if self._closed:
                return False
            version = page.resource_version
            size += len(page.items)
            collection.collation.listed(page.items, version)
        collection.collation.list_ended(version)
        collection.went_back = any(is_older(version, than) for than in reached)
        collection.version, collection.size, collection.listed_at = version, size, began
        return True


def _joined(parts: Sequence[Differences]) -> Differences:
    """Return the differences of several namespaces in one mapping. The keys of different namespaces differ."""
    if len(parts) == 1:
        return parts[0]
    joined: dict[str, dict[str, Difference]] = {}
    for part in parts:
        for owner, differences in part.items():
            joined.setdefault(owner, {}).update(differences)
    return joined or NO_DIFFERENCES
