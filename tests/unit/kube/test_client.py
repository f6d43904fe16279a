import threading
from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from tests.support.eventually import eventually
from tests.support.nested import nested
from tests.support.threads import InThread, run_at_once
from tests.unit.kube.conftest import MakeClient, Serve
from tests.unit.kube.server import Exchange, chunks, lists_and_watches, silent, stalls
from tfoperator.kube import ListOptions, ListWatch, Selection, WatchOptions
from tfoperator.kube.config.credentials import StaticCredentials
from tfoperator.kube.protocol.errors import (
    ApiError,
    ClientClosed,
    InvalidError,
    MalformedResponse,
    ServerError,
    TransportError,
)
from tfoperator.kube.protocol.resources import NAMESPACES, PODS, Resource
from tfoperator.kube.protocol.verbs import ApiClient, PatchType, decode_metadata, decoder
from tfoperator.kube.views.objects import PartialObject, decode_nothing

DECODE = decoder(PartialObject)
JOBS = Resource("kubeflow.org", "v1", "TFJob", "tfjobs")
JSON = "application/json"


def echo(exchange: Exchange) -> None:
    exchange.respond(200, {"kind": "Pod", "metadata": {"name": "a", "namespace": "ns", "resourceVersion": "5"}})


POD_PATH = "/api/v1/namespaces/ns/pods"
NAMED = {"metadata": {"name": "a"}}
READ_ONLY = MappingProxyType({"a": MappingProxyType({"b": (1,)})})
REMOVAL = [{"op": "remove", "path": "/a"}]

Verb = tuple[Callable[[ApiClient], object], str, str, str | None, Any]
"""A call of the client; the method, the target, the content type and the body that it sends."""

VERBS: list[Verb] = [
    (lambda c: c.get(PODS, "ns", "a", DECODE), "GET", f"{POD_PATH}/a", None, None),
    (lambda c: c.get(NAMESPACES, "", "ns", DECODE), "GET", "/api/v1/namespaces/ns", None, None),
    (lambda c: c.create(PODS, "ns", NAMED, DECODE), "POST", POD_PATH, JSON, NAMED),
    (lambda c: c.create(PODS, "ns", b'{"a":1}', DECODE), "POST", POD_PATH, JSON, {"a": 1}),
    (lambda c: c.create(PODS, "ns", {}, DECODE, dry_run=True), "POST", f"{POD_PATH}?dryRun=All", JSON, {}),
    (lambda c: c.create(PODS, "ns", READ_ONLY, DECODE), "POST", POD_PATH, JSON, {"a": {"b": [1]}}),
    (
        lambda c: c.replace(PODS, "ns", "a", {"b": 1}, DECODE, subresource="status"),
        "PUT", f"{POD_PATH}/a/status", JSON, {"b": 1},
    ),
    (
        lambda c: c.patch(JOBS, "ns", "a", {"status": {"x": None}}, DECODE, subresource="status"),
        "PATCH", "/apis/kubeflow.org/v1/namespaces/ns/tfjobs/a/status", "application/merge-patch+json",
        {"status": {"x": None}},
    ),
    (
        lambda c: c.patch(PODS, "ns", "a", REMOVAL, DECODE, patch_type=PatchType.JSON),
        "PATCH", f"{POD_PATH}/a", "application/json-patch+json", REMOVAL,
    ),
    (
        lambda c: c.patch(PODS, "ns", "a", {}, DECODE, patch_type=PatchType.STRATEGIC),
        "PATCH", f"{POD_PATH}/a", "application/strategic-merge-patch+json", {},
    ),
    (lambda c: c.delete(PODS, "ns", "a"), "DELETE", f"{POD_PATH}/a", None, None),
    (
        lambda c: c.delete(
            PODS, "ns", "a", uid="u", resource_version="5", grace_period_seconds=0, propagation_policy="Background"
        ),
        "DELETE", f"{POD_PATH}/a", JSON,
        {
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u", "resourceVersion": "5"},
            "gracePeriodSeconds": 0, "propagationPolicy": "Background",
        },
    ),
    (
        lambda c: c.delete_collection(PODS, "ns", label_selector="job=a"),
        "DELETE", f"{POD_PATH}?labelSelector=job%3Da", None, None,
    ),
]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_one_request(serve: Serve, client_for: MakeClient, verb: Verb) -> None:
    do, method, target, content_type, body = verb
    server = serve(echo)
    answer = do(client_for(server.url))
    (request,) = server.requests
    assert (request.method, request.target, request.headers.get("content-type")) == (method, target, content_type)
    assert request.headers["accept"].split(",")[-1] == JSON
    if body is None:
        assert request.body == b""
    else:
        assert request.json == body
    if method != "DELETE":
        assert isinstance(answer, PartialObject)
        assert answer.metadata.resource_version == "5"


