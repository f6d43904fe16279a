from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hack.faults.injection.clock import Origin, ScaledClock
from hack.faults.injection.injector import EventFault, FaultInjector, Request, RequestFault
from hack.faults.injection.proxy import FaultProxy, parse_request
from tests.support.cluster import decode, tfjob
from tests.support.eventually import eventually
from tests.support.jobs import JobWorld
from tests.support.served import Served, served
from tests.support.threads import no_threads_left
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube import ListOptions, WatchOptions
from tfoperator.kube.client import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.protocol.errors import (
    ApiError,
    ConflictError,
    ConnectionRefused,
    GoneError,
    KubeError,
    MalformedResponse,
    ServerError,
    TooManyRequestsError,
    TransportError,
)
from tfoperator.kube.protocol.verbs import WatchEvent

__all__ = ["served"]


class Behind:
    """A client that reaches the embedded server through the proxy."""

    def __init__(self, proxy: FaultProxy, client: Client, world: JobWorld) -> None:
        self.proxy, self.client, self.world = proxy, client, world

    def list(self, version: str = "") -> list[str]:
        page = self.client.list(TFJOBS, self.world.namespace, decode, ListOptions(resource_version=version))
        return sorted(item["metadata"]["name"] for item in page.items)

    def create(self, name: str) -> Any:
        return self.client.create(TFJOBS, self.world.namespace, tfjob(name, Worker=1), decode)

    def there(self) -> list[str]:
        page = self.world.client.list(TFJOBS, self.world.namespace, decode)
        return sorted(item["metadata"]["name"] for item in page.items)

    @contextmanager
    def watch(self) -> Iterator[Iterator[WatchEvent[Any]]]:
        version = self.world.client.list(TFJOBS, self.world.namespace, decode).resource_version
        with self.client.watch(TFJOBS, self.world.namespace, decode, WatchOptions(resource_version=version)) as stream:
            yield iter(stream)


@contextmanager
def behind(served: Served, injector: FaultInjector) -> Iterator[Behind]:
    server = served.server
    with (
        no_threads_left(),
        FaultProxy(server.url, server.token, injector, certificate=server.certificate) as proxy,
        # A clock on which a Retry-After of seconds is over at once.
        Client(
            ClusterConfig(server=proxy.url), request_timeout=60, clock=ScaledClock(Origin.here(1000.0, 1.0))
        ) as client,
    ):
        yield Behind(proxy, client, JobWorld(served.api))


def always(fault: RequestFault) -> FaultInjector:
    return FaultInjector("test", {fault: 1.0}, {})


def on_events(fault: EventFault) -> FaultInjector:
    return FaultInjector("test", {}, {fault: 1.0})


@pytest.mark.parametrize(
    ("fault", "error", "processed"),
    [
        (RequestFault.CONFLICT, ConflictError, False),
        (RequestFault.TOO_MANY, TooManyRequestsError, False),
        (RequestFault.INTERNAL, ServerError, False),
        (RequestFault.UNAVAILABLE, ServerError, False),
        (RequestFault.DROP_BEFORE, TransportError, False),
        (RequestFault.DROP_AFTER, TransportError, True),
        (RequestFault.INTERNAL_AFTER, ServerError, True),
        (RequestFault.TIMEOUT_AFTER, ApiError, True),
        (RequestFault.TRUNCATE, TransportError, True),
    ],
)
def test_a_write_that_is_refused_does_not_reach_the_server_and_one_whose_answer_is_lost_does(
    served: Served, fault: RequestFault, error: type[KubeError], processed: bool
) -> None:
    injector = always(fault)
    with behind(served, injector) as there:
        with pytest.raises(error):
            there.create("a")
        assert there.there() == ["a"] * processed
        injector.stop()
        there.create("b")


def test_an_expired_list_and_a_delay(served: Served) -> None:
    with behind(served, always(RequestFault.GONE)) as there, pytest.raises(GoneError):
        there.list()
    with behind(served, always(RequestFault.DELAY)) as there:
        assert there.list() == []


def test_a_stale_list_is_served_only_to_who_does_not_ask_for_the_newest(served: Served) -> None:
    with behind(served, always(RequestFault.STALE)) as there:
        assert there.list() == []
        newest = there.create("a")["metadata"]["resourceVersion"]
        assert there.list() == ["a"]
        assert there.list(version="0") == []
        assert there.list(version=newest) == ["a"]


