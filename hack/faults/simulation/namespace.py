"""The namespace of a plan, for simulations: records their deletions, and the server's answers to their writes."""

from __future__ import annotations

from typing import Any

import msgspec

from hack.faults.journal import Journal, Recorder
from hack.kubelet import bind
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import ApiClient

Json = dict[str, Any]

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Namespace:
    """For one thread. `interventions` is what the plan has done. All methods raise KubeError."""

    def __init__(self, client: ApiClient, name: str, recorder: Recorder, interventions: Journal) -> None:
        self.name = name
        self.recorder = recorder
        self.interventions = interventions
        self._client = client

    def get(self, resource: Resource, name: str) -> Json:
        """The object of this name."""
        return self._client.get(resource, self.name if resource.namespaced else "", name, _decode)

    def create(self, resource: Resource, body: Json) -> Json:
        """Make an object; what it is like then."""
        return self._client.create(resource, self.name, body, _decode)

    def bind(self, pod: str) -> None:
        """Bind a pod to the node."""
        bind(self._client, self.name, pod)

    def patch(self, resource: Resource, name: str, change: Json, subresource: str = "") -> None:
        """Change an object, and record the answer."""
        answer = self._client.patch(resource, self.name, name, change, _decode, subresource=subresource)
        self.recorder.add(answer, resource.kind)

    def patch_unrecorded(self, resource: Resource, name: str, change: Json, subresource: str = "") -> None:
        """Change an object; the recorder's watch will show it."""
        self._client.patch(resource, self.name, name, change, _decode, subresource=subresource)

    def delete(self, resource: Resource, obj: Json, **how: Any) -> str:
        """Delete this very object, and note that the plan did; its name. `how` as in `Client.delete`."""
        self.interventions.deleted_by_plan.add(uid_of(obj))
        return self.end(resource, obj, **how)

    def end(self, resource: Resource, obj: Json, **how: Any) -> str:
        """As `delete`, of what is being deleted already, or is noted elsewhere."""
        name = str(obj["metadata"]["name"])
        self._client.delete(resource, self.name, name, uid=uid_of(obj), **how)
        return name


def uid_of(obj: Json) -> str:
    """An object's UID."""
    return str(obj["metadata"]["uid"])
