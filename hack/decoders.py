"""Everything that decodes bytes from a network or a file, with samples of what it reads and the errors it declares.

`hack/fuzz_decoders.py` spoils the samples. A new decoder is fuzzed as soon as it is in `decoders()`.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tfoperator.api.crd import crd
from tfoperator.api.loading import ManifestError, parse_manifests
from tfoperator.api.v1.types import TFJOBS, decode_tfjob
from tfoperator.api.validation import validate_manifest
from tfoperator.clock import SystemClock
from tfoperator.kube.client import Client
from tfoperator.kube.cluster import ClusterConfig
from tfoperator.kube.errors import UNDECODABLE, KubeError
from tfoperator.kube.kubeconfig import read_kubeconfig
from tfoperator.kube.objects import decode_partial, decode_pod, decode_service
from tfoperator.kube.resources import PODS
from tfoperator.kube.watch import HttpWatch
from tfoperator.launcher.component import Artifact
from tfoperator.launcher.errors import ComponentError, TemplateError, WorkDirectoryError
from tfoperator.launcher.executor_specs import ExecutorContainerSpec
from tfoperator.launcher.output import MalformedOutput, parse_output
from tfoperator.launcher.record import WorkDirectory
from tfoperator.launcher.templates import Bindings, render_container
from tfoperator.leaderelection.lease import LeaseLock
from tfoperator.local.apiserver import protobuf
from tfoperator.local.apiserver.bodies import decode_delete_options, decode_object, write_options
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.kinds import BUILTIN
from tfoperator.local.apiserver.listing import ListOptions
from tfoperator.local.apiserver.patch import patcher
from tfoperator.local.apiserver.selectors import parse_selector
from tfoperator.operator.options import OptionsError, read_config
from tfoperator.webhook.registration import Target, decode_crd, registration_patch
from tfoperator.webhook.review import MalformedReview, answer

__all__ = ["Decoder", "decoders"]

ROOT = Path(__file__).resolve().parent.parent
LEASE_ERRORS = (KubeError, msgspec.MsgspecError)
PODS_OF_SERVER = next(resource for resource in BUILTIN if resource.plural == "pods")


@dataclass(frozen=True)
class Decoder:
    """One decoder. `read` may raise `declared` and nothing else, whatever it is given. `weight`: how often it is tried,
    for those that cost more are tried less.
    """

    name: str
    samples: tuple[bytes, ...]
    read: Callable[[bytes], object]
    declared: tuple[type[BaseException], ...]
    weight: float = 1.0


@contextmanager
def decoders(folder: Path) -> Iterator[list[Decoder]]:
    """All decoders; those of files write what they read into `folder`, those of HTTP talk to a server on loopback."""
    with ExitStack() as stack:
        server = stack.enter_context(_Server())
        client = stack.enter_context(
            Client(ClusterConfig(server=server.url), qps=-1, request_timeout=5, watch_read_deadline=5)
        )
        batching = stack.enter_context(
            Client(ClusterConfig(server=server.url), qps=-1, watch_read_deadline=5, watch_batch_period=0.001)
        )
        received = (*_objects(), *_streams(), *_http(server, client, batching))
        yield [*received, *_files(folder), *_launcher(folder), *_webhook(), *_requests()]


# Samples.


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


@cache
def _manifests() -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted(ROOT.glob("examples/**/*.yaml")))


@cache
def _jobs() -> tuple[bytes, ...]:
    documents = (one for text in _manifests() for one in yaml.safe_load_all(text) if isinstance(one, dict))
    return tuple(json.dumps(one, default=str).encode() for one in documents if one.get("kind") == "TFJob")


_META: dict[str, Any] = {
    "name": "a",
    "namespace": "ns",
    "uid": "u",
    "resourceVersion": "7",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "labels": {"training.kubeflow.org/replica-index": "0"},
    "ownerReferences": [
        {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "j", "uid": "x", "controller": True}
    ],
}
_CONTAINER = {"name": "tensorflow", "restartCount": 1, "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}
_POD = {
    "metadata": _META,
    "spec": {"nodeName": "n"},
    "status": {
        "phase": "Failed",
        "containerStatuses": [_CONTAINER],
        "conditions": [{"type": "Ready", "status": "False"}],
    },
}
_SERVICE = {"metadata": _META, "spec": {"clusterIP": "None", "ports": [{"port": 2222}]}}
_LEASE = {
    "metadata": _META,
    "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
}
_STATUS = {
    "kind": "Status", "status": "Failure", "message": "no", "reason": "Invalid", "code": 422,
    "details": {"name": "a", "causes": [{"reason": "FieldValueInvalid", "field": "spec", "message": "bad"}]},
}  # fmt: skip
_LIST = {"metadata": {"resourceVersion": "9", "continue": "x", "remainingItemCount": 3}, "items": [_POD, _POD]}


def _lines(*events: tuple[str, object]) -> bytes:
    return b"".join(_json({"type": kind, "object": obj}) + b"\n" for kind, obj in events)


_END = {"metadata": {"resourceVersion": "8", "annotations": {"k8s.io/initial-events-end": "true"}}}
_WATCH = _lines(("ADDED", _POD), ("BOOKMARK", _END), ("MODIFIED", _POD), ("DELETED", _POD), ("ERROR", _STATUS))


# Objects and watches.


def _objects() -> list[Decoder]:
    return [
        Decoder("tfjob", _jobs(), decode_tfjob, UNDECODABLE),
        Decoder("pod", (_json(_POD),), decode_pod, UNDECODABLE),
        Decoder("service", (_json(_SERVICE),), decode_service, UNDECODABLE),
        Decoder("metadata", (_json(_POD),), decode_partial, UNDECODABLE),
    ]


class _Bytes:
    """What HttpWatch reads from, in pieces of a few sizes."""

    def __init__(self, data: bytes) -> None:
        size = (1, 7, 64, 4096)[len(data) % 4]
        self._pieces = iter([data[at : at + size] for at in range(0, len(data), size)])

    def read(self, timeout: float | None, gather: int = 0) -> bytes:  # noqa: ARG002 - ByteStream's signature
        return next(self._pieces, b"")

    def close(self) -> None:
        pass


def _streams() -> list[Decoder]:
    def watched(data: bytes) -> None:
        stream: Any = _Bytes(data)
        list(HttpWatch(stream, decode_pod, what="w", read_deadline=1, total_deadline=1e9, clock=SystemClock()))

    return [Decoder("watch", (_WATCH,), watched, (KubeError,), weight=2.0)]


# HTTP, from the first byte of an answer on.


class _Server:
    """Answers each connection with the bytes of the moment and hangs up."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.answer = b""
        self._thread = threading.Thread(target=self._serve, name="fuzz-server", daemon=True)

    def __enter__(self) -> _Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                try:
                    request = b""
                    while b"\r\n\r\n" not in request and (data := connection.recv(65536)):
                        request += data
                    connection.sendall(self.answer)
                except OSError:
                    pass  # the client was faster


