import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.eventually import eventually_holds
from tests.support.jobs import write_kubeconfig
from tests.support.served import ServedWorld
from tests.support.tcp_proxy import TcpProxy
from tests.support.threads import InThread
from tests.unit.kube.conftest import MakeClient, Serve
from tests.unit.kube.server import Exchange, lists_and_watches
from tfoperator.api.v1.types import TFJOBS, decode_tfjob
from tfoperator.kube import Client, ForbiddenError, load_config
from tfoperator.kube.errors import ServerError
from tfoperator.kube.following import Follower


class Followed:
    """What a follower of the namespace's jobs reports, gathered in a thread."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.seen: list[tuple[str, str]] = []
        self.follower = Follower(client, TFJOBS, namespace, decode_tfjob)
        self._following = InThread(self._follow)

    def _follow(self) -> None:
        for change in self.follower:
            self.seen.append((change.type.value, change.object.metadata.name if change.object else ""))

    def until(self, *expected: tuple[str, str]) -> None:
        def same() -> None:
            assert self.seen == list(expected)

        eventually_holds(same)

    def end(self) -> None:
        self.follower.close()
        self._following.result()


@pytest.fixture
def proxied(world: ServedWorld, tmp_path: Path) -> Iterator[tuple[TcpProxy, Client]]:
    address = urlsplit(world.server.url)
    proxy = TcpProxy((str(address.hostname), int(address.port or 0)))
    config = world.server.kubeconfig()
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
    path = write_kubeconfig(tmp_path / "proxied", config, world.namespace)
    with Client(load_config(str(path))) as client:
        yield proxy, client
    proxy.close()


def test_first_what_is_there_then_what_changes_and_an_outage_is_caught_up_with(
    world: ServedWorld, proxied: tuple[TcpProxy, Client]
) -> None:
    proxy, client = proxied
    for name in ("stays", "changes", "goes"):
        world.submit(name)
    followed = Followed(client, world.namespace)
    before = [("ADDED", "changes"), ("ADDED", "goes"), ("ADDED", "stays"), ("BOOKMARK", "")]
    followed.until(*before)
    world.submit("new")
    world.becomes("Running", "new")
    world.sdk.delete_job("new")
    before += [("ADDED", "new"), ("MODIFIED", "new"), ("DELETED", "new")]
    followed.until(*before)
    proxy.cut()
    world.becomes("Running", "changes")
    world.sdk.delete_job("goes")
    world.server.compact()  # the watch can't be resumed: what has gone is only seen by comparing
    proxy.restore()
    followed.until(*before, ("DELETED", "goes"), ("MODIFIED", "changes"))
    followed.end()


def test_the_first_failure_is_told_at_once_and_watches_that_end_at_once_do_not_become_a_storm(
    serve: Serve, client_for: MakeClient
) -> None:
    server = serve(lambda exchange: exchange.status(500, "InternalError", "no"))
    with pytest.raises(ServerError):
        list(Follower(client_for(server.url), TFJOBS, "ns", decode_tfjob))
    server = serve(lists_and_watches(watch=lambda exchange: exchange.status(403, "Forbidden", "no watching")))
    with pytest.raises(ForbiddenError, match="no watching"):
        list(Follower(client_for(server.url), TFJOBS, "ns", decode_tfjob))
    server = serve(lists_and_watches())
    list(Follower(client_for(server.url), TFJOBS, "ns", decode_tfjob, deadline=time.monotonic() + 1.2))
    assert 2 <= len(server.requests) <= 4


def test_a_long_list_is_read_page_by_page(client_for: MakeClient) -> None:
    def handle(exchange: Exchange) -> None:
        last = "continue=more" in exchange.target
        item = {"metadata": {"name": "b" if last else "a", "uid": "b" if last else "a", "resourceVersion": "1"}}
        meta = {"resourceVersion": "1"} if last else {"resourceVersion": "1", "continue": "more"}
        exchange.respond(200, {"metadata": meta, "items": [item]})

    follower = Follower(client_for(handle), TFJOBS, "ns", decode_tfjob, deadline=time.monotonic())
    names = [change.object.metadata.name for change in follower if change.object is not None]
    assert names == ["a", "b"]
