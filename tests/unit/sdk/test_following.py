"""A follower of `tfoperator.kube.watching.following` on the embedded API server, through an outage."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.eventually import eventually_holds
from tests.support.jobs import write_kubeconfig
from tests.support.served import ServedWorld
from tests.support.tcp_proxy import TcpProxy
from tests.support.threads import InThread
from tfoperator.api.v1.types import TFJOBS, decode_tfjob
from tfoperator.kube import Client, load_config
from tfoperator.kube.watching.following import Follower


class Followed:
    """The reports of a follower of the namespace's jobs, gathered in a thread."""

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