def _answer(body: bytes, status: str = "200 OK", *, chunked: bool = False, headers: str = "") -> bytes:
    if chunked:
        cut = len(body) // 2
        pieces = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in (body[:cut], body[cut:]))
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n{headers}\r\n"
        return head.encode() + pieces + b"0\r\n\r\n"
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


def _http(server: _Server, client: Client, batching: Client) -> list[Decoder]:
    def answered(data: bytes, call: Callable[[], object]) -> None:
        server.answer = data
        call()

    def listed(data: bytes) -> None:
        answered(data, lambda: client.list(PODS, "ns", decode_pod))

    def patched(data: bytes) -> None:
        # A write is repeated in no case but 429 with a time, which is not asked for here.
        answered(data, lambda: client.patch(TFJOBS, "ns", "a", {}, decode_tfjob))

    def watched(by: Client, data: bytes) -> None:
        def watch() -> None:
            with by.watch(PODS, "ns", decode_pod) as stream:
                list(stream)

        answered(data, watch)

    lock = LeaseLock(client, namespace="ns", name="a", identity="me")
    page, job, lease, failure = _json(_LIST), _jobs()[0], _json(_LEASE), _json(_STATUS)
    failures = (_answer(failure, "422 Unprocessable Entity"), _answer(b"<html>", "502 Bad Gateway"))
    return [
        Decoder("http list", (_answer(page), _answer(page, chunked=True), *failures), listed, (KubeError,), 0.3),
        Decoder("http patch", (_answer(job), _answer(job, chunked=True), *failures), patched, (KubeError,), 0.3),
        Decoder("http lease", (_answer(lease), *failures), lambda d: answered(d, lock.get), LEASE_ERRORS, 0.3),
        Decoder("http watch", (_answer(_WATCH, chunked=True), *failures), partial(watched, client), (KubeError,), 0.3),
        Decoder("batched watch", (_answer(_WATCH, chunked=True),), partial(watched, batching), (KubeError,), 0.3),
    ]


