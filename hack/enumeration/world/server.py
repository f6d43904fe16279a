"""The embedded API server without its sockets: storage, rules, garbage collector, and clients that call it directly.

The rules are the rules of `tfoperator local`, which pass the same contract tests as a real kube-apiserver. UIDs come
from a generator with a fixed seed.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec

from hack.enumeration.world.clock import VirtualClock
from hack.enumeration.world.kueue import kueue_crds
from hack.faults.simulation.pod_groups import KUBERNETES_POD_GROUPS_CRD, PRIORITY_CLASSES_CRD, pod_group_crds
from hack.sequential_client import SequentialClient, api_error, plain
from tfoperator.kube import ListWatch
from tfoperator.kube.protocol.errors import Status, error_from_status
from tfoperator.kube.protocol.options import EVERYTHING, LIST_ALL, ListOptions, Selection
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import (
    Creation,
    Decoder,
    Deletion,
    ListPage,
    Lookup,
    Modification,
    Replacement,
    Request,
    WatchStream,
)
from tfoperator.local.apiserver.errors import FieldProblem, StatusError
from tfoperator.local.apiserver.objects.custom_resources import CustomResource, CustomStrategy, custom_resource
from tfoperator.local.apiserver.objects.strategies import builtin_strategies
from tfoperator.local.apiserver.objects.structural_schema import StructuralSchema
from tfoperator.local.apiserver.objects.tfjobs import tfjobs
from tfoperator.local.apiserver.registry.deletion import DeleteOptions, Preconditions
from tfoperator.local.apiserver.registry.garbage_collector import GarbageCollector
from tfoperator.local.apiserver.registry.patch import patcher
from tfoperator.local.apiserver.registry.registry import Registry, WriteOptions, WriteResult
from tfoperator.local.apiserver.registry.subresources import bind, evict
from tfoperator.local.apiserver.resource_types import BUILTIN, NAMESPACES, ResourceType
from tfoperator.local.apiserver.storage.selectors import parse_selector
from tfoperator.local.apiserver.storage.store import Store, StoredObject, encode

T = TypeVar("T")
Json = dict[str, Any]

_OPTIONS = WriteOptions(silent=True)


class _RememberingSchema(StructuralSchema):
    """The schema of a status, which remembers what it has found: the same statuses come in world after world."""

    def __init__(self, schema: StructuralSchema) -> None:
        self._whole = schema
        self._known: dict[bytes, list[FieldProblem]] = {}

    def validate(self, obj: Json) -> list[FieldProblem]:
        """The problems of the object's status."""
        key = encode(obj.get("status"))
        if key not in self._known:
            self._known[key] = self._whole.validate(obj)
        return self._known[key]


@cache
def _custom_resources() -> tuple[CustomResource, ...]:
    """Made once for all worlds of a process: they have no state but that memory, and take long to build."""
    made = (
        *tfjobs(),
        *map(custom_resource, (*pod_group_crds(), KUBERNETES_POD_GROUPS_CRD, PRIORITY_CLASSES_CRD, *kueue_crds())),
    )
    for kind in made:
        assert isinstance(kind.strategy, CustomStrategy)
        kind.strategy._status_schema = _RememberingSchema(kind.strategy._status_schema)
    return made


class SimulatedServer:
    """The state of a cluster, and its garbage collector. For one thread."""

    def __init__(self, clock: VirtualClock) -> None:
        rng = random.Random("server")
        self.clock = clock
        custom = _custom_resources()
        resources = (*BUILTIN, *(kind.resource for kind in custom))
        self.store = Store(
            resources, views=[kind.view for kind in custom if kind.view is not None], history_limit=1_000_000
        )
        strategies = builtin_strategies(rng) | {kind.resource: kind.strategy for kind in custom}
        self.registry = Registry(self.store, strategies, clock=clock, rng=rng)
        self._later: deque[Callable[[], None]] = deque()
        GarbageCollector(self.store, self.registry, self._later.append)
        self._types = {
            (resource.group, resource.version, resource.plural): resource for resource in self.registry.resources
        }

    def type_of(self, resource: Resource) -> ResourceType:
        """The server's own description of a resource."""
        return self._types[(resource.group, resource.version, resource.plural)]

    def collect_garbage(self) -> bool:
        """Do what the garbage collector has to do; whether there was anything."""
        worked = bool(self._later)
        while self._later:
            self._later.popleft()()
        return worked

    def create_namespace(self, name: str) -> None:
        """Make a namespace."""
        self.registry.create(NAMESPACES, "", {"metadata": {"name": name}}, _OPTIONS)


