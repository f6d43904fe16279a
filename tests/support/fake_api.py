"""An API server in a dictionary, an `ApiClient` for tests, with what controllers get wrong.

That is resourceVersions and conflicts, uid preconditions, watches that can lose events, backups that are restored,
answers that fail on request, and a log of every call. It has no schema, no admission and no garbage collector; the
embedded API server of tfoperator.local and the real one have those.
"""

import builtins
import copy
import json
import queue
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hack.sequential_client import SequentialClient, api_error, plain
from tfoperator.kube import apply_merge_patch
from tfoperator.kube.patches.strategic_merge import strategic_merge
from tfoperator.kube.protocol.options import EVERYTHING, LIST_ALL, WATCH_FROM_NOW, ListOptions, Selection, WatchOptions
from tfoperator.kube.protocol.resources import PODS, Resource
from tfoperator.kube.protocol.verbs import (
    Answer,
    Creation,
    Deletion,
    ListPage,
    Lookup,
    Modification,
    PatchType,
    Replacement,
    Request,
    Warned,
    WatchEvent,
    WatchEventType,
)

__all__ = ["Call", "FakeApi", "FakeWatch", "api_error"]

_END = object()

_SHORT_WATCH = 10
"""Seconds. A watch that is to end sooner ends at once, after what has happened and a bookmark. It is logged as `news`.
"""