# Files.


def _kubeconfig() -> bytes:
    cluster = {"server": "https://k8s.test:6443", "insecure-skip-tls-verify": True, "tls-server-name": "x"}
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "none", "interactiveMode": "Never"}
    users = [
        {"name": "u", "user": {"token": "t"}},
        {"name": "v", "user": {"exec": plugin, "as": "me", "as-groups": ["a", "b"]}},
    ]
    contexts = [{"name": name, "context": {"cluster": "c", "user": name, "namespace": "n"}} for name in ("u", "v")]
    return yaml.safe_dump(
        {
            "apiVersion": "v1", "kind": "Config", "current-context": "u", "users": users,
            "contexts": contexts, "clusters": [{"name": "c", "cluster": cluster}],
        }
    ).encode()  # fmt: skip


def _files(folder: Path) -> list[Decoder]:
    def manifests(data: bytes) -> None:
        for manifest in parse_manifests(data):
            validate_manifest(manifest.obj)

    def kubeconfig(data: bytes) -> None:
        path = folder / "kubeconfig"
        path.write_bytes(data)
        read_kubeconfig([path])

    def options(data: bytes) -> None:
        path = folder / "operator.yaml"
        path.write_bytes(data)
        read_config(str(path))

    config = (ROOT / "examples/accelerators/operator.yaml").read_bytes()
    return [
        Decoder("manifests", _manifests(), manifests, (ManifestError,)),
        Decoder("kubeconfig", (_kubeconfig(), _kubeconfig().replace(b"current-context: u", b"current-context: v")),
                kubeconfig, (KubeError,)),
        Decoder("operator config", (config, b"resync-period: 15s\nleaderElect: true\nnamespace: [a, b]\n"),
                options, (OptionsError,)),
    ]  # fmt: skip


# The launcher.


def _launcher(folder: Path) -> list[Decoder]:
    output = {
        "error_status": {"code": "RETRYABLE_ERROR", "message": "no"},
        "outputs": {"model": {"uri": "/x", "properties": {"a": 1}}, "all": [{"uri": "/y"}]},
        "exec_properties": {"steps": 3},
    }
    record = {"component": "c", "fingerprint": "f", "execution_id": 1, "run": "r"}
    template = b"{{ inputs.data.uri }} --out={{outputs.model.uri}} --n {{exec_properties.n}} {{ exec_props.t }}"
    bindings = Bindings(
        inputs={"data": (Artifact(uri="/in"),)}, outputs={"model": (Artifact(uri="/out"),)},
        exec_properties={"n": 1, "t": "x"},
    )  # fmt: skip

    def rendered(data: bytes) -> None:
        text = data.decode("utf-8", "surrogateescape")
        render_container("c", ExecutorContainerSpec(image=text, args=(text,)), bindings)

    def recorded(data: bytes) -> None:
        (folder / "launch.json").write_bytes(data)
        work = WorkDirectory(folder)
        work.load()

    return [
        Decoder("output.json", (_json(output),), parse_output, (MalformedOutput,)),
        Decoder("templates", (template,), rendered, (TemplateError, ComponentError)),
        Decoder("launch record", (_json(record),), recorded, (WorkDirectoryError,)),
    ]


