"""A small custom resource and short cuts for unit tests of the embedded API server."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from tests.support.clock import FakeClock
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.objects.custom_resources import CustomResource, custom_resource
from tfoperator.local.apiserver.objects.strategies import builtin_strategies
from tfoperator.local.apiserver.registry.garbage_collector import GarbageCollector
from tfoperator.local.apiserver.registry.registry import Registry, WriteOptions, WriteResult
from tfoperator.local.apiserver.resource_types import BUILTIN, NAMESPACES, ResourceType
from tfoperator.local.apiserver.storage.store import Store, StoredObject

Json = dict[str, Any]

START = datetime(2026, 1, 1, tzinfo=UTC)

SCHEMA: Json = yaml.safe_load("""
type: object
required: [spec]
properties:
  apiVersion: {type: string}
  kind: {type: string}
  metadata: {type: object}
  spec:
    type: object
    required: [size]
    properties:
      size: {type: integer, format: int32, minimum: 0, default: 1}
      colour: {type: string, enum: [red, green]}
      name: {type: string, pattern: "^[a-z]+$", minLength: 2, maxLength: 5}
      when: {type: string, format: date-time}
      port: {x-kubernetes-int-or-string: true}
      maybe: {type: string, nullable: true, default: x}
      parts:
        type: array
        maxItems: 2
        items: {type: object, required: [id], properties: {id: {type: string}, weight: {type: integer, default: 5}}}
      groups:
        type: object
        minProperties: 1
        additionalProperties: {type: object, properties: {count: {type: integer, default: 1}}}
      open: {type: object, x-kubernetes-preserve-unknown-fields: true}
  status: {type: object, properties: {ready: {type: integer}}}
""")

CRD: Json = yaml.safe_load("""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wd]}
  versions:
  - {name: v1, served: true, storage: true, subresources: {status: {}}}
""")
CRD["spec"]["versions"][0] |= {
    "schema": {"openAPIV3Schema": SCHEMA},
    "additionalPrinterColumns": [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ],
}


def widgets() -> CustomResource:
    return custom_resource(CRD)


class World:
    """A store, a registry and a garbage collector without a server; `settle` lets the collector work."""

    def __init__(self, *, history_limit: int = 100) -> None:
        self.clock = FakeClock(START)
        self.widgets = widgets()
        rng = random.Random(1)
        strategies = builtin_strategies(rng) | {self.widgets.resource: self.widgets.strategy}
        self.store = Store((*BUILTIN, self.widgets.resource), first_revision=1000, history_limit=history_limit)
        self.registry = Registry(self.store, strategies, clock=self.clock, rng=rng)
        self._due: list[Callable[[], None]] = []
        GarbageCollector(self.store, self.registry, self._due.append)
        self.registry.create(NAMESPACES, "", {"metadata": {"name": "ns"}}, WriteOptions())

    def settle(self) -> None:
        while self._due:
            self._due.pop(0)()

    def create(self, resource: ResourceType, body: Json, namespace: str = "ns") -> Json:
        return self.registry.create(resource, namespace, body, WriteOptions()).stored.obj

    def update(self, resource: ResourceType, name: str, *, subresource: str = "", **members: Any) -> WriteResult:
        """Replace some members of an object in the namespace `ns`."""

        def change(current: StoredObject) -> Json:
            return {**current.copy(), **members}

        return self.registry.update(resource, "ns", name, change, WriteOptions(), subresource=subresource)

    def names(self, resource: ResourceType) -> list[str]:
        return [stored.metadata["name"] for stored in self.store.objects(resource)]


def named(name: str, **labels: str) -> Json:
    return {"metadata": {"name": name, "labels": labels}}


@contextmanager
def refused(code: int) -> Iterator[None]:
    """The server answers with this code."""
    with pytest.raises(StatusError) as caught:
        yield
    assert caught.value.code == code