@dataclass(frozen=True)
class Call:
    """One request as the server saw it."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""
    body: Any = None
    subresource: str = ""


class FakeWatch:
    """One open watch, of what comes after a version."""

    def __init__(self, decode: Callable[[bytes], Any]) -> None:
        self.closed = False
        self.after = 0
        self._decode = decode
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def push(self, kind: str, obj: dict[str, Any]) -> None:
        self._events.put((kind, obj))

    def end(self, error: Exception | None = None) -> None:
        """End the stream after the pushed events, with this error unless it is None."""
        self._events.put(error or _END)

    def close(self) -> None:
        self.closed = True
        self._events.put(_END)

    def __iter__(self) -> Iterator[WatchEvent[Any]]:
        return (event for batch in self.batches() for event in batch)

    def batches(self) -> Iterator[Sequence[WatchEvent[Any]]]:
        """Yield events in batches: events that are there already come together."""
        item: Any = ()
        while isinstance(item, tuple):
            batch = []
            while isinstance(item := self._events.get(), tuple):
                batch.append(self._event(*item))
                if self._events.empty():
                    break
            if self.closed:
                return
            if batch:
                yield batch
        if isinstance(item, Exception):
            raise item

    def _event(self, kind: str, obj: dict[str, Any]) -> WatchEvent[Any]:
        version = obj["metadata"].get("resourceVersion", "")
        if kind != "BOOKMARK":
            return WatchEvent(WatchEventType(kind), object=_decoded(obj, self._decode), resource_version=version)
        ended = obj["metadata"].get("annotations", {}).get("k8s.io/initial-events-end") == "true"
        return WatchEvent(WatchEventType.BOOKMARK, resource_version=version, initial_events_end=ended)


class FakeApi(SequentialClient):
    """The server and its client in one. Thread-safe."""

    def __init__(self, now: Callable[[], datetime] | None = None) -> None:
        self.calls: list[Call] = []
        self.sent: list[Sequence[Sequence[Request]]] = []  # what `send` was given, call by call
        self.graceful: set[str] = set()  # plurals whose deletes only set deletionTimestamp
        self._lock = threading.RLock()  # guards everything below and `calls`
        self._now = now or (lambda: datetime.now(UTC))
        self._version, self._oldest = 1, 0
        self._objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._history: list[tuple[int, str, str, dict[str, Any]]] = []  # version, plural, event type, object
        self._watches: list[tuple[Resource, str, Selection, FakeWatch]] = []
        self._muted: set[str] = set()
        self._reactions: list[Callable[[Call], None]] = []
        self._warnings: dict[str, tuple[str, ...]] = {}

    # The methods that tests use.

    def react(self, reaction: Callable[[Call], None]) -> None:
        """Call `reaction` before each request is processed (without the lock); what it raises is the answer."""
        self._reactions.append(reaction)

    def fail(self, verb: str, resource: str, error: Exception, *, times: int = 1, name: str = "") -> None:
        """Answer the next `times` matching requests with `error`; `name` "" means any."""
        left = [times]

        def reaction(call: Call) -> None:
            wanted = call.verb == verb and call.resource == resource and name in ("", call.name)
            with self._lock:
                if not wanted or left[0] <= 0:
                    return
                left[0] -= 1
            raise error

        self.react(reaction)

    def warn(self, resource: Resource, *texts: str) -> None:
        """Warn about every creation of this resource from now on."""
        self._warnings[resource.plural] = texts

    def lose_answer(self, resource: Resource, namespace: str, name: str, error: Exception) -> None:
        """Carry out the deletion of this object, and answer it with `error`."""

        def reaction(call: Call) -> None:
            wanted = (call.verb, call.resource, call.name) == ("delete", resource.plural, name)
            if wanted and name in self.names(resource, namespace):
                self.remove(resource, namespace, name)
                raise error

        self.react(reaction)

    def behave(self) -> None:
        """Forget every reaction and failure."""
        with self._lock:
            self._reactions.clear()

    def mute(self, *resources: str) -> None:
        """From now on changes of these resources reach no watch that is open: the watch events are lost on the way."""
        with self._lock:
            self._muted.update(resources)

    def unmute(self) -> None:
        """Deliver the events of changes again, beginning with the next change."""
        with self._lock:
            self._muted.clear()

    def compact(self) -> None:
        """Forget history: a watch from before now has expired."""
        with self._lock:
            self._history.clear()
            self._oldest = self._version

    def send_bookmark(self) -> None:
        with self._lock:
            for *_, watch in self._watches:
                watch.push("BOOKMARK", {"metadata": {"resourceVersion": str(self._version)}})

    def end_watches(self, error: Exception | None = None, *, losing_events: bool = False) -> None:
        """End every watch; with `losing_events`, what it had not delivered yet is lost."""
        with self._lock:
            watches, self._watches = self._watches, []
        for *_, watch in watches:
            watch.close() if losing_events else watch.end(error)

    @property
    def open_watches(self) -> int:
        with self._lock:
            return sum(not watch.closed for *_, watch in self._watches)

    def count(self, verb: str, resource: str = "", subresource: str | None = None) -> int:
        """How many such requests have arrived."""
        with self._lock:
            return sum(
                1
                for call in self.calls
                if call.verb == verb
                and resource in ("", call.resource)
                and (subresource is None or subresource == call.subresource)
            )

    def objects(self, resource: Resource, namespace: str = "") -> builtins.list[dict[str, Any]]:
        """The stored objects (copies), by name; not logged as a call."""
        with self._lock:
            return [_copy(obj) for obj in self._select(resource, namespace, EVERYTHING)]

    def names(self, resource: Resource, namespace: str = "") -> builtins.list[str]:
        """The names of the stored objects."""
        return [obj["metadata"]["name"] for obj in self.objects(resource, namespace)]

    def put(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        """Store an object as another client would, creating or overwriting it whole; return the stored object."""
        with self._lock:
            meta = obj.setdefault("metadata", {})
            old = self._objects.get((resource.plural, meta.get("namespace", ""), meta["name"]))
            return _copy(self._store(resource, _copy(obj), old))

    def edit(self, resource: Resource, namespace: str, name: str, patch: dict[str, Any]) -> None:
        """Merge-patch an object as somebody else would, status included; not logged as a call."""
        with self._lock:
            obj = self._get(resource, namespace, name)
            self.put(resource, apply_merge_patch(obj, patch))

    def remove(self, resource: Resource, namespace: str, name: str) -> None:
        """Remove an object at once, as somebody else would; not logged as a call."""
        with self._lock:
            self._drop(resource, self._get(resource, namespace, name))

    # A server that is restored from a backup: its versions go back, and watches do not report it.

    @property
    def version(self) -> int:
        """The version of the last write."""
        with self._lock:
            return self._version

    def backup(self) -> Any:
        """The state of the server, to be given to `restore`."""
        with self._lock:
            return copy.deepcopy((self._version, self._objects, self._history))

    def restore(self, backup: Any) -> None:
        """Become what the backup has; every watch ends, as when the server is started anew."""
        with self._lock:
            self._version, self._objects, self._history = copy.deepcopy(backup)
        self.end_watches()

    def pass_version(self, version: int) -> None:
        """Much is written elsewhere, until this version is passed."""
        with self._lock:
            self._version = version

    def set_back(self, resource: Resource, obj: dict[str, Any]) -> None:
        """Hold an object as it was, its version included, without an event."""
        meta = obj["metadata"]
        with self._lock:
            self._objects[(resource.plural, meta["namespace"], meta["name"])] = _copy(obj)

    # ApiClient.

    def send(self, chains: Sequence[Sequence[Request]]) -> builtins.list[builtins.list[Answer]]:
        with self._lock:
            self.sent.append(chains)
        return super().send(chains)

    def answer(self, request: Request) -> Answer:
        answer = super().answer(request)
        texts = self._warnings.get(request.resource.plural) if isinstance(request, Creation) else None
        return Warned(texts) if texts else answer

    def make(self, request: Request, decode: Callable[[bytes], Any]) -> Any:
        match request:
            case Creation():
                return _decoded(self._create(request), decode)
            case Replacement():
                return _decoded(self._replace(request), decode)
            case Modification():
                return _decoded(self._change(request), decode)
            case Deletion():
                return self._delete(request)
            case Lookup(resource=resource, namespace=namespace, name=name):
                self._arrive(Call("get", resource.plural, namespace, name))
                with self._lock:
                    return _decoded(self._get(resource, namespace, name), decode)

    def _create(self, request: Creation) -> dict[str, Any]:
        resource, namespace, obj = request.resource, request.namespace, plain(request.body)
        meta = obj.setdefault("metadata", {})
        if not meta.get("name"):
            meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
        self._arrive(Call("create", resource.plural, namespace, meta["name"], obj))
        if resource.kind == "Binding":
            self.edit(PODS, namespace, meta["name"], {"spec": {"nodeName": obj["target"]["name"]}})
            return obj
        with self._lock:
            meta["namespace"] = namespace
            if (resource.plural, namespace, meta["name"]) in self._objects:
                raise api_error(409, "AlreadyExists", f'{resource.plural} "{meta["name"]}" already exists')
            return self._store(resource, obj, None)

    def _replace(self, request: Replacement) -> dict[str, Any]:
        where, obj = (request.resource, request.namespace, request.name), plain(request.body)
        self._arrive(Call("replace", request.resource.plural, *where[1:], obj, request.subresource))
        with self._lock:
            old = self._get(*where)
            _check(old, version=obj.get("metadata", {}).get("resourceVersion"))
            new = {**old, "status": obj.get("status")} if request.subresource == "status" else obj
            new["metadata"] = {**new["metadata"], "namespace": request.namespace, "name": request.name}
            return self._store(request.resource, new, old)

    def _change(self, request: Modification) -> dict[str, Any]:
        assert request.patch_type is not PatchType.JSON, "the fake speaks merge patches only"
        where, change = (request.resource, request.namespace, request.name), plain(request.patch)
        self._arrive(Call("patch", request.resource.plural, *where[1:], change, request.subresource))
        with self._lock:
            old = self._get(*where)
            meta, of_status = change.get("metadata", {}), request.subresource == "status"
            # Like kube-apiserver, which takes the metadata of a write to `status` from the stored object.
            _check(old, uid=None if of_status else meta.get("uid"), version=meta.get("resourceVersion"))
            if of_status:
                change = {"status": change.get("status", {})}
            elif "resourceVersion" in meta:
                change = {**change, "metadata": {**meta, "resourceVersion": old["metadata"]["resourceVersion"]}}
            strategic = request.patch_type is PatchType.STRATEGIC
            kind = request.resource.kind
            new = strategic_merge(old, change, kind) if strategic else apply_merge_patch(old, change)
            return old if new == old else self._store(request.resource, new, old)

    def _delete(self, request: Deletion) -> None:
        resource, grace = request.resource, request.grace_period_seconds
        options = {"uid": request.uid, "grace": grace, "propagation": request.propagation_policy}
        self._arrive(Call("delete", resource.plural, request.namespace, request.name, options))
        with self._lock:
            obj = self._get(resource, request.namespace, request.name)
            _check(obj, uid=request.uid, version=request.resource_version)
            if obj["metadata"].get("finalizers") or (resource.plural in self.graceful and grace != 0):
                dying = {"metadata": {"deletionTimestamp": _time(self._now())}}
                self._store(resource, apply_merge_patch(obj, dying), obj)
            else:
                self._drop(resource, obj)

    def list(
        self, resource: Resource, namespace: str, decode: Callable[[bytes], Any], options: ListOptions = LIST_ALL
    ) -> ListPage[Any]:
        self._arrive(Call("list", resource.plural, namespace))
        with self._lock:
            items = self._select(resource, namespace, options)
            start = int(options.continue_token or 0)
            end = start + options.limit if options.limit else len(items)
            token = str(end) if end < len(items) else ""
            page = items[start:end]
            return ListPage(tuple(_decoded(obj, decode) for obj in page), str(self._version), token)

    def watch(
        self, resource: Resource, namespace: str, decode: Callable[[bytes], Any], options: WatchOptions = WATCH_FROM_NOW
    ) -> FakeWatch:
        short = options.timeout_seconds <= _SHORT_WATCH
        self._arrive(Call("news" if short else "watch", resource.plural, namespace))
        watch = FakeWatch(decode)
        with self._lock:
            if options.send_initial_events:
                for obj in self._select(resource, namespace, options):
                    watch.push("ADDED", obj)
                done = {"resourceVersion": str(self._version), "annotations": {"k8s.io/initial-events-end": "true"}}
                watch.push("BOOKMARK", {"metadata": done})
            else:
                watch.after = after = int(options.resource_version or self._version)
                if after < self._oldest:
                    watch.end(api_error(410, "Expired"))
                for version, plural, kind, obj in self._history:
                    if version > after and plural == resource.plural and _matches(obj, namespace, options):
                        watch.push(kind, obj)
                if short:
                    watch.push("BOOKMARK", {"metadata": {"resourceVersion": str(self._version)}})
                    watch.end()
                    return watch
            self._watches.append((resource, namespace, options, watch))
        return watch

    # Inside.

    def _arrive(self, call: Call) -> None:
        with self._lock:
            self.calls.append(call)
            reactions = tuple(self._reactions)
        for reaction in reactions:
            reaction(call)

    def _get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        try:
            return self._objects[(resource.plural, namespace, name)]
        except KeyError:
            raise api_error(404, "NotFound", f'{resource.plural} "{name}" not found') from None

    def _select(self, resource: Resource, namespace: str, selection: Selection) -> builtins.list[dict[str, Any]]:
        objects = [obj for (plural, _, _), obj in sorted(self._objects.items()) if plural == resource.plural]
        return [obj for obj in objects if _matches(obj, namespace, selection)]

    def _store(self, resource: Resource, obj: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
        """Store what is given, completed as by a server; returns it."""
        meta = obj["metadata"]
        self._version += 1
        meta["resourceVersion"] = str(self._version)
        meta.setdefault("uid", old["metadata"]["uid"] if old else str(uuid.uuid4()))
        meta.setdefault("creationTimestamp", _time(self._now()))
        if old is None:
            meta.setdefault("generation", 1)
        elif obj.get("spec") != old.get("spec"):
            meta["generation"] = old["metadata"].get("generation", 0) + 1
        obj.setdefault("apiVersion", resource.api_version)
        obj.setdefault("kind", resource.kind)
        if meta.get("deletionTimestamp") and old and old["metadata"].get("finalizers") and not meta.get("finalizers"):
            self._drop(resource, old)
            return obj
        self._objects[(resource.plural, meta.get("namespace", ""), meta["name"])] = obj
        self._publish(resource, "MODIFIED" if old else "ADDED", obj)
        return obj

    def _drop(self, resource: Resource, obj: dict[str, Any]) -> None:
        meta = obj["metadata"]
        del self._objects[(resource.plural, meta.get("namespace", ""), meta["name"])]
        self._version += 1
        self._publish(resource, "DELETED", {**obj, "metadata": {**meta, "resourceVersion": str(self._version)}})

    def _publish(self, resource: Resource, kind: str, obj: dict[str, Any]) -> None:
        frozen = _copy(obj)
        self._history.append((self._version, resource.plural, kind, frozen))
        if resource.plural in self._muted:
            return
        for watched, namespace, selection, watch in self._watches:
            is_new = int(frozen["metadata"]["resourceVersion"]) > watch.after
            if is_new and watched.plural == resource.plural and _matches(frozen, namespace, selection):
                watch.push(kind, frozen)


def _check(obj: dict[str, Any], *, uid: str | None = None, version: str | None = None) -> None:
    """Check the preconditions of a write; empty preconditions always hold."""
    if uid and uid != obj["metadata"]["uid"]:
        raise api_error(409, "Conflict", "the UID in the precondition does not match")
    if version and version != obj["metadata"]["resourceVersion"]:
        raise api_error(409, "Conflict", "the object has been modified")


def _matches(obj: dict[str, Any], namespace: str, selection: Selection) -> bool:
    """Apply a selection: equality and presence of labels, or one set of values. A fake does not need more."""
    meta = obj["metadata"]
    labels = meta.get("labels", {})
    if namespace not in ("", meta.get("namespace", "")):
        return False
    key, is_set, values = selection.label_selector.partition(" in ")
    if is_set:
        return labels.get(key) in values.strip("()").split(",")
    wanted = (part.partition("=") for part in selection.label_selector.split(",") if part)
    return all(labels.get(key) == value if equals else key in labels for key, equals, value in wanted)


def _copy(obj: dict[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(obj))
    return copied


def _decoded(obj: dict[str, Any], decode: Callable[[bytes], Any]) -> Any:
    return decode(json.dumps(obj).encode())


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
