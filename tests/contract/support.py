"""What contract tests ask of an API server: dictionaries in and out through our own client, and raw HTTP beside it."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml

from hack import gobuild
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.client import Client
from tfoperator.kube.config import load_config
from tfoperator.kube.errors import KubeError
from tfoperator.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, Resource
from tfoperator.kube.verbs import PatchType, WatchEvent, WatchEventType

Json = dict[str, Any]

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def decode(data: bytes) -> Json:
    return msgspec.json.decode(data, type=dict[str, Any])


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
        connection = http.client.HTTPSConnection(self._address, context=self._context, timeout=30)
        try:
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            headers = {"Accept": accept, "Authorization": f"Bearer {self._token if token is None else token}"}
            if data is not None:
                headers["Content-Type"] = content_type
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            text = response.read()
            is_json = response.headers.get_content_type() == "application/json"
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

    def create(self, resource: Resource, body: Json) -> Json:
        return self.client.create(resource, self.namespace, body, decode)

    def get(self, resource: Resource, name: str) -> Json:
        return self.client.get(resource, self.namespace, name, decode)

    def exists(self, resource: Resource, name: str) -> bool:
        return name in self.names(resource)

    def names(self, resource: Resource, **selection: Any) -> list[str]:
        page = self.client.list(resource, self.namespace, decode, **selection)
        return [item["metadata"]["name"] for item in page.items]

    def replace(self, resource: Resource, body: Json, **options: Any) -> Json:
        return self.client.replace(resource, self.namespace, body["metadata"]["name"], body, decode, **options)

    def patch(self, resource: Resource, name: str, patch: Any, **options: Any) -> Json:
        return self.client.patch(resource, self.namespace, name, patch, decode, **options)

    def json_patch(self, resource: Resource, name: str, *operations: Json) -> Json:
        return self.patch(resource, name, list(operations), patch_type=PatchType.JSON)

    def strategic(self, resource: Resource, name: str, patch: Json) -> Json:
        return self.patch(resource, name, patch, patch_type=PatchType.STRATEGIC)

    def delete(self, resource: Resource, name: str, **options: Any) -> None:
        self.client.delete(resource, self.namespace, name, **options)

    def path(self, resource: Resource, name: str = "", subresource: str = "") -> str:
        return resource.path(self.namespace, name, subresource)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        command, environment = self._kubectl(*arguments)
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def kubectl_lines(self, *arguments: str) -> Iterator[Iterator[str]]:
        """The lines of a kubectl that does not end by itself; it is ended after 30 s, or with the context."""
        command, environment = self._kubectl("--request-timeout=30s", *arguments)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            try:
                yield iter(process.stdout)
            finally:
                process.kill()

    def _kubectl(self, *arguments: str) -> tuple[list[str], dict[str, str]]:
        command = [kubectl(), "--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace, *arguments]
        return command, {**os.environ, "HOME": str(self.kubeconfig.parent)}  # it caches discovery below its home

    @contextmanager
    def watch(self, resource: Resource, **options: Any) -> Iterator[Iterator[WatchEvent[Json]]]:
        """Events of a running watch; it ends by itself after 20 s, so that a missing event fails a test."""
        stream = self.client.watch(resource, self.namespace, decode, **{"timeout_seconds": 20, **options})
        try:
            yield iter(stream)
        finally:
            stream.close()


@cache
def kubectl() -> str:
    """The kubectl of the release that the real control plane has."""
    return str(gobuild.ensure("kubectl"))


def is_bookmark(event: WatchEvent[Json]) -> bool:
    return event.type is WatchEventType.BOOKMARK


def seen(event: WatchEvent[Json]) -> tuple[str, str]:
    assert event.object is not None, event
    return event.type.value, event.object["metadata"]["name"]


def revision(event: WatchEvent[Json]) -> int:
    assert event.object is not None, event
    return int(event.object["metadata"]["resourceVersion"])


def changes(events: Iterator[WatchEvent[Json]], count: int) -> list[tuple[str, str]]:
    """The next changes of a watch, as (type, name); bookmarks are skipped."""
    found: list[tuple[str, str]] = []
    for event in events:
        if not is_bookmark(event):
            found.append(seen(event))
        if len(found) == count:
            return found
    raise AssertionError(f"the watch ended after {found}")


@contextmanager
def refused(kind: type[KubeError], *words: str) -> Iterator[None]:
    """The server refuses with this class of error, and its message has these words."""
    with pytest.raises(kind) as caught:
        yield
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


def config_map(name: str, labels: Json | None = None, **data: str) -> Json:
    metadata: Json = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pod(name: str, labels: Json | None = None, **spec: Any) -> Json:
    container = {"name": "main", "image": "example.invalid/x:1", "env": [{"name": "A", "value": "1"}]}
    metadata: Json = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def tfjob(name: str, **replicas: int) -> Json:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "example.invalid/x:1"}]}}
    specs = {kind: {"replicas": count, "template": template} for kind, count in (replicas or {"Worker": 2}).items()}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": specs},
    }


def owned_by(owner: Json, body: Json, **more: Any) -> Json:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **more,
    }
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [reference]}}


__all__ = ["CONFIG_MAPS", "NAMESPACES", "PODS", "TFJOBS", "Http", "Json", "Space", "load_config"]