@pytest.mark.parametrize(
    ("fault", "error", "code"),
    [
        (EventFault.TRUNCATE, TransportError, None),
        (EventFault.GARBAGE, MalformedResponse, None),
        (EventFault.ABORT, TransportError, None),
        (EventFault.GONE, ApiError, 410),
        (EventFault.INTERNAL, ApiError, 500),
        (EventFault.TOO_MANY, ApiError, 429),
    ],
)
def test_a_watch_that_breaks(served: Served, fault: EventFault, error: type[KubeError], code: int | None) -> None:
    with behind(served, on_events(fault)) as there, there.watch() as events:
        there.create("a")
        with pytest.raises(error) as caught:
            list(events)
        assert getattr(caught.value, "code", None) == code


def test_a_watch_that_is_closed_has_shown_the_event_and_one_that_is_closed_from_outside_ends_cleanly(
    served: Served,
) -> None:
    with behind(served, on_events(EventFault.CLOSE)) as there, there.watch() as events:
        there.create("a")
        there.create("b")
        assert [event.object["metadata"]["name"] for event in events] == ["a"]
    with behind(served, FaultInjector("test", {}, {})) as there, there.watch() as events:
        there.create("c")
        next(events)
        there.proxy.close_watches()
        assert list(events) == []


@pytest.mark.parametrize("fault", [EventFault.DELAY, EventFault.SILENCE])
def test_a_late_event_comes(served: Served, fault: EventFault) -> None:
    with behind(served, on_events(fault)) as there, there.watch() as events:
        there.create("a")
        assert next(events).object["metadata"]["name"] == "a"


def test_a_lost_event_is_lost_and_the_watch_goes_on(served: Served) -> None:
    injector = on_events(EventFault.LOSE)
    with behind(served, injector) as there, there.watch() as events:
        there.create("a")
        eventually(lambda: injector.injected["event lose"] == 1, what="the event is lost")
        injector.stop()
        there.create("b")
        assert next(events).object["metadata"]["name"] == "b"


def test_a_cut_network_refuses_and_ends_watches_until_it_is_restored(served: Served) -> None:
    with behind(served, FaultInjector("test", {}, {})) as there, there.watch() as events:
        there.proxy.cut()
        with pytest.raises(TransportError):
            next(events)
        with pytest.raises(ConnectionRefused):
            there.create("a")
        there.proxy.restore()
        there.create("a")
        assert there.there() == ["a"]


def test_an_old_server_does_not_know_watch_list(served: Served) -> None:
    options = WatchOptions(resource_version_match="NotOlderThan", send_initial_events=True)
    with behind(served, FaultInjector("test", {}, {}, no_watch_list=True)) as there, pytest.raises(ApiError) as caught:
        there.client.watch(TFJOBS, there.world.namespace, decode, options)
    assert caught.value.code == 422


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        ("/api/v1/namespaces/ns/pods", "watch=true", Request("GET", "pods", watch=True)),
        ("/api/v1/pods", "limit=500", Request("GET", "pods")),
        ("/api/v1/namespaces/ns", "", Request("GET", "namespaces", "ns")),
        ("/apis/kubeflow.org/v1/namespaces/ns/tfjobs/a/status", "", Request("GET", "tfjobs", "a", "status")),
        ("/version", "", Request("GET", "")),
    ],
)
def test_what_a_path_means(path: str, query: str, expected: Request) -> None:
    assert parse_request("GET", path, query) == expected


def faults(injector: FaultInjector, count: int = 200) -> list[str]:
    request = Request("GET", "pods")
    decide: Callable[[], Any] = lambda: injector.on_request(request)  # noqa: E731
    return [fault.kind if (fault := decide()) else "" for _ in range(count)]


def test_faults_depend_on_the_seed_and_the_requests_alone() -> None:
    chances = {RequestFault.DROP_BEFORE: 0.2, RequestFault.STALE: 0.2}
    first = faults(FaultInjector("a", chances, {}))
    assert first == faults(FaultInjector("a", chances, {}))
    assert first != faults(FaultInjector("b", chances, {}))
    assert set(first) == {"", "drop-before", "stale"}


def test_requests_get_no_fault_that_makes_no_sense() -> None:
    for fault in (RequestFault.CONFLICT, RequestFault.INTERNAL_AFTER, RequestFault.TIMEOUT_AFTER):
        assert always(fault).on_request(Request("GET", "pods")) is None
    for fault in (RequestFault.GONE, RequestFault.STALE):
        assert always(fault).on_request(Request("POST", "pods")) is None
        assert always(fault).on_request(Request("GET", "pods", "one")) is None