def test_without_a_name_or_selector_nothing_is_sent(serve: Serve, client_for: MakeClient) -> None:
    server = serve(echo)
    client = client_for(server.url)
    with pytest.raises(ValueError, match="needs a name"):
        client.delete(PODS, "ns", "")
    with pytest.raises(ValueError, match="refusing to delete"):
        client.delete_collection(PODS, "ns", label_selector="")
    with pytest.raises(ValueError, match="refusing to delete"):
        client.delete_collection(PODS, "", label_selector="a=b")
    assert server.requests == []


def test_a_list_comes_in_pages(serve: Serve, client_for: MakeClient) -> None:
    def handler(exchange: Exchange) -> None:
        if "continue=next%2B%2F" in exchange.target:
            exchange.respond(200, {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "c"}}]})
        else:
            meta = {"resourceVersion": "9", "continue": "next+/", "remainingItemCount": 1}
            exchange.respond(200, {"metadata": meta, "items": [{"metadata": {"name": n}} for n in "ab"]})

    server = serve(handler)
    client = client_for(server.url)
    selected = ListOptions(limit=2, label_selector="x in (y)", field_selector="spec.nodeName=n")
    first = client.list(PODS, "ns", DECODE, selected)
    assert [item.metadata.name for item in first.items] == ["a", "b"]
    assert (first.resource_version, first.continue_token, first.remaining_item_count) == ("9", "next+/", 1)
    second = client.list(PODS, "ns", DECODE, ListOptions(limit=2, continue_token=first.continue_token))
    assert [item.metadata.name for item in second.items] == ["c"]
    assert second.continue_token == ""
    assert server.requests[0].target == (
        "/api/v1/namespaces/ns/pods?labelSelector=x%20in%20%28y%29&fieldSelector=spec.nodeName%3Dn&limit=2"
    )


def test_an_item_is_decoded_from_bytes_of_its_own(client_for: MakeClient) -> None:
    seen: list[bytes] = []

    def keep(data: bytes) -> bytes:
        seen.append(data)
        return data

    items = [{"metadata": {"name": f"pod-{i}"}} for i in range(3)]
    client_for(lambda exchange: exchange.respond(200, {"metadata": {}, "items": items})).list(PODS, "", keep)
    assert [type(data) for data in seen] == [bytes] * 3
    assert [msgspec.json.decode(data) for data in seen] == items


@pytest.mark.parametrize("body", [{"metadata": {"resourceVersion": "1"}}, {"metadata": {}, "items": None}, {}])
def test_a_list_without_items_is_empty(client_for: MakeClient, body: Any) -> None:
    assert client_for(lambda exchange: exchange.respond(200, body)).list(PODS, "", DECODE).items == ()


def test_who_wants_metadata_alone_asks_for_that_alone(serve: Serve, client_for: MakeClient) -> None:
    deleted = b'{"type":"DELETED","object":{"metadata":{"name":"a","namespace":"ns"}}}\n'
    server = serve(lists_and_watches({"metadata": {}, "items": []}, watch=chunks(deleted)))
    client = client_for(server.url)
    client.list(PODS, "", decode_metadata)
    with client.watch(PODS, "", decode_metadata) as watch:
        assert [(event.type, event.object.metadata.key) for event in watch if event.object] == [("DELETED", "ns/a")]
    # Answers that nobody reads:
    client.create(PODS, "ns", {"metadata": {"name": "a"}}, decode_nothing)
    client.patch(PODS, "ns", "a", {"metadata": {"labels": {"a": "b"}}}, decode_nothing)
    client.delete(PODS, "ns", "a")
    client.create(PODS, "ns", {"metadata": {"name": "b"}}, DECODE)
    listed, watched, *others = [request.headers["accept"] for request in server.requests]
    alone = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    assert listed.startswith(alone.replace("Metadata;", "MetadataList;"))
    assert watched.startswith(alone)
    assert others == [*[f"{alone},{JSON}"] * 3, JSON]


