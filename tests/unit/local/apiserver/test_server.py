import gzip
import json
import logging
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.contract.support import Http, decode
from tests.support.eventually import eventually
from tests.support.jobs import write_kubeconfig
from tests.support.node_logs import NodeLogs
from tests.support.threads import InThread, run_at_once
from tests.unit.local.apiserver.samples import widgets
from tfoperator.kube import WatchOptions
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.resources import NAMESPACES, PODS, Resource
from tfoperator.kube.protocol.verbs import WatchEventType
from tfoperator.local.apiserver import server as apiserver
from tfoperator.local.apiserver.endpoint import ReservedEndpoint
from tfoperator.local.apiserver.http import resource_requests
from tfoperator.local.apiserver.http.bodies import MAX_BODY
from tfoperator.local.apiserver.http.pod_streams import NodeStreams
from tfoperator.local.apiserver.server import EmbeddedApiServer
from tfoperator.local.runtime.log_files import LogRequest

WIDGETS = Resource("example.com", "v1", "Widget", "widgets")
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "i"}]}}
LOG = "/api/v1/namespaces/default/pods/p/log"


@pytest.fixture
def logs() -> NodeLogs:
    return NodeLogs()


@pytest.fixture
def server(logs: NodeLogs) -> Iterator[EmbeddedApiServer]:
    with EmbeddedApiServer(node=NodeStreams(logs.read), history_limit=5, bookmark_interval=0.1) as running:
        yield running


@pytest.fixture
def kubeconfig(server: EmbeddedApiServer, tmp_path: Path) -> Path:
    return write_kubeconfig(tmp_path / "kubeconfig", server.kubeconfig(), "default")


@pytest.fixture
def client(kubeconfig: Path) -> Iterator[Client]:
    with Client(load_config(str(kubeconfig))) as connected:
        yield connected


@pytest.fixture
def http(kubeconfig: Path) -> Http:
    return Http(kubeconfig)


@pytest.fixture
def tls(server: EmbeddedApiServer) -> ssl.SSLSocket:
    """A connection for bytes as a test writes them."""
    return connected(server)


def connected(server: EmbeddedApiServer) -> ssl.SSLSocket:
    trust = ssl.create_default_context(cadata=server.certificate.decode())
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    return trust.wrap_socket(plain, server_hostname="127.0.0.1")


def head(server: EmbeddedApiServer, path: str, *headers: str, method: str = "GET") -> bytes:
    """A request's head, with the token."""
    lines = ("Host: x", f"Authorization: Bearer {server.token}", *headers)
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode()


def answer(connection: ssl.SSLSocket) -> tuple[bytes, bytes]:
    """The next answer's head and body, or all its chunks."""
    response_head = b""
    while b"\r\n\r\n" not in response_head:
        response_head += connection.recv(1)
    length = re.search(rb"Content-Length: (\d+)", response_head)
    body = b""
    while not (len(body) == int(length[1]) if length else body.endswith(b"0\r\n\r\n")):
        body += connection.recv(1)
    return response_head, body


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("path", ["/api/v1/pods?watch=true", f"{LOG}?follow=true"])
def test_a_client_that_leaves_amid_a_stream_is_nothing_to_complain_about(
    server: EmbeddedApiServer, logs_of_pod: NodeLogs, caplog: pytest.LogCaptureFixture, path: str, resets: bool
) -> None:
    finished = threading.Event()

    def reader(*_: object) -> Iterator[bytes]:
        try:
            yield from silence(b"line\n")
        finally:
            finished.set()

    logs_of_pod.reader = reader
    connection = connected(server)
    connection.sendall(head(server, path))
    assert connection.recv(4096).startswith(b"HTTP/1.1 200 OK")
    if resets:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    eventually(lambda: finished.is_set() or "watch" in path, what="the reader has been ended")
    eventually(lambda: not server._requests._watchers, what="the watch has been ended")
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_connection_serves_on_after_a_watch_and_a_log(
    server: EmbeddedApiServer, logs_of_pod: NodeLogs, tls: ssl.SSLSocket
) -> None:
    logs_of_pod.reader = lambda _: iter((b"a line\n", b"", b"another\n"))
    with tls:
        tls.sendall(head(server, "/api/v1/pods?watch=true&timeoutSeconds=1&resourceVersion=0"))
        started, events = answer(tls)
        assert b"Transfer-Encoding: chunked" in started
        assert b'"type":"ADDED"' in events
        tls.sendall(head(server, LOG))
        assert answer(tls)[1] == b"7\r\na line\n\r\n8\r\nanother\n\r\n0\r\n\r\n"
        tls.sendall(head(server, "/healthz"))
        assert answer(tls)[1] == b"ok"