class DirectClient(SequentialClient):
    """A `tfoperator.kube.protocol.verbs.ApiClient` that calls the server; subclasses override `around_write`."""

    def __init__(self, server: SimulatedServer) -> None:
        self._server = server
        self._registry = server.registry
        self.decoders: dict[tuple[Resource, Selection], Decoder[Any]] = {}
        """The decoders of each collection's caches."""

    def around_write(self, write: Callable[[], WriteResult]) -> WriteResult:
        """Carry out a write. Subclasses do something before or after it."""
        return write()

    # ApiClient.

    def make(self, request: Request, decode: Decoder[T]) -> T:
        """Make a request: a creation also of a binding, or of the eviction of the pod that its metadata names."""
        if isinstance(request, Creation):
            return self._create(request, decode)
        kind, namespace = self._type(request.resource), request.namespace
        match request:
            case Lookup(name=name):
                return decode(_answered(lambda: self._registry.get(kind, namespace, name)).data)
            case Replacement(name=name, body=body, subresource=subresource):
                obj = plain(body)
                return self._write(
                    lambda: self._registry.update(
                        kind, namespace, name, lambda _: obj, _OPTIONS, subresource=subresource
                    ),
                    decode,
                )
            case Modification():
                return self._write(lambda: self._changed(kind, request), decode)
            case Deletion(name=name):
                options = DeleteOptions(
                    grace_period_seconds=request.grace_period_seconds,
                    propagation_policy=request.propagation_policy or None,
                    preconditions=Preconditions(
                        uid=request.uid or None, resource_version=request.resource_version or None
                    ),
                )
                return self._write(lambda: self._registry.delete(kind, namespace, name, options), decode)

    def _create(self, request: Creation, decode: Decoder[T]) -> T:
        resource, namespace, obj = request.resource, request.namespace, plain(request.body)
        if resource.plural == "bindings":
            _answered(lambda: bind(self._registry, namespace, "", obj, self._server.clock.now()))
            return decode(b"{}")
        if resource.kind == "Eviction":
            _answered(lambda: evict(self._registry, namespace, obj["metadata"]["name"], obj, self._server.clock.now()))
            return decode(b"{}")
        return self._write(lambda: self._registry.create(self._type(resource), namespace, obj, _OPTIONS), decode)

    def _changed(self, kind: ResourceType, request: Modification) -> WriteResult:
        patch = request.patch
        change = patcher(
            kind, request.patch_type.value, patch if isinstance(patch, bytes) else msgspec.json.encode(patch)
        )
        return self._registry.update(
            kind,
            request.namespace,
            request.name,
            lambda old: change(old.copy()),
            _OPTIONS,
            subresource=request.subresource,
            patch=True,
        )

    def list(
        self,
        resource: Resource,
        namespace: str,
        decode: Decoder[T],
        options: ListOptions = LIST_ALL,
    ) -> ListPage[T]:
        """The whole collection as it is now, in one page."""
        kind = self._type(resource)
        selector = parse_selector(kind, options.label_selector, options.field_selector)
        items = [stored for stored in self._server.store.objects(kind, namespace) if selector.matches(stored.obj)]
        return ListPage(tuple(decode(stored.data) for stored in items), str(self._server.store.revision))

    def watch(self, *_: Any, **__: Any) -> WatchStream[Any]:
        """Refuse: caches are fed step by step, and every collection here is small enough for a list."""
        raise api_error(501, "NotImplemented", "no watches in one thread")

    def list_watch(
        self,
        resource: Resource,
        namespace: str,
        decode: Decoder[T],
        selection: Selection = EVERYTHING,
    ) -> ListWatch[T]:
        """A ListWatch, whose selection the feed of a cache reads."""
        self.decoders[resource, selection] = decode
        return super().list_watch(resource, namespace, decode, selection)

    # Inside.

    def _type(self, resource: Resource) -> ResourceType:
        return self._server.type_of(resource)

    def _write(self, write: Callable[[], WriteResult], decode: Decoder[T]) -> T:
        stored: StoredObject = _answered(lambda: self.around_write(write)).stored
        return decode(stored.data)


def _answered(act: Callable[[], T]) -> T:
    """Return the server's answer. Raises the KubeError that a client raises for its refusal."""
    try:
        return act()
    except StatusError as error:
        raise error_from_status(msgspec.convert(error.body(), Status)) from error
