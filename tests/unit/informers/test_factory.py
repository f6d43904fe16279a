from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.unit.informers.support import Server, View
from tfoperator.informers import SharedInformerFactory
from tfoperator.kube import EVERYTHING, Selection
from tfoperator.kube.protocol.resources import NAMESPACES, PODS, SERVICES, Resource
from tfoperator.kube.protocol.verbs import decoder
from tfoperator.kube.views.objects import Pod, Service

DECODE_POD = decoder(Pod)
DECODE_SERVICE = decoder(Service)


class Client:
    """As much of a client as a factory needs: it hands out one server per selection."""

    def __init__(self) -> None:
        self.servers: dict[tuple[str, str, str, str], Server] = {}

    def list_watch(self, resource: Resource, namespace: str, decode: Any, selection: Selection = EVERYTHING) -> Server:
        watched = (resource.plural, namespace, selection.label_selector, selection.field_selector)
        assert watched not in self.servers, "the collection is watched twice"
        return self.servers.setdefault(watched, Server())


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def factory(client: Client) -> Iterator[SharedInformerFactory]:
    factory = SharedInformerFactory(client, clock=FakeClock())  # type: ignore[arg-type]
    yield factory
    assert factory.stop(60)


def test_one_collection_has_one_informer(factory: SharedInformerFactory, client: Client) -> None:
    factory.informer(PODS, DECODE_POD, selection=Selection(label_selector="app=x"))
    with pytest.raises(ValueError, match="informers of pods with this selection already exist"):
        factory.informer(PODS, DECODE_POD, selection=Selection(label_selector="app=x"))
    factory.informer(PODS, DECODE_POD, selection=Selection(label_selector="app=y"))
    factory.informer(SERVICES, DECODE_SERVICE, selection=Selection(label_selector="app=x"))
    watched = [("pods", "", "app=x", ""), ("pods", "", "app=y", ""), ("services", "", "app=x", "")]
    assert sorted(client.servers) == watched


def test_start_starts_what_has_not_been_started(factory: SharedInformerFactory, client: Client) -> None:
    pods = factory.informer(PODS, DECODE_POD)
    factory.start()
    services = factory.informer(SERVICES, DECODE_SERVICE)
    assert not services.informers[0].started
    assert factory.wait_for_sync(0) is False
    factory.start()
    assert factory.wait_for_sync(5)
    assert pods.has_synced
    assert services.has_synced
    assert client.servers[("pods", "", "", "")].api.count("watch") == 1


def test_each_namespace_gets_a_watch_of_its_own_and_what_has_none_is_watched_once(client: Client) -> None:
    factory = SharedInformerFactory(client, namespaces=("n1", "n2", "n1"), clock=FakeClock())  # type: ignore[arg-type]
    pods = factory.informer(PODS, DECODE_POD)
    factory.informer(NAMESPACES, decoder(View))
    assert [informer.name for informer in pods.informers] == ["pods/n1", "pods/n2"]
    assert sorted(client.servers) == [("namespaces", "", "", ""), ("pods", "n1", "", ""), ("pods", "n2", "", "")]
    factory.start()
    assert factory.wait_for_sync(5)
    assert factory.stop(60)


@pytest.mark.parametrize("namespaces", [(), ("", "n1")])
def test_namespaces_that_make_no_sense_are_refused(client: Client, namespaces: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="namespaces"):
        SharedInformerFactory(client, namespaces=namespaces)  # type: ignore[arg-type]


def test_a_failed_informer_shows_in_the_factory(factory: SharedInformerFactory, client: Client) -> None:
    factory.informer(PODS, DECODE_POD, indexers={"broken": lambda obj: [obj.metadata.labels["absent"]]})
    factory.start()
    assert factory.failure is None
    client.servers[("pods", "", "", "")].put("a")
    eventually(lambda: factory.failure)
