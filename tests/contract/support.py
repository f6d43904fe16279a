"""The access of contract tests to an API server: dictionaries in and out through our own client, raw HTTP beside it."""

import http.client
import json
import ssl
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.support import manifests
from tests.support.cluster import decode
from tests.support.kubectl import Kubectl
from tests.support.manifests import config_map, owner_reference
from tests.support.threads import no_threads_left
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube import ListOptions, WatchOptions
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import CONFIG_MAPS, NAMESPACES, PODS, Resource
from tfoperator.kube.protocol.verbs import ListPage, PatchType, WatchEvent, WatchEventType

__all__ = [
    "CONFIG_MAPS", "NAMESPACES", "PODS", "TFJOBS", "Http", "Json", "Space", "changes", "config_map", "decode",
    "happenings", "is_bookmark", "load_config", "names_of", "nothing_left", "owned_by", "pod", "refused", "revision",
    "seen", "tfjob",
]  # fmt: skip

Json = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    code: int
    headers: Mapping[str, str]
    body: Any


class Http:
    """One request at a time over http.client, for what a typed client never sends."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._address = urlsplit(cluster["server"]).netloc
        self._token = user["token"]
        authority = cluster.get("certificate-authority-data")
        self._context = ssl.create_default_context(
            cafile=cluster.get("certificate-authority"), cadata=b64decode(authority).decode() if authority else None
        )

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        accept: str = "application/json",
        content_type: str = "application/json",
        token: str | None = None,
    ) -> Answer:
        connection = http.client.HTTPSConnection(self._address, context=self._context, timeout=100)
        try:
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            headers = {"Accept": accept, "Authorization": f"Bearer {self._token if token is None else token}"}
            if data is not None:
                headers["Content-Type"] = content_type
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            text = response.read()
            is_watch = response.status == 200 and "watch=true" in path  # a line of JSON for each event
            is_json = response.headers.get_content_type() == "application/json" and not is_watch
            return Answer(response.status, response.headers, json.loads(text) if is_json and text else text)
        finally:
            connection.close()


class Space:
    """One namespace, which no other test uses."""

    def __init__(self, client: Client, http: Http, kubeconfig: Path, namespace: str) -> None:
        self.client = client
        self.http = http
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self.kubectl = Kubectl(kubeconfig, namespace)

    def new_client(self) -> Client:
        """Another client, which its user has to close."""
        return Client(load_config(str(self.kubeconfig)))

    def create(self, resource: Resource, body: Json) -> Json:
        return self.client.create(resource, self.namespace, body, decode)

    def get(self, resource: Resource, name: str) -> Json:
        return self.client.get(resource, self.namespace, name, decode)

    def exists(self, resource: Resource, name: str) -> bool:
        return name in self.names(resource)

    def page(self, resource: Resource, **selection: Any) -> ListPage[Json]:
        return self.client.list(resource, self.namespace, decode, ListOptions(**selection))

    def names(self, resource: Resource, **selection: Any) -> list[str]:
        return names_of(self.page(resource, **selection))

    def replace(self, resource: Resource, body: Json, **options: Any) -> Json:
        return self.client.replace(resource, self.namespace, body["metadata"]["name"], body, decode, **options)

    def patch(self, resource: Resource, name: str, patch: Any, **options: Any) -> Json:
        return self.client.patch(resource, self.namespace, name, patch, decode, **options)

    def set_status(self, resource: Resource, name: str, status: Any) -> Json:
        return self.patch(resource, name, {"status": status}, subresource="status")

    def json_patch(self, resource: Resource, name: str, *operations: Json) -> Json:
        return self.patch(resource, name, list(operations), patch_type=PatchType.JSON)

    def strategic(self, resource: Resource, name: str, patch: Json) -> Json:
        return self.patch(resource, name, patch, patch_type=PatchType.STRATEGIC)

    def delete(self, resource: Resource, name: str, **options: Any) -> None:
        self.client.delete(resource, self.namespace, name, **options)

    def path(self, resource: Resource, name: str = "", subresource: str = "") -> str:
        return resource.path(self.namespace, name, subresource)

    @contextmanager
    def watch(self, resource: Resource, **options: Any) -> Iterator[Iterator[WatchEvent[Json]]]:
        """Events of a running watch; it ends by itself after 100 s, so that a missing event fails a test."""
        stream = self.client.watch(
            resource, self.namespace, decode, WatchOptions(**{"timeout_seconds": 100, **options})
        )
        try:
            yield iter(stream)
        finally:
            stream.close()


def names_of(page: ListPage[Json]) -> list[str]:
    return [item["metadata"]["name"] for item in page.items]


def is_bookmark(event: WatchEvent[Json]) -> bool:
    return event.type is WatchEventType.BOOKMARK


def seen(event: WatchEvent[Json]) -> tuple[str, str]:
    assert event.object is not None, event
    return event.type.value, event.object["metadata"]["name"]


def revision(event: WatchEvent[Json]) -> int:
    assert event.object is not None, event
    return int(event.object["metadata"]["resourceVersion"])


def happenings(events: Iterator[WatchEvent[Json]], count: int) -> list[WatchEvent[Json]]:
    """The next events of a watch without bookmarks, which come with time."""
    received: list[WatchEvent[Json]] = []
    for event in events:
        if not is_bookmark(event):
            received.append(event)
        if len(received) == count:
            return received
    raise AssertionError(f"the watch ended after {received}")


def changes(events: Iterator[WatchEvent[Json]], count: int) -> list[tuple[str, str]]:
    """The next changes of a watch, as (type, name)."""
    return [seen(event) for event in happenings(events, count)]


def nothing_left() -> AbstractContextManager[None]:
    """Check that all threads of a test have ended. The session's servers have pools, which begin threads when busy."""
    return no_threads_left(but=("webhook-conversion", "apiserver-log"))


@contextmanager
def refused(kind: type[KubeError], *words: str) -> Iterator[None]:
    """The server refuses with this class of error, and its message has these words."""
    with pytest.raises(kind) as caught:
        yield
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


def pod(name: str, labels: Json | None = None, **spec: Any) -> Json:
    container = {"name": "main", "image": "example.invalid/x:1", "env": [{"name": "A", "value": "1"}]}
    return manifests.pod(name, labels, **{"containers": [container], **spec})


def tfjob(name: str, **replicas: int) -> Json:
    """A job that leaves its restart policies to the API server."""
    return manifests.tfjob(name, restart_policy="", **replicas)


def owned_by(owner: Json, body: Json, **more: Any) -> Json:
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [owner_reference(owner, **more)]}}
