import threading

import pytest

from tests.support.threads import InThread
from tests.unit.kube.conftest import MakeClient, Serve
from tests.unit.kube.http.sending.test_session import Recorder
from tests.unit.kube.server import Exchange
from tfoperator.kube.protocol.errors import ClientClosed, ConflictError, MalformedResponse, NotFoundError
from tfoperator.kube.protocol.resources import PODS, SERVICES
from tfoperator.kube.protocol.verbs import Creation, Deletion, Lookup, Modification, PatchType, Warned
from tfoperator.kube.views.objects import ObjectMeta, decode_nothing

BODY = {"metadata": {"name": "a"}}


def respond(exchange: Exchange) -> None:
    exchange.respond(200, b'{"metadata": {"name": "a", "uid": "u"}}')


@pytest.mark.parametrize("chains", [1, 3])
def test_it_sends_what_single_requests_send(chains: int, serve: Serve, client_for: MakeClient) -> None:
    server = serve(respond)
    client = client_for(server.url)
    client.create(SERVICES, "ns", BODY, decode_nothing)
    client.patch(PODS, "ns", "a", BODY, decode_nothing, patch_type=PatchType.STRATEGIC, subresource="status")
    client.delete(PODS, "ns", "a", uid="u", resource_version="7", grace_period_seconds=0, propagation_policy="Orphan")
    client.delete(PODS, "ns", "a")
    single = [(request.method, request.target, request.body, request.header_lines) for request in server.requests]
    server.requests.clear()
    change = Modification(PODS, "ns", "a", BODY, PatchType.STRATEGIC, "status")
    deletions = [Deletion(PODS, "ns", "a", "u", "7", 0, "Orphan"), Deletion(PODS, "ns", "a")]
    chain = [Creation(SERVICES, "ns", BODY), change, *deletions]
    assert client.send([chain] * chains) == [[None] * 4] * chains
    sent = [(request.method, request.target, request.body, request.header_lines) for request in server.requests]
    assert sorted(map(str, sent)) == sorted(map(str, single * chains))


def test_a_lone_chain_is_sent_by_the_callers_own_thread(client_for: MakeClient) -> None:
    threads: list[str] = []

    class Threads(Recorder):
        def request(self, *_: object) -> None:
            threads.append(threading.current_thread().name)

    client = client_for(respond, observer=Threads())
    creation = Creation(PODS, "ns", BODY)
    assert client.send([[creation, creation]]) == [[None, None]]
    assert threads == [threading.current_thread().name] * 2
    assert client.send([[creation], [creation]]) == [[None], [None]]
    assert threading.current_thread().name not in threads[2:]


@pytest.mark.parametrize("chains", [1, 2])
def test_a_chain_ends_with_its_first_failure_and_no_other(chains: int, serve: Serve, client_for: MakeClient) -> None:
    def handler(exchange: Exchange) -> None:
        if exchange.method == "DELETE":
            exchange.status(409, "Conflict", "another one")
        else:
            respond(exchange)

    server = serve(handler)
    change = Modification(PODS, "ns", "a", BODY)
    fails = [change, Deletion(PODS, "ns", "a", "u"), Creation(PODS, "ns", BODY)]
    (changed, error), *others = client_for(server.url).send([fails, *[[change, change]] * (chains - 1)])
    assert changed is None
    assert isinstance(error, ConflictError)
    assert str(error) == "delete pods ns/a: another one"
    assert others == [[None, None]] * (chains - 1)
    assert {request.method for request in server.requests} == {"PATCH", "DELETE"}


@pytest.mark.parametrize("chains", [1, 2])
def test_a_lookup_tells_what_is_there_and_what_is_not(chains: int, client_for: MakeClient) -> None:
    def handler(exchange: Exchange) -> None:
        if exchange.target.endswith("/gone"):
            exchange.status(404, "NotFound", "gone")
        elif exchange.target.endswith("/odd"):
            exchange.respond(200, b"[]")
        else:
            respond(exchange)

    client = client_for(handler)
    for name, expected in (("a", ObjectMeta), ("gone", NotFoundError), ("odd", MalformedResponse)):
        for answers in client.send([[Lookup(PODS, "ns", name)]] * chains):
            assert [type(answer) for answer in answers] == [expected]


def test_closing_the_client_ends_what_it_sends_together_and_takes_no_more(client_for: MakeClient) -> None:
    came, going_on = threading.Semaphore(0), threading.Event()

    def handler(exchange: Exchange) -> None:
        came.release()
        assert going_on.wait(60)
        respond(exchange)

    client = client_for(handler)
    chains = [[Creation(PODS, "ns", BODY)]] * 2
    waiting = InThread(lambda: client.send(chains))
    try:
        assert came.acquire(timeout=60)
        assert came.acquire(timeout=60)
        client.close()
        assert [type(result) for (result,) in waiting.result()] == [ClientClosed] * 2
    finally:
        going_on.set()
    for number in (1, 2):
        assert [type(result) for (result,) in client.send(chains[:number])] == [ClientClosed] * number


def test_nothing_is_nothing_and_there_is_room_for_one_chain(serve: Serve, client_for: MakeClient) -> None:
    url = serve(respond).url
    assert client_for(url).send([]) == []
    with pytest.raises(ValueError, match="parallelism"):
        client_for(url, parallelism=0)


def test_warnings_of_the_server_come_with_the_answer_to_a_write(serve: Serve, client_for: MakeClient) -> None:
    lines = (
        b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
        b'Warning: 299 - "unknown field \\"spec.a\\""\r\nwarning: 299 host "second, with a comma" "a date"\r\n'
        b"Warning: no code\r\n\r\n{}"
    )
    client = client_for(serve(lambda exchange: exchange.send(lines)).url)
    creation = Creation(PODS, "ns", BODY)
    warned = Warned(('unknown field "spec.a"', "second, with a comma"))
    for chains in (1, 2):
        assert client.send([[creation]] * chains) == [[warned]] * chains
