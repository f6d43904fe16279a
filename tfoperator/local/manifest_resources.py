"""The kinds of objects that `tfoperator run` takes from a manifest, and a function that creates these objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.errors import AlreadyExistsError
from tfoperator.kube.protocol.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
    Resource,
)
from tfoperator.kube.protocol.verbs import ApiClient, decoder
from tfoperator.kube.views.objects import HasMetadata

_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")
_DEFAULT_ACCOUNT = "default"

KNOWN: Mapping[tuple[str, str], Resource] = {
    (resource.api_version, resource.kind): resource
    for resource in (
        TFJOBS,
        PODS,
        SERVICES,
        CONFIG_MAPS,
        SECRETS,
        NAMESPACES,
        _ACCOUNTS,
        PERSISTENT_VOLUME_CLAIMS,
    )
}
"""The kinds in a manifest for `tfoperator run`, by apiVersion and kind."""

_decode = decoder(HasMetadata)


def resource_of(obj: Mapping[str, Any]) -> Resource | None:
    """Return the resource of an object. Return None for a kind that is not in `KNOWN`."""
    return KNOWN.get((str(obj.get("apiVersion", "")), str(obj.get("kind", ""))))


def apply(client: ApiClient, objects: Sequence[Mapping[str, Any]], namespace: str) -> None:
    """Create the objects in order, and create their namespaces. Skip kinds that are not in `KNOWN`.

    An object without a namespace gets `namespace`. The service account `default` of a namespace is changed, because it
    exists already. Raises KubeError for the first object that the API server rejects.
    """
    made = {"default"}
    for obj in objects:
        resource = resource_of(obj)
        if resource is None:
            continue
        meta = obj.get("metadata") or {}
        where = "" if not resource.namespaced else str(meta.get("namespace") or namespace)
        if where and where not in made:
            made.add(where)
            _create_namespace(client, where)
        body = {**obj, "metadata": {**meta, "namespace": where}} if where else dict(obj)
        if resource is NAMESPACES:
            _create_namespace(client, str(meta.get("name", "")))
        elif resource is _ACCOUNTS and meta.get("name") == _DEFAULT_ACCOUNT:
            _create_or_change(client, resource, where, body)
        else:
            client.create(resource, where, msgspec.json.encode(body), _decode)


def _create_namespace(client: ApiClient, name: str) -> None:
    try:
        client.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, _decode)
    except AlreadyExistsError:
        pass


def _create_or_change(client: ApiClient, resource: Resource, namespace: str, body: Mapping[str, Any]) -> None:
    try:
        client.create(resource, namespace, body, _decode)
    except AlreadyExistsError:
        client.patch(resource, namespace, body["metadata"]["name"], body, _decode)