# The webhook: what it is asked, and what it reads from API servers.


def _webhook() -> list[Decoder]:
    job = json.loads(_jobs()[0])
    reviews = []
    for version, wanted in (("v1", "v1alpha2"), ("v1alpha2", "v1")):
        objects = [{**job, "apiVersion": f"kubeflow.org/{version}"}]
        request = {"uid": "u", "desiredAPIVersion": f"kubeflow.org/{wanted}", "objects": objects}
        review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
        reviews.append(_json(review))

    def registered(data: bytes) -> None:
        registration_patch(decode_crd(data), Target("webhook", "ns"), b"")

    return [
        Decoder("conversion review", tuple(reviews), answer, (MalformedReview,)),
        Decoder("webhook crd", (_json(crd(all_versions=True)),), registered, UNDECODABLE),
    ]


# What the embedded API server is sent.


def _requests() -> list[Decoder]:
    declared = (StatusError,)
    deletion = {"gracePeriodSeconds": 3, "preconditions": {"uid": "u"}, "propagationPolicy": "Background"}
    operations = [{"op": "add", "path": "/metadata/labels/x", "value": "y"}, {"op": "remove", "path": "/spec/nodeName"}]
    query = (
        b"limit=5&continue=eyJydiI6IDEsICJzdGFydCI6ICJhIn0=&resourceVersion=7&resourceVersionMatch=Exact"
        b"&timeoutSeconds=3&gracePeriodSeconds=-1&dryRun=All&fieldValidation=Strict"
    )
    # Options of a deletion: a grace period (1), preconditions (2) with a UID, a policy (4).
    envelope = (
        b"k8s\x00\n\x13\n\x02v1\x12\rDeleteOptions\x12\x13\x08\x05\x12\x03\n\x01u\x22\nBackground\x1a\x00\x22\x00"
    )

    def patched(kind: str, data: bytes) -> None:
        patcher(PODS_OF_SERVER, kind, data)(json.loads(_json(_POD)))

    def queried(data: bytes) -> None:
        parts = (part.partition("=") for part in data.decode("utf-8", "replace").split("&"))
        values = {name: value for name, _, value in parts}
        for read in (
            lambda: ListOptions.parse(PODS_OF_SERVER, values),
            lambda: decode_delete_options("", b"", values),
            lambda: write_options(values),
        ):
            try:
                read()
            except StatusError:
                pass

    def selected(data: bytes, *, labels: bool = False) -> None:
        text = data.decode("utf-8", "replace")
        parse_selector(PODS_OF_SERVER, text if labels else "", "" if labels else text).matches(_POD)

    types = ("application/merge-patch+json", "application/strategic-merge-patch+json")
    merge = _json({"metadata": {"labels": {"x": None}}, "spec": {"containers": [{"name": "a", "$patch": "delete"}]}})
    return [
        Decoder("request body", _jobs(), lambda data: decode_object("application/json", data), declared),
        Decoder(
            "request body, yaml", _manifests(), lambda data: decode_object("application/yaml", data), declared, 0.3
        ),
        Decoder("request body, protobuf", (envelope,), lambda d: decode_object(protobuf.MEDIA_TYPE, d), declared),
        Decoder("delete options", (_json(deletion),), lambda d: decode_delete_options("", d, {}), declared),
        Decoder("json patch", (_json(operations),), lambda d: patched("application/json-patch+json", d), declared),
        Decoder("merge patch", (merge,), lambda data: patched(types[0], data), declared),
        Decoder("strategic patch", (merge,), lambda data: patched(types[1], data), declared),
        Decoder("query", (query,), queried, declared),
        Decoder("label selector", (b"a=b,c!=d,e in (f,g),!h,i>3,j",), lambda d: selected(d, labels=True), declared),
        Decoder("field selector", (b"status.phase=Running,metadata.name!=a",), selected, declared),
    ]