def test_a_list_watch_keeps_its_selection(serve: Serve, client_for: MakeClient) -> None:
    server = serve(lists_and_watches({"items": []}))
    list_watch = client_for(server.url).list_watch(
        PODS, "ns", DECODE, Selection(label_selector="a=b", field_selector="c=d")
    )
    list_watch.list(ListOptions(resource_version="0", limit=500))
    since = {"resource_version": "7", "resource_version_match": "NotOlderThan", "send_initial_events": False}
    assert list(list_watch.watch(WatchOptions(timeout_seconds=400, **since))) == []
    prefix, selected = "/api/v1/namespaces/ns/pods?", "labelSelector=a%3Db&fieldSelector=c%3Dd"
    assert [request.target for request in server.requests] == [
        f"{prefix}{selected}&resourceVersion=0&limit=500",
        f"{prefix}watch=true&{selected}&resourceVersion=7&resourceVersionMatch=NotOlderThan&timeoutSeconds=400"
        "&allowWatchBookmarks=true&sendInitialEvents=false",
    ]


Ask = Callable[[ListWatch[PartialObject]], object]


@pytest.mark.parametrize(
    "ask", [lambda list_watch: list_watch.list(), lambda list_watch: list_watch.watch()], ids=["list", "watch"]
)
@pytest.mark.parametrize("how", ["silence", "come back later"])
def test_a_list_watch_is_cancelled_and_no_other(serve: Serve, client_for: MakeClient, ask: Ask, how: str) -> None:
    def handler(exchange: Exchange) -> None:
        if "/pods" not in exchange.target:
            echo(exchange)
        elif how == "silence":
            silent(exchange)
        else:
            exchange.status(429, "TooManyRequests", headers={"Retry_After": "30"})

    server = serve(handler)
    client = client_for(server.url)
    list_watch = client.list_watch(PODS, "ns", DECODE)
    asking = InThread(lambda: ask(list_watch))
    eventually(lambda: server.requests, what="the request")
    list_watch.cancel()
    with pytest.raises(ClientClosed):
        asking.result()
    with pytest.raises(ClientClosed):
        ask(list_watch)
    assert client.get(NAMESPACES, "", "a", DECODE).metadata.name == "a"


def test_closing_the_client_ends_its_list_watches(client_for: MakeClient) -> None:
    client = client_for(echo)
    before = client.list_watch(PODS, "ns", DECODE)
    client.close()
    after = client.list_watch(PODS, "ns", DECODE)
    for list_watch in (before, after):
        with pytest.raises(ClientClosed):
            list_watch.list()


def test_a_refusal_says_what_was_asked_and_what_the_server_answered(serve: Serve, client_for: MakeClient) -> None:
    cause = {"reason": "FieldValueInvalid", "message": "is bad", "field": "spec.x"}
    server = serve(lambda e: e.status(422, "Invalid", 'pods "a" is bad', details={"causes": [cause]}))
    with pytest.raises(InvalidError) as caught:
        client_for(server.url).create(PODS, "ns", {"metadata": {"name": "a"}}, DECODE)
    assert str(caught.value) == 'create pods ns/a: pods "a" is bad'
    assert caught.value.causes == caught.value.status.details.causes
    assert [cause.field for cause in caught.value.causes] == ["spec.x"]


@pytest.mark.parametrize(
    ("body", "media", "message"),
    [
        (b"<html>" + b"x" * 5000, "text/html", "502 Bad Gateway"),
        (b"upstream is away\nand more", "text/plain", "upstream is away"),
        (b"", "application/json", "502 Bad Gateway"),
        (b'{"status": "weird"}', "application/json", "502 Bad Gateway"),
        (b"[1]", "application/json", "502 Bad Gateway"),
        (b'{"message": "\xff"}', "application/json", "502 Bad Gateway"),
        (b'{"details":' + b"[" * 100_000, "application/json", "502 Bad Gateway"),
    ],
)
def test_an_error_that_is_not_from_an_api_server_is_readable_too(
    client_for: MakeClient, body: bytes, media: str, message: str
) -> None:
    with pytest.raises(ServerError) as caught:
        client_for(lambda exchange: exchange.respond(502, body, media=media)).delete(PODS, "ns", "a")
    assert str(caught.value) == f"delete pods ns/a: {message}"
    assert caught.value.code == 502


