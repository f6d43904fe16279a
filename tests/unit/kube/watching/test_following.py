import threading
import time
from contextlib import closing
from unittest.mock import Mock

import pytest

from tests.unit.kube.conftest import MakeClient, Serve
from tests.unit.kube.server import Exchange, chunks, lists_and_watches
from tfoperator.kube import Client, ForbiddenError
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.config.credentials import IssuedCredential, IssuedCredentials
from tfoperator.kube.protocol.errors import ConfigError, ServerError
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.views.objects import decode_pod
from tfoperator.kube.watching.following import Follower


def test_the_first_failure_is_told_at_once_and_watches_that_end_at_once_do_not_become_a_storm(
    serve: Serve, client_for: MakeClient
) -> None:
    server = serve(lambda exchange: exchange.status(500, "InternalError", "no"))
    with pytest.raises(ServerError):
        list(Follower(client_for(server.url), PODS, "ns", decode_pod))
    server = serve(lists_and_watches(watch=lambda exchange: exchange.status(403, "Forbidden", "no watching")))
    with pytest.raises(ForbiddenError, match="no watching"):
        list(Follower(client_for(server.url), PODS, "ns", decode_pod))
    server = serve(lists_and_watches())
    list(Follower(client_for(server.url), PODS, "ns", decode_pod, deadline=time.monotonic() + 1.2))
    assert 2 <= len(server.requests) <= 4


@pytest.mark.parametrize(("status", "reason"), [(403, "Forbidden"), (401, "Unauthorized")])
def test_a_server_that_has_just_started_and_does_not_know_its_roles_yet_ends_nothing(
    client_for: MakeClient, status: int, reason: str
) -> None:
    refused = iter([(503, "ServiceUnavailable"), (status, reason)])

    def watch(exchange: Exchange) -> None:
        code, why = next(refused, (200, ""))
        if code == 200:
            metadata = {"name": "a", "uid": "a", "resourceVersion": "2"}
            chunks({"type": "ADDED", "object": {"metadata": metadata}})(exchange)
        else:
            exchange.status(code, why, "not yet")

    follower = Follower(client_for(lists_and_watches(watch=watch)), PODS, "ns", decode_pod)
    with closing(iter(follower)) as changes:
        assert next(changes).object is None
        seen = next(changes).object
    assert seen is not None
    assert seen.metadata.name == "a"


def test_a_plugin_that_gives_no_credential_any_more_is_shown(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    credentials = IssuedCredentials(
        Mock(side_effect=[IssuedCredential("Bearer t"), *[ConfigError("log in again")] * 9])
    )
    server = serve(lists_and_watches(watch=lambda exchange: exchange.status(401, "Unauthorized", "expired")))
    with Client(ClusterConfig(server=server.url, credentials=credentials)) as client:
        follower = Follower(client, PODS, "ns", decode_pod)
        with closing(iter(follower)) as changes:
            assert next(changes).object is None
            closing_timer = threading.Timer(2.0, follower.close)
            closing_timer.start()
            assert list(changes) == []
            closing_timer.join()
    assert "log in again" in caplog.text


def test_a_long_list_is_read_page_by_page(client_for: MakeClient) -> None:
    def handle(exchange: Exchange) -> None:
        last = "continue=more" in exchange.target
        item = {"metadata": {"name": "b" if last else "a", "uid": "b" if last else "a", "resourceVersion": "1"}}
        meta = {"resourceVersion": "1"} if last else {"resourceVersion": "1", "continue": "more"}
        exchange.respond(200, {"metadata": meta, "items": [item]})

    follower = Follower(client_for(handle), PODS, "ns", decode_pod, deadline=time.monotonic())
    names = [change.object.metadata.name for change in follower if change.object is not None]
    assert names == ["a", "b"]
