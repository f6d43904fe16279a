"""An API server in a dictionary: a `tfoperator.kube.verbs.ApiClient` for tests, with the parts that bite.

It has what makes controllers wrong in practice: resourceVersions and conflicts, uid preconditions, watches that can
be muted (events lost), expire or break, answers that fail on request, and a log of every call. It has no schema, no
admission and no garbage collector; the embedded API server of tfoperator.local and the real one have those.
"""

from __future__ import annotations

import json
import queue
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from tfoperator.kube.errors import KubeError, Status, TransportError, error_from_status
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import ListPage, PatchType, WatchEvent, WatchEventType

_END = object()


@dataclass(frozen=True)
class Call:
    """One request as the server saw it."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""
    body: Any = None
    subresource: str = ""


def api_error(code: int, reason: str = "", message: str = "") -> KubeError:
    """The error that a client raises for an answer of this code."""
    return error_from_status(Status(code=code, reason=reason, message=message or reason or f"HTTP {code}"))


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


class FakeWatch:
    """One open watch; `close()` ends it, `break_off()` makes it fail as a cut connection does."""

    def __init__(self, decode: Callable[[bytes], Any]) -> None:
        self.closed = False
        self._decode = decode
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def push(self, kind: str, obj: dict[str, Any]) -> None:
        self._events.put((kind, obj))

    def close(self) -> None:
        self.closed = True
        self._events.put(_END)

    def break_off(self) -> None:
        self._events.put(TransportError("connection reset by the test"))

    def __iter__(self) -> Iterator[WatchEvent[Any]]:
        while True:
            item = self._events.get()
            if item is _END or self.closed:
                return
            if isinstance(item, Exception):
                raise item
            kind, obj = item
            version = obj["metadata"].get("resourceVersion", "")
            if kind == "BOOKMARK":
                ended = obj["metadata"].get("annotations", {}).get("k8s.io/initial-events-end") == "true"
                yield WatchEvent(WatchEventType.BOOKMARK, resource_version=version, initial_events_end=ended)
            else:
                decoded = self._decode(json.dumps(obj).encode())
                yield WatchEvent(WatchEventType(kind), object=decoded, resource_version=version)


class FakeApi:
    """The server and its client in one. Thread-safe."""

    def __init__(self, now: Callable[[], datetime] | None = None) -> None:
        self.calls: list[Call] = []
        self.graceful: set[str] = set()  # plurals whose deletes only set deletionTimestamp until `finish_delete`
        self._lock = threading.RLock()  # guards everything below and `calls`
        self._now = now or (lambda: datetime.now(UTC))
        self._version = 1
        self._objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._history: list[tuple[int, str, str, dict[str, Any]]] = []  # version, plural, event type, object
        self._watches: list[tuple[Resource, str, dict[str, str], FakeWatch]] = []
        self._muted: set[str] = set()
        self._reactions: list[Callable[[Call], None]] = []

    # What tests use.

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

    def behave(self) -> None:
        """Forget every reaction and failure."""
        with self._lock:
            self._reactions.clear()

    def mute(self, *resources: str) -> None:
        """From now on changes of these resources reach no watch, ever: the watch events are lost."""
        with self._lock:
            self._muted.update(resources)

    def unmute(self) -> None:
        """Deliver the events of changes again, beginning with the next one."""
        with self._lock:
            self._muted.clear()

    def break_watches(self) -> None:
        """Cut every open watch."""
        with self._lock:
            watches, self._watches = self._watches, []
        for *_, watch in watches:
            watch.break_off()

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

    def objects(self, resource: Resource, namespace: str = "") -> list[dict[str, Any]]:
        """The stored objects (copies), by name; not logged as a call."""
        with self._lock:
            return [
                json.loads(json.dumps(obj))
                for (plural, ns, _), obj in sorted(self._objects.items())
                if plural == resource.plural and namespace in ("", ns)
            ]

    def names(self, resource: Resource, namespace: str = "") -> list[str]:
        """The names of the stored objects."""
        return [obj["metadata"]["name"] for obj in self.objects(resource, namespace)]

    def put(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        """Store an object as somebody else would, creating or overwriting it whole; returns what is stored."""
        with self._lock:
            meta = obj.setdefault("metadata", {})
            key = (resource.plural, meta.get("namespace", ""), meta["name"])
            old = self._objects.get(key)
            new = json.loads(json.dumps(obj))
            self._stamp(new, old)
            self._store(resource, key, new, "MODIFIED" if old else "ADDED")
            return json.loads(json.dumps(new))

    def edit(self, resource: Resource, namespace: str, name: str, patch: dict[str, Any]) -> None:
        """Merge-patch an object as somebody else would, status included; not logged as a call."""
        with self._lock:
            obj = self._get(resource, namespace, name)
            self.put(resource, merge(obj, patch))

    def remove(self, resource: Resource, namespace: str, name: str) -> None:
        """Remove an object at once, as somebody else would; not logged as a call."""
        with self._lock:
            self._get(resource, namespace, name)
            self._drop(resource, (resource.plural, namespace, name))

    def finish_delete(self, resource: Resource, namespace: str, name: str) -> None:
        """What the kubelet does at the end of the grace period."""
        self.remove(resource, namespace, name)

    # ApiClient.

    def get(self, resource: Resource, namespace: str, name: str, decode: Callable[[bytes], Any]) -> Any:
        self._arrive(Call("get", resource.plural, namespace, name))
        with self._lock:
            return decode(json.dumps(self._get(resource, namespace, name)).encode())

    def list(
        self,
        resource: Resource,
        namespace: str,
        decode: Callable[[bytes], Any],
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
        limit: int = 0,
        continue_token: str = "",
        metadata_only: bool = False,
    ) -> ListPage[Any]:
        self._arrive(Call("list", resource.plural, namespace))
        with self._lock:
            items = self._select(resource, namespace, _selector(label_selector))
            start = int(continue_token or 0)
            page = items[start : start + limit] if limit else items[start:]
            token = str(start + limit) if limit and start + limit < len(items) else ""
            if metadata_only:
                page = [{k: v for k, v in obj.items() if k in ("apiVersion", "kind", "metadata")} for obj in page]
            decoded = tuple(decode(json.dumps(obj).encode()) for obj in page)
            return ListPage(items=decoded, resource_version=str(self._version), continue_token=token)

    def create(self, resource: Resource, namespace: str, body: Any, decode: Callable[[bytes], Any]) -> Any:
        obj = _to_dict(body)
        meta = obj.setdefault("metadata", {})
        if not meta.get("name"):
            meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
        self._arrive(Call("create", resource.plural, namespace, meta["name"], obj))
        with self._lock:
            meta["namespace"] = namespace
            key = (resource.plural, namespace, meta["name"])
            if key in self._objects:
                raise api_error(409, "AlreadyExists", f'{resource.plural} "{meta["name"]}" already exists')
            self._stamp(obj, None)
            self._store(resource, key, obj, "ADDED")
            return decode(json.dumps(obj).encode())

    def replace(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Any,
        decode: Callable[[bytes], Any],
        *,
        subresource: str = "",
    ) -> Any:
        obj = _to_dict(body)
        self._arrive(Call("replace", resource.plural, namespace, name, obj, subresource))
        with self._lock:
            old = self._get(resource, namespace, name)
            version = obj.get("metadata", {}).get("resourceVersion")
            if version and version != old["metadata"]["resourceVersion"]:
                raise api_error(409, "Conflict", "the object has been modified")
            new = {**old, "status": obj.get("status")} if subresource == "status" else obj
            new["metadata"] = {**new["metadata"], "namespace": namespace, "name": name}
            self._stamp(new, old)
            self._store(resource, (resource.plural, namespace, name), new, "MODIFIED")
            return decode(json.dumps(new).encode())

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        decode: Callable[[bytes], Any],
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
    ) -> Any:
        assert patch_type is PatchType.MERGE, "the fake speaks merge patch only"
        change = _to_dict(patch)
        self._arrive(Call("patch", resource.plural, namespace, name, change, subresource))
        with self._lock:
            old = self._get(resource, namespace, name)
            meta = dict(change.get("metadata", {}))
            # Like kube-apiserver, which takes the metadata of a write to `status` from the stored object.
            if subresource != "status" and meta.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
                raise api_error(409, "Conflict", "the UID in the precondition does not match")
            if meta.get("resourceVersion", old["metadata"]["resourceVersion"]) != old["metadata"]["resourceVersion"]:
                raise api_error(409, "Conflict", "the object has been modified")
            if subresource == "status":
                change = {"status": change.get("status", {})}
            new = merge(old, change)
            self._stamp(new, old)
            if {**new, "metadata": None} == {**old, "metadata": None} and _same_meta(new, old):
                return decode(json.dumps(old).encode())
            self._store(resource, (resource.plural, namespace, name), new, "MODIFIED")
            return decode(json.dumps(new).encode())

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
    ) -> None:
        options = {"uid": uid, "grace": grace_period_seconds, "propagation": propagation_policy}
        self._arrive(Call("delete", resource.plural, namespace, name, options))
        with self._lock:
            obj = self._get(resource, namespace, name)
            if uid and uid != obj["metadata"]["uid"]:
                raise api_error(409, "Conflict", "the UID in the precondition does not match")
            key = (resource.plural, namespace, name)
            if resource.plural in self.graceful and grace_period_seconds != 0:
                new = merge(obj, {"metadata": {"deletionTimestamp": _time(self._now())}})
                self._stamp(new, obj)
                self._store(resource, key, new, "MODIFIED")
            else:
                self._drop(resource, key)

    def delete_collection(self, resource: Resource, namespace: str, *, label_selector: str) -> None:
        self._arrive(Call("deletecollection", resource.plural, namespace, body=label_selector))
        with self._lock:
            for obj in self._select(resource, namespace, _selector(label_selector)):
                self._drop(resource, (resource.plural, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))

    def watch(
        self,
        resource: Resource,
        namespace: str,
        decode: Callable[[bytes], Any],
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
        timeout_seconds: int = 300,
        allow_watch_bookmarks: bool = True,
        send_initial_events: bool | None = None,
    ) -> FakeWatch:
        self._arrive(Call("watch", resource.plural, namespace))
        selector = _selector(label_selector)
        watch = FakeWatch(decode)
        with self._lock:
            if send_initial_events:
                for obj in self._select(resource, namespace, selector):
                    watch.push("ADDED", obj)
                done = {"resourceVersion": str(self._version), "annotations": {"k8s.io/initial-events-end": "true"}}
                watch.push("BOOKMARK", {"metadata": done})
            else:
                after = int(resource_version or self._version)
                for version, plural, kind, obj in self._history:
                    if version > after and plural == resource.plural and _matches(obj, namespace, selector):
                        watch.push(kind, obj)
            self._watches.append((resource, namespace, selector, watch))
        return watch

    def list_watch(
        self,
        resource: Resource,
        namespace: str,
        decode: Callable[[bytes], Any],
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> FakeListWatch:
        return FakeListWatch(self, resource, namespace, decode, label_selector)

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

    def _select(self, resource: Resource, namespace: str, selector: dict[str, str]) -> list[dict[str, Any]]:
        found = [obj for (plural, _, _), obj in sorted(self._objects.items()) if plural == resource.plural]
        return [obj for obj in found if _matches(obj, namespace, selector)]

    def _stamp(self, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
        meta = obj["metadata"]
        self._version += 1
        meta["resourceVersion"] = str(self._version)
        meta.setdefault("uid", old["metadata"]["uid"] if old else str(uuid.uuid4()))
        meta.setdefault("creationTimestamp", _time(self._now()))
        if old is None:
            meta.setdefault("generation", 1)
        elif obj.get("spec") != old.get("spec"):
            meta["generation"] = old["metadata"].get("generation", 0) + 1

    def _store(self, resource: Resource, key: tuple[str, str, str], obj: dict[str, Any], kind: str) -> None:
        obj.setdefault("apiVersion", resource.api_version)
        obj.setdefault("kind", resource.kind)
        self._objects[key] = obj
        self._publish(resource, kind, obj)

    def _drop(self, resource: Resource, key: tuple[str, str, str]) -> None:
        obj = json.loads(json.dumps(self._objects.pop(key)))
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        self._publish(resource, "DELETED", obj)

    def _publish(self, resource: Resource, kind: str, obj: dict[str, Any]) -> None:
        if resource.plural in self._muted:
            return
        frozen = json.loads(json.dumps(obj))
        self._history.append((self._version, resource.plural, kind, frozen))
        for watched, namespace, selector, watch in self._watches:
            if watched.plural == resource.plural and _matches(frozen, namespace, selector):
                watch.push(kind, frozen)


class FakeListWatch:
    """One selection of a resource, for a reflector."""

    def __init__(self, api: FakeApi, resource: Resource, namespace: str, decode: Any, label_selector: str) -> None:
        self._api = api
        self._what = (resource, namespace, decode)
        self._selector = label_selector

    def list(self, **options: Any) -> ListPage[Any]:
        return self._api.list(*self._what, label_selector=self._selector, **options)

    def watch(self, **options: Any) -> FakeWatch:
        return self._api.watch(*self._what, label_selector=self._selector, **options)


def _same_meta(new: dict[str, Any], old: dict[str, Any]) -> bool:
    version = {"resourceVersion": ""}
    return {**new["metadata"], **version} == {**old["metadata"], **version}


def _selector(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(",") if part)


def _matches(obj: dict[str, Any], namespace: str, selector: dict[str, str]) -> bool:
    meta = obj["metadata"]
    labels = meta.get("labels", {})
    return namespace in ("", meta.get("namespace", "")) and all(labels.get(k) == v for k, v in selector.items())


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _to_dict(body: Any) -> dict[str, Any]:
    if isinstance(body, bytes | bytearray):
        return json.loads(body)
    return json.loads(msgspec.json.encode(body))