TOO_DEEP = b'{"a":' + nested() + b"}"


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"", b'{"metadata": 5}', TOO_DEEP])
def test_a_success_that_can_not_be_decoded_is_an_error(client_for: MakeClient, body: bytes) -> None:
    client = client_for(lambda exchange: exchange.respond(200, body))
    with pytest.raises(MalformedResponse, match="get pods ns/a: the answer can't be decoded"):
        client.get(PODS, "ns", "a", DECODE)
    if body is TOO_DEEP:
        return
    with pytest.raises(MalformedResponse, match="list pods in ns: the answer can't be decoded"):
        client.list(PODS, "ns", DECODE)
    client = client_for(lambda exchange: exchange.respond(200, {"items": [{"metadata": 5}]}))
    with pytest.raises(MalformedResponse, match="list pods: an item can't be decoded"):
        client.list(PODS, "", DECODE)


def test_a_redirect_is_not_followed(serve: Serve, client_for: MakeClient) -> None:
    server = serve(lambda exchange: exchange.respond(302, b"", Location="http://elsewhere.invalid/"))
    with pytest.raises(ApiError, match="302 Found"):
        client_for(server.url).get(PODS, "ns", "a", DECODE)
    assert len(server.requests) == 1


def test_who_we_are_and_whom_we_impersonate_goes_with_every_request(serve: Serve, client_for: MakeClient) -> None:
    server = serve(echo)
    headers = (("Impersonate-User", "jane"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
    config = {"credentials": StaticCredentials("Bearer t"), "headers": headers}
    client_for(server.url, config).get(PODS, "ns", "a", DECODE)
    assert b"metadata" in client_for(server.url, config, user_agent="me/1").get_raw("/version?verbose")
    first, second = server.requests
    assert second.target == "/version?verbose"
    assert first.headers["user-agent"].startswith("tfoperator/")
    assert second.headers["user-agent"] == "me/1"
    for request in (first, second):
        assert request.headers["authorization"] == "Bearer t"
        assert [value for name, value in request.header_lines if name == "Impersonate-Group"] == ["a", "b"]


def test_a_log_is_followed_and_can_be_closed(serve: Serve, client_for: MakeClient) -> None:
    server = serve(stalls(b"step 1\nst"))
    options = {"follow": True, "previous": True, "tail_lines": 0}
    log = client_for(server.url, request_timeout=1).pod_log("ns", "a", "tensorflow", **options)
    got: list[bytes] = []
    first = threading.Event()

    def read() -> None:
        for part in log:
            got.append(part)
            first.set()

    reading = InThread(read)
    assert first.wait(60)
    log.close()
    reading.result()
    assert got == [b"step 1\nst"]
    assert server.requests[0].target == (
        "/api/v1/namespaces/ns/pods/a/log?container=tensorflow&follow=true&previous=true&tailLines=0"
    )


def test_a_log_that_is_not_there_is_an_error(client_for: MakeClient) -> None:
    message = 'container "tensorflow" in pod "a" is waiting to start: ContainerCreating'
    client = client_for(lambda exchange: exchange.status(400, "BadRequest", message))
    with pytest.raises(ApiError, match=f"get pods/log ns/a: {message}"):
        client.pod_log("ns", "a")


def test_many_threads_write_at_once_and_nothing_is_lost_or_doubled(serve: Serve, client_for: MakeClient) -> None:
    lock = threading.Lock()
    stored: list[str] = []

    def handler(exchange: Exchange) -> None:
        name = exchange.json["metadata"]["name"]
        with lock:
            stored.append(name)
            cut = len(stored) % 10 == 0
        exchange.respond(201, {"metadata": {"name": name}})
        if cut:
            exchange.hang_up()  # as a server does that ends connections now and then

    server = serve(handler)
    client = client_for(server.url)
    lost: list[str] = []

    def work(worker: int) -> None:
        for number in range(25):
            name = f"{worker}-{number}"
            try:
                answer = client.create(PODS, "ns", {"metadata": {"name": name}}, DECODE)
                assert answer.metadata.name == name
            except TransportError:
                lost.append(name)

    run_at_once(*[partial(work, worker) for worker in range(8)])
    assert len(stored) == len(set(stored)), "a create was doubled"
    assert set(stored) | set(lost) == {f"{worker}-{number}" for worker in range(8) for number in range(25)}
    assert len(lost) < 20, "the ends of idle connections go unnoticed"
    assert server.connections < 60, "connections are not used again"
