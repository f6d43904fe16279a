"""The live state of everything the operator looks after, held against the caches, as cheaply as an API server can tell.

A *whole* look is a list of each collection (TFJobs, pods, services; PodGroups where there is a gang scheduler), paged,
of metadata only and selected by our label. A page is compared when it comes, and then forgotten.

Between whole looks the server is asked only what has happened since the last look: by a watch from that version on, on
a connection of its own, which shares nothing with the cache but the server. What happened is held against the cache
like a page of a list. The server ends such a watch soon, and says by a bookmark before that up to where it has told
everything; without one (the version is too old, the connection broke, the server has no bookmarks) the look is a whole
one. So a look costs what has changed, and not what there is, and each state that the server ever told of is compared.
What it can't find is what the cache lost without any change on the server, and what a server forgets to tell by watch:
for that there are the whole looks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tfoperator.api.names import MANAGED_SELECTOR
from tfoperator.api.v1.types import TFJOBS
from tfoperator.clock import Clock
from tfoperator.informers import InformerGroup, Lister
from tfoperator.kube import Selection, WatchOptions, list_pages
from tfoperator.kube.errors import ForbiddenError, KubeError
from tfoperator.kube.identity import Identity, decode_identity
from tfoperator.kube.objects import HasMetadata
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import ApiClient, WatchEventType, WatchStream
from tfoperator.reconciler.compare import NO_DIFFERENCES, Collation, Difference, Differences

_NEWS_SECONDS = 3
"""How long the server is to tell what has happened. It sends the bookmark 2 s before the end."""

_FRUITLESS_LIMIT = 3
"""After so many watches in a row without a bookmark the server is not asked again in this way."""


class Look(msgspec.Struct, frozen=True):
    """What looks different: among the jobs by key, in `owned` by the resource's plural, the owner's UID, and key.

    Of namespaces that are `closed` nothing is known: we have no right to read them (any more).
    """

    jobs: Mapping[str, Difference]
    owned: Mapping[str, Differences]
    closed: frozenset[str] = frozenset()


class _Collection:
    """What is known of one collection of one namespace ("" is all), from look to look."""

    def __init__(self, resource: Resource, namespace: str, group: InformerGroup[Any]) -> None:
        self.resource = resource
        self.namespace = namespace
        self.lister: Lister[HasMetadata] = group.lister
        self.collation = Collation(group.lister.get_all)
        self.selection = Selection(label_selector="" if resource is TFJOBS else MANAGED_SELECTOR)
        self.version = ""  # up to where the server has told everything; empty before the first whole list
        self.listed_at = 0.0
        self.fruitless = 0


class Looker:
    """Looks, again and again. `look` is for one thread, `close` for any."""

    def __init__(
        self,
        client: ApiClient,
        namespaces: Sequence[str],
        *,
        keep: Callable[[str], bool],
        whole_every: float,
        clock: Clock,
    ) -> None:
        """`namespaces` are looked at one by one; "" is all. Of the objects only those count whose namespaces `keep`
        wants, as in the caches. A look that comes `whole_every` seconds after a whole one is whole again.
        """
        self._client = client
        self._namespaces = tuple(namespaces)
        self._keep = keep
        self._whole_every = whole_every
        self._clock = clock
        self._collections: dict[tuple[Resource, str], _Collection] = {}
        self._lock = threading.Lock()  # guards what follows: a watch that is opened just as close() comes must end
        self._closed = False
        self._watches: set[WatchStream[Identity]] = set()

    def close(self) -> None:
        """End the look that is under way soon, with None. Idempotent, does not block."""
        with self._lock:
            self._closed = True
            watches = list(self._watches)
        for watch in watches:
            watch.close()

    def look(self, jobs: InformerGroup[Any], owned: Mapping[Resource, InformerGroup[Any]]) -> Look | None:
        """Look at these collections. None if closed meanwhile. Raises KubeError.

        A namespace that we may not read, because it was deleted with our role in it perhaps, keeps no other from being
        looked at; ForbiddenError is raised if there is no other.
        """
        groups = {TFJOBS: jobs, **owned}
        found: dict[Resource, list[Differences]] = {resource: [] for resource in groups}
        closed: set[str] = set()
        for namespace in self._namespaces:
            collections = [self._collection(resource, namespace, group) for resource, group in groups.items()]
            try:
                if not self._update(collections):
                    return None
            except ForbiddenError:
                closed.add(namespace)
                if len(closed) == len(self._namespaces):
                    raise
                continue
            for one in collections:
                found[one.resource].append(one.collation.differences())
        of_jobs = {key: one for group in _joined(found[TFJOBS]).values() for key, one in group.items()}
        return Look(of_jobs, {one.plural: _joined(found[one]) for one in owned}, frozenset(closed))

    def _collection(self, resource: Resource, namespace: str, group: InformerGroup[Any]) -> _Collection:
        key = (resource, namespace)
        if key not in self._collections:
            self._collections[key] = _Collection(resource, namespace, group)
        return self._collections[key]

    def _update(self, collections: Sequence[_Collection]) -> bool:
        """Bring what is known of them up to now. False if closed meanwhile."""
        # All watches are open before the first is read: their servers' time to answer is the same time.
        opened = [(one, self._open(one)) for one in collections]
        try:
            for one, watch in opened:
                if watch is not None and self._read(one, watch):
                    continue
                if not self._list(one):
                    return False
        finally:
            for _, watch in opened:
                if watch is not None:
                    self._end(watch)
        return not self._closed

    # The news.

    def _open(self, one: _Collection) -> WatchStream[Identity] | None:
        """A watch for what has happened since the last look; None if that can't be had, or a whole look is due."""
        old = self._clock.monotonic() >= one.listed_at + self._whole_every
        if not one.version or old or one.fruitless >= _FRUITLESS_LIMIT:
            return None
        options = WatchOptions(
            label_selector=one.selection.label_selector,
            resource_version=one.version,
            timeout_seconds=_NEWS_SECONDS,
            allow_watch_bookmarks=True,
        )
        try:
            watch = self._client.watch(one.resource, one.namespace, decode_identity, options)
        except KubeError:
            return None
        with self._lock:
            self._watches.add(watch)
            closed = self._closed
        if closed:
            watch.close()
        return watch

    def _read(self, one: _Collection, watch: WatchStream[Identity]) -> bool:
        """Take what the watch tells. False if it does not say up to where that is everything."""
        one.fruitless += 1
        try:
            for event in watch:
                if event.type is WatchEventType.BOOKMARK:
                    one.version = event.resource_version or one.version
                    one.fruitless = 0
                    return True
                if event.type is WatchEventType.ERROR or event.object is None:
                    one.fruitless = 0  # the version is too old: that says nothing about the server
                    return False
                if self._keep(event.object.metadata.namespace):
                    one.collation.happened(event.object, deleted=event.type is WatchEventType.DELETED)
        except KubeError:
            return False
        return False

    def _end(self, watch: WatchStream[Identity]) -> None:
        with self._lock:
            self._watches.discard(watch)
        watch.close()

    # The whole.

    def _list(self, one: _Collection) -> bool:
        began = self._clock.monotonic()
        one.version, version = "", ""
        one.collation.list_begins(one.lister.keys(one.namespace))
        pages = list_pages(
            self._client, one.resource, one.namespace, decode_identity, one.selection, metadata_only=True
        )
        for page in pages:
            if self._closed:
                return False
            version = version or page.resource_version
            one.collation.listed([item for item in page.items if self._keep(item.metadata.namespace)])
        one.collation.list_ended(version)
        one.version, one.listed_at = version, began
        return True


def _joined(parts: Sequence[Differences]) -> Differences:
    """Those of several namespaces, whose keys are different."""
    if len(parts) == 1:
        return parts[0]
    joined: dict[str, dict[str, Difference]] = {}
    for part in parts:
        for owner, differences in part.items():
            joined.setdefault(owner, {}).update(differences)
    return joined or NO_DIFFERENCES
