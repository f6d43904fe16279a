"""The embedded server refuses the same pods as kube-apiserver, and names the same fields."""

import http.client
import json
import re
import ssl
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from hack import gobuild
from hack.controlplane import control_plane
from tests.support.random_templates import templates
from tfoperator.local.apiserver.server import EmbeddedApiServer

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]

TEMPLATES = 2000
SEED = 50
"""Of `make test-all`. Other seeds were tried while the rules were written."""

PODS_PATH = "/api/v1/namespaces/default/pods?dryRun=All&fieldValidation=Ignore"
UNREADABLE = 400
_MEMBER_OF_GO = re.compile(r"\.[A-Z]\w*(?=\.)")
_PLACE = re.compile(r"\[[^]]*\]")


class Server:
    """An API server that is asked for its verdict about pods, over one connection."""

    def __init__(self, config: Json) -> None:
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = cluster.get("certificate-authority-data")
        context = ssl.create_default_context(
            cafile=cluster.get("certificate-authority"), cadata=b64decode(authority).decode() if authority else None
        )
        self._connection = http.client.HTTPSConnection(urlsplit(cluster["server"]).netloc, context=context, timeout=60)
        self._headers = {"Authorization": f"Bearer {user['token']}", "Content-Type": "application/json"}

    def verdict(self, pod: Json) -> tuple[int, set[str]]:
        """The code of the answer, and the fields that it names; of what can't be read, in paths without positions."""
        self._connection.request("POST", PODS_PATH, json.dumps(pod).encode(), self._headers)
        answer = self._connection.getresponse()
        body = json.loads(answer.read())
        if answer.status != UNREADABLE:
            return answer.status, {cause["field"] for cause in body.get("details", {}).get("causes", ())}
        message = str(body["message"]).partition("cannot be handled as a Pod: ")[2]
        if of_go := re.search(r"Go struct field \w+\.([\w.]+)", message):
            return answer.status, {_MEMBER_OF_GO.sub("", of_go[1])}
        return answer.status, {_PLACE.sub("", cause.partition(": ")[0]) for cause in message.split("; ")}

    def close(self) -> None:
        self._connection.close()


@contextmanager
def both() -> Iterator[tuple[Server, Server]]:
    """Start a real server and the embedded server."""
    with control_plane() as plane, EmbeddedApiServer() as embedded:
        servers = Server(yaml.safe_load(plane.kubeconfig.read_text())), Server(embedded.kubeconfig())
        try:
            yield servers
        finally:
            for server in servers:
                server.close()


def same(real: tuple[int, set[str]], ours: tuple[int, set[str]]) -> bool:
    if real[0] != UNREADABLE or ours[0] != UNREADABLE:
        return real == ours
    # The decoder of Go names the first member that it can't read, or none for a quantity or a time; ours names all.
    (first,) = real[1]
    nameless = first.startswith(("quantities must match", "unable to parse quantity", "parsing time"))
    return nameless or any(path == first or path.startswith(f"{first}.") for path in ours[1])


@pytest.mark.skipif(
    gobuild.kubernetes_version() != next(iter(gobuild.KUBERNETES_MODULES)),
    reason="the rules and fields of pods are those of the newest Kubernetes",
)
def test_random_templates_get_the_same_verdict_and_the_same_fields_from_both_servers() -> None:
    codes: Counter[int] = Counter()
    with both() as (real, embedded):
        for number, template in enumerate(templates(SEED, TEMPLATES)):
            metadata = {**template["metadata"], "name": "p"}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
            expected, actual = real.verdict(pod), embedded.verdict(pod)
            assert same(expected, actual), f"template {number}: {expected} is wanted, but {actual} found: {pod}"
            codes[expected[0]] += 1
    # Neither are nearly all templates valid, nor nearly all invalid.
    assert codes[201] > TEMPLATES / 5
    assert codes[422] > TEMPLATES / 5
    assert codes[UNREADABLE] > TEMPLATES / 100
