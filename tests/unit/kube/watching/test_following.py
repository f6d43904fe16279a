import time

import pytest

from tests.unit.kube.conftest import MakeClient, Serve
from tests.unit.kube.server import Exchange, lists_and_watches
from tfoperator.kube import ForbiddenError
from tfoperator.kube.protocol.errors import ServerError
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


def test_a_long_list_is_read_page_by_page(client_for: MakeClient) -> None:
    def handle(exchange: Exchange) -> None:
        last = "continue=more" in exchange.target
        item = {"metadata": {"name": "b" if last else "a", "uid": "b" if last else "a", "resourceVersion": "1"}}
        meta = {"resourceVersion": "1"} if last else {"resourceVersion": "1", "continue": "more"}
        exchange.respond(200, {"metadata": meta, "items": [item]})

    follower = Follower(client_for(handle), PODS, "ns", decode_pod, deadline=time.monotonic())
    names = [change.object.metadata.name for change in follower if change.object is not None]
    assert names == ["a", "b"]