def test_a_body_in_chunks_is_taken_and_a_long_one_is_refused_with_a_status(
    server: EmbeddedApiServer, tls: ssl.SSLSocket
) -> None:
    body = json.dumps(POD).encode()
    pods = "/api/v1/namespaces/default/pods"
    chunked = head(server, pods, "Transfer-Encoding: chunked", "Content-Type: application/json", method="POST")
    with tls:
        tls.sendall(chunked + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        response_head, _ = answer(tls)
        assert b" 201 Created\r\n" in response_head
        tls.sendall(chunked + b"%x\r\n" % (MAX_BODY + 1))
        response_head, status = answer(tls)
        assert b" 413 " in response_head
        assert json.loads(status)["reason"] == "RequestEntityTooLarge"


def test_nothing_is_unpacked(server: EmbeddedApiServer, tls: ssl.SSLSocket) -> None:
    packed = gzip.compress(b" " * (64 << 20))
    coding = ("Content-Encoding: gzip", f"Content-Length: {len(packed)}")
    with tls:
        tls.sendall(head(server, "/api/v1/namespaces/default/pods", *coding, method="POST") + packed)
        assert b" 400 Bad Request\r\n" in answer(tls)[0]


def test_without_the_token_no_body_is_read(server: EmbeddedApiServer, tls: ssl.SSLSocket) -> None:
    lengths = f"Content-Length: {MAX_BODY}", "Expect: 100-continue"
    with tls:
        asked = head(server, "/api/v1/namespaces/default/pods", *lengths, method="POST")
        tls.sendall(asked.replace(server.token.encode(), b"wrong"))
        response_head, status = answer(tls)
        assert b" 401 Unauthorized\r\n" in response_head
        assert b"Connection: close" in response_head
        assert json.loads(status)["code"] == 401
        assert tls.recv(1) == b"", "it ends, and waits for no body"


def test_a_long_selector_is_taken_and_an_endless_head_is_a_status(
    server: EmbeddedApiServer, tls: ssl.SSLSocket
) -> None:
    with tls:
        tls.sendall(head(server, f"/api/v1/pods?labelSelector=a%20in%20({','.join(['value'] * 10_000)})"))
        assert b" 200 OK\r\n" in answer(tls)[0]
        tls.sendall(head(server, "/api/v1/pods", *(f"X-{number}: {'y' * 1000}" for number in range(100))))
        response_head, status = answer(tls)
        assert b" 431 " in response_head
        assert json.loads(status)["kind"] == "Status"


def test_a_warning_is_one_header_whatever_it_names(server: EmbeddedApiServer, http: Http) -> None:
    name = 'a"b\\c\r\nX-Injected: 1\x7fé日'
    replica = {"template": {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "j"},
        "spec": {"tfReplicaSpecs": {"Worker": replica}, name: 1},
    }
    answered = http("POST", "/apis/kubeflow.org/v1/namespaces/default/tfjobs", job)
    assert answered.code == 201
    assert "X-Injected" not in answered.headers
    assert "unknown field" in answered.headers["Warning"]


def test_a_server_starts_once_with_a_token_of_its_own_and_stops_any_number_of_times() -> None:
    server, idle = (EmbeddedApiServer(custom_resources=[]) for _ in range(2))
    assert server.token != idle.token
    server.start()
    with pytest.raises(RuntimeError, match="only once"):
        server.start()
    server.stop()
    server.stop()
    idle.stop()  # it never started
    port = int(idle.url.rpartition(":")[2])
    with EmbeddedApiServer(ReservedEndpoint(port), custom_resources=[]) as named:
        assert named.url == f"https://127.0.0.1:{port}"
        assert server._store.revision < named._store.revision, "which are no versions of an earlier one"


def test_health_needs_no_token_and_everything_else_does(http: Http) -> None:
    expected = {"/healthz": 200, "/readyz": 200, "/version": 401, "/api": 401, "/nope": 401}
    assert {path: http("GET", path, token="wrong").code for path in expected} == expected


def test_a_stop_ends_watches_and_followed_logs(
    server: EmbeddedApiServer, client: Client, logs_of_pod: NodeLogs
) -> None:
    stream = client.watch(PODS, "", decode, WatchOptions(allow_watch_bookmarks=False))
    reading = InThread(lambda: list(stream))
    logs_of_pod.reader = lambda _: silence(b"first\n")
    with client.pod_log("default", "p", follow=True) as log:
        chunks = iter(log)  # its end would close the log
        assert next(chunks) == b"first\n"
        run_at_once(server.stop)
    reading.result()


def test_a_watch_has_bookmarks_at_their_interval_and_does_not_outlive_its_client(
    server: EmbeddedApiServer, client: Client
) -> None:
    stream = client.watch(PODS, "", decode, WatchOptions(resource_version="0"))
    try:
        events = iter(stream)  # its end would close the watch
        assert next(events).type is WatchEventType.BOOKMARK
        assert len(server._requests._watchers) == 1
    finally:
        stream.close()
    eventually(lambda: not server._requests._watchers)


def test_other_custom_resources_can_be_served(tmp_path: Path) -> None:
    with EmbeddedApiServer(custom_resources=[widgets()]) as server:
        path = write_kubeconfig(tmp_path / "kubeconfig", server.kubeconfig(), "default")
        with Client(load_config(str(path))) as client:
            made = client.create(WIDGETS, "default", {"metadata": {"name": "w"}, "spec": {}}, decode)
    assert made["spec"] == {"size": 1, "maybe": "x"}


def test_definitions_are_read_only(http: Http) -> None:
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    ours = f"{crds}/tfjobs.kubeflow.org"
    before = http("GET", ours).body
    for method, path in (
        ("POST", crds), ("DELETE", crds), ("PUT", ours), ("PATCH", ours), ("DELETE", ours), ("PUT", f"{ours}/status"),
        ("PATCH", f"{ours}/status"),
    ):  # fmt: skip
        answer = http(method, path, {"metadata": {"name": "tfjobs.kubeflow.org"}})
        assert (answer.code, answer.body["reason"]) == (405, "MethodNotAllowed"), (method, path)
    assert http("GET", ours).body == before
    for resource in http("GET", "/apis/apiextensions.k8s.io/v1").body["resources"]:
        assert set(resource["verbs"]) <= {"get", "list", "watch"}


def test_no_answer_shows_a_traceback(
    server: EmbeddedApiServer, http: Http, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a secret detail")

    monkeypatch.setattr(resource_requests, "list_page", broken)
    answer = http("GET", "/api/v1/pods")
    assert (answer.code, answer.body["reason"]) == (500, "InternalError")
    assert "secret" not in str(answer.body)
    assert "a secret detail" in caplog.text


@pytest.fixture
def logs_of_pod(logs: NodeLogs, client: Client) -> NodeLogs:
    """Of a pod `p`, which exists."""
    client.create(PODS, "default", POD, decode)
    return logs


def test_without_a_node_agent_there_are_no_logs(tmp_path: Path) -> None:
    with EmbeddedApiServer() as server:
        http = Http(write_kubeconfig(tmp_path / "kubeconfig", server.kubeconfig(), "default"))
        http("POST", "/api/v1/namespaces/default/pods", POD)
        assert http("GET", LOG).code == 503


def test_the_node_agent_reads_a_log_as_the_query_says(logs_of_pod: NodeLogs, http: Http) -> None:
    asked: list[LogRequest] = []

    def reader(wanted: LogRequest) -> Iterator[bytes]:
        asked.append(wanted)
        yield b"one\n"
        yield b"two\n"

    logs_of_pod.reader = reader
    since = datetime(2026, 1, 1, tzinfo=UTC)
    for query, wanted, body in (
        ("tailLines=7&previous=true", {"previous": True, "tail_lines": 7}, b"one\ntwo\n"),
        ("limitBytes=5", {"limit_bytes": 5}, b"one\nt"),
        ("sinceTime=2026-01-01T00:00:00Z&timestamps=true", {"since": since, "timestamps": True}, b"one\ntwo\n"),
    ):
        answer = http("GET", f"{LOG}?{query}")
        assert (answer.code, answer.body, asked[-1]) == (200, body, LogRequest("default", "p", "main", **wanted))
    both = "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z"
    for query in ("sinceTime=yesterday", "sinceTime=2026-01-01T00:00:00", "sinceSeconds=soon"):
        assert http("GET", f"{LOG}?{query}").code == 400, query
    for query in ("sinceSeconds=0", "limitBytes=0", both):
        assert http("GET", f"{LOG}?{query}").code == 422, query
    assert http("GET", f"{LOG}?sinceSeconds=9223372036854775807").code == 200


def test_a_log_that_is_not_there_is_a_status(logs_of_pod: NodeLogs, client: Client, http: Http) -> None:
    def reader(*_: object) -> Iterator[bytes]:
        raise LookupError("it has not started")
        yield b""

    logs_of_pod.reader = reader
    missing = http("GET", LOG)
    status = {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}
    client.patch(PODS, "default", "p", {"status": status}, decode, subresource="status")
    waiting = http("GET", LOG)
    assert (missing.code, waiting.code) == (400, 400)
    assert "it has not started" in missing.body["message"]
    assert waiting.body["message"] == 'container "main" in pod "p" is waiting to start: ImagePullBackOff'


def silence(*first: bytes) -> Iterator[bytes]:
    """Yield a log that goes on without further output."""
    yield from first
    while True:
        time.sleep(0.01)
        yield b""


def test_a_followed_log_streams_and_ends_with_its_client(logs_of_pod: NodeLogs, client: Client) -> None:
    more, finished = threading.Event(), threading.Event()

    def reader(*_: object) -> Iterator[bytes]:
        try:
            yield b"first\n"
            while not more.wait(0.01):
                yield b""
            yield b"second\n"
            yield from silence()
        finally:
            finished.set()

    logs_of_pod.reader = reader
    with client.pod_log("default", "p", follow=True) as log:
        chunks = iter(log)
        assert next(chunks) == b"first\n"
        more.set()
        assert next(chunks) == b"second\n"
    eventually(finished.is_set, what="the reader has been ended")


def test_a_stop_leaves_a_reader_that_hangs(
    server: EmbeddedApiServer,
    logs_of_pod: NodeLogs,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(apiserver, "_LOG_SECONDS", 0.05)
    hangs, released, finished = threading.Event(), threading.Event(), threading.Event()

    def reader(*_: object) -> Iterator[bytes]:
        yield b"first\n"
        hangs.set()
        released.wait()
        finished.set()
        yield b"last\n"

    logs_of_pod.reader = reader
    try:
        with client.pod_log("default", "p", follow=True) as log:
            chunks = iter(log)
            assert next(chunks) == b"first\n"
            assert hangs.wait(10)
            run_at_once(server.stop)
        assert "still reads" in caplog.text
    finally:
        released.set()
    eventually(finished.is_set, what="the reader has gone on")


def test_the_usual_namespaces_are_there_and_no_deletion_is_without_a_date(client: Client, http: Http) -> None:
    names = {item["metadata"]["name"] for item in client.list(NAMESPACES, "", decode).items}
    assert names == {"default", "kube-node-lease", "kube-public", "kube-system"}
    pods = "/api/v1/namespaces/default/pods"
    longest = 2**63 - 1
    spec = {**POD["spec"], "nodeName": "elsewhere", "terminationGracePeriodSeconds": longest}
    for name, query in (("by-itself", ""), ("asked", f"?gracePeriodSeconds={longest}")):
        assert http("POST", pods, {"metadata": {"name": name}, "spec": spec}).code == 201
        answer = http("DELETE", f"{pods}/{name}{query}")
        assert (answer.code, answer.body["metadata"]["deletionGracePeriodSeconds"]) == (200, 2**31 - 1)
