"""Garbage collection by owner, and the removal of namespaces. kube-controller-manager does this in a cluster.

If all owners of an object are gone, the object is deleted. Foreground deletion waits for dependents that block it.
Orphaning removes the owner references from dependents. The changes of the store trigger the garbage collection, but it
never runs inside the write that causes a change. `schedule` (the event loop's `call_soon`) runs it after the write. So
a DELETE returns before dependents are deleted, as on a cluster.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterator

from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.members import Json, put_list
from tfoperator.local.apiserver.registry.deletion import (
    FOREGROUND_FINALIZER,
    ORPHAN_FINALIZER,
    DeleteOptions,
    Preconditions,
)
from tfoperator.local.apiserver.registry.registry import Registry
from tfoperator.local.apiserver.resource_types import NAMESPACES, ResourceType
from tfoperator.local.apiserver.storage.store import Store, StoreChange, StoredObject

logger = logging.getLogger(__name__)

_Place = tuple[ResourceType, str]


class GarbageCollector:
    """Deletes objects after all of their owners are gone. Use it only in the server's event loop."""

    def __init__(self, store: Store, registry: Registry, schedule: Callable[[Callable[[], None]], object]) -> None:
        """Observe changes of the store from now on."""
        self._store = store
        self._registry = registry
        self._schedule = schedule
        self._by_kind = {(r.api_version, r.kind): r for r in registry.resources}
        # The dependents by the UID of their owner, in an order, so that the same requests always have the same effects.
        self._dependents: dict[str, dict[_Place, None]] = defaultdict(dict)
        self._queue: deque[_Place] = deque()
        self._scheduled = False
        store.observe(self._observe)

    def _observe(self, change: StoreChange) -> None:
        place = (change.resource, change.last.key)
        before = _owner_uids(change.old)
        after = _owner_uids(change.new)
        for uid in before - after:
            self._dependents[uid].pop(place, None)
            if not self._dependents[uid]:
                del self._dependents[uid]
        for uid in after - before:
            self._dependents[uid][place] = None
        if change.new is None:
            uid = change.last.metadata["uid"]
            self._enqueue(*self._dependents.get(uid, ()), *self._owners(change.last), *_home(change))
        elif after or change.new.metadata.get("deletionTimestamp"):
            self._enqueue(place)

    def _enqueue(self, *places: _Place) -> None:
        self._queue.extend(places)
        if self._queue and not self._scheduled:
            self._scheduled = True
            self._schedule(self._drain)

    def _drain(self) -> None:
        self._scheduled = False
        work = dict.fromkeys(self._queue)
        self._queue.clear()
        for resource, key in work:
            stored = self._store.get(resource, key)
            if stored is None:
                continue
            try:
                self._process(resource, stored)
            except StatusError as error:
                # Another write came first, or the object breaks a newer rule. The next event of the object is a retry.
                logger.warning("can't delete %s %s as garbage: %s", resource.qualified, key, error)

    def _process(self, resource: ResourceType, stored: StoredObject) -> None:
        metadata = stored.metadata
        finalizers = metadata.get("finalizers") or ()
        if metadata.get("deletionTimestamp"):
            if ORPHAN_FINALIZER in finalizers:
                self._orphan_dependents(resource, stored)
            elif FOREGROUND_FINALIZER in finalizers:
                self._delete_dependents(resource, stored)
            elif resource == NAMESPACES:
                self._empty_namespace(stored)
        elif metadata.get("ownerReferences"):
            self._collect(resource, stored)

    def _collect(self, resource: ResourceType, stored: StoredObject) -> None:
        """Delete an object if it has no living owner. An owner of a kind that this server does not serve is living.

        If the object has a living owner, remove its references to owners that are gone, and to owners that wait for it
        in a foreground deletion.
        """
        namespace = stored.metadata.get("namespace", "")
        living: list[Json] = []
        waiting: list[Json] = []
        for reference in stored.metadata["ownerReferences"]:
            is_known, owner = self._owner(reference, namespace)
            if not is_known:
                living.append(reference)
            elif owner is not None:
                (waiting if _waits_for(owner, reference) else living).append(reference)
        if not living:
            own_dependents = self._dependents.get(stored.metadata["uid"])
            policy = "Foreground" if waiting and own_dependents else "Background"
            finalizers = stored.metadata.get("finalizers") or ()
            if ORPHAN_FINALIZER in finalizers:
                policy = "Orphan"
            elif FOREGROUND_FINALIZER in finalizers:
                policy = "Foreground"
            self._delete(resource, stored, policy)
        elif len(living) < len(stored.metadata["ownerReferences"]):
            self._set_owners(resource, stored, living)

    def _delete(self, resource: ResourceType, stored: StoredObject, policy: str = "Background") -> None:
        options = DeleteOptions(propagation_policy=policy, preconditions=Preconditions(uid=stored.metadata["uid"]))
        namespace, name = stored.metadata.get("namespace", ""), stored.metadata["name"]
        self._registry.delete(resource, namespace, name, options)

    def _set_owners(self, resource: ResourceType, stored: StoredObject, references: list[Json]) -> None:
        new = stored.copy()
        put_list(new["metadata"], "ownerReferences", references)
        self._registry.finalize(resource, stored, new)

    def _orphan_dependents(self, resource: ResourceType, owner: StoredObject) -> None:
        uid = owner.metadata["uid"]
        for place in tuple(self._dependents.get(uid, ())):
            dependent = self._store.get(*place)
            if dependent is not None:
                rest = [r for r in dependent.metadata["ownerReferences"] if r["uid"] != uid]
                self._set_owners(place[0], dependent, rest)
        self._drop_finalizer(resource, owner, ORPHAN_FINALIZER)

    def _delete_dependents(self, resource: ResourceType, owner: StoredObject) -> None:
        uid = owner.metadata["uid"]
        blocking = False
        for place in tuple(self._dependents.get(uid, ())):
            dependent = self._store.get(*place)
            if dependent is None:
                continue
            if not dependent.metadata.get("deletionTimestamp"):
                self._collect(place[0], dependent)
            dependent = self._store.get(*place)
            references = dependent.metadata.get("ownerReferences", ()) if dependent else ()
            blocking = blocking or any(r["uid"] == uid and r.get("blockOwnerDeletion") for r in references)
        if not blocking:
            self._drop_finalizer(resource, owner, FOREGROUND_FINALIZER)

    def _drop_finalizer(self, resource: ResourceType, stored: StoredObject, finalizer: str) -> None:
        new = stored.copy()
        put_list(new["metadata"], "finalizers", [f for f in new["metadata"]["finalizers"] if f != finalizer])
        self._registry.finalize(resource, stored, new)

    def _empty_namespace(self, namespace: StoredObject) -> None:
        """Delete the objects of a namespace. When the namespace is empty, finalize it."""
        name, left = namespace.metadata["name"], False
        for resource in self._registry.resources:
            if not resource.namespaced:
                continue
            for stored in self._store.objects(resource, name):
                if not stored.metadata.get("deletionTimestamp"):
                    self._delete(resource, stored)
                left = left or self._store.get(resource, stored.key) is not None
        if not left and "kubernetes" in (namespace.obj["spec"].get("finalizers") or ()):
            new = namespace.copy()
            put_list(new["spec"], "finalizers", [f for f in new["spec"]["finalizers"] if f != "kubernetes"])
            self._registry.finalize(NAMESPACES, namespace, new)

    def _owner(self, reference: Json, namespace: str) -> tuple[bool, StoredObject | None]:
        """Return whether this server serves the owner's kind, and the owner, if an owner with this UID exists."""
        resource = self._by_kind.get((reference["apiVersion"], reference["kind"]))
        if resource is None:
            return False, None
        owner = self._store.get(resource, resource.key(namespace, reference["name"]))
        if owner is None or owner.metadata["uid"] != reference["uid"]:
            return True, None
        return True, owner

    def _owners(self, stored: StoredObject) -> Iterator[_Place]:
        """Yield the owners that may wait until this object is removed."""
        namespace = stored.metadata.get("namespace", "")
        for reference in stored.metadata.get("ownerReferences") or ():
            resource = self._by_kind.get((reference["apiVersion"], reference["kind"]))
            if resource is not None:
                yield resource, resource.key(namespace, reference["name"])


def _owner_uids(stored: StoredObject | None) -> set[str]:
    return {r["uid"] for r in stored.metadata.get("ownerReferences") or ()} if stored else set()


def _home(change: StoreChange) -> Iterator[_Place]:
    """Yield the namespace of a deleted object. The namespace may wait until it is empty."""
    if change.resource.namespaced:
        yield NAMESPACES, change.last.metadata["namespace"]


def _waits_for(owner: StoredObject, reference: Json) -> bool:
    """Return whether an owner is in foreground deletion and waits for the dependent with this reference."""
    return bool(
        owner.metadata.get("deletionTimestamp")
        and FOREGROUND_FINALIZER in (owner.metadata.get("finalizers") or ())
        and reference.get("blockOwnerDeletion")
    )
