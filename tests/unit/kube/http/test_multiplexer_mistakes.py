from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.support.eventually import eventually
from tests.support.threads import InThread
from tests.unit.kube.http.conftest import Creating
from tests.unit.kube.http.creations import chain, created, name_of, warm
from tests.unit.kube.http.test_session import Recorder
from tests.unit.kube.server import Exchange, silent
from tfoperator.kube.errors import TransportError


class NoThreads:
    """Threads whose names begin like this can't be started while it is patched in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
        start = threading.Thread.start

        def refuse(thread: threading.Thread) -> None:
            if thread.name.startswith(prefix):
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", refuse)


class Mistaken(Recorder):
    """An observer that fails when it is told of a request without an answer."""

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        if code == "<error>":
            raise RuntimeError("a mistake")


def test_what_nobody_has_thought_of_keeps_nobody_waiting(
    creating: Creating, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _, creator = creating(created)

    def broken(*_: object) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(creator.client._session, "begin", broken)
    ((error,),) = creator.create_chains([chain("a")])
    assert isinstance(error, TransportError)
    assert "a mistake" in str(error)
    assert "unexpected error" in caplog.text
    monkeypatch.undo()
    assert creator.create_chains([chain("a")]) == [[None]]


@pytest.mark.parametrize("where", ["_gather", "_begin_what_may"])
def test_a_mistake_while_requests_are_under_way_ends_them_and_nothing_else(
    where: str, creating: Creating, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, creator = creating(silent, warmed=True)
    multiplexer = creator.multiplexer
    waiting = InThread(lambda: creator.create_chains([chain("a", "b"), chain("c")]))
    eventually(lambda: len(server.requests) == 6, what="both requests are under way")

    def broken() -> None:
        monkeypatch.undo()
        raise RuntimeError("a mistake")

    monkeypatch.setattr(multiplexer, where, broken)
    multiplexer._ring()
    results = waiting.result()
    assert [type(one) for (one,) in results] == [TransportError] * 2
    assert "a mistake" in str(results[0][0])
    assert creator.create_chains([chain("warm-again")]) == [[None]]


def test_a_call_for_which_no_thread_can_be_started_fails_alone_and_is_never_made(
    creating: Creating, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_on = threading.Event()

    def handler(exchange: Exchange) -> None:
        assert not name_of(exchange).startswith("slow") or going_on.wait(60)
        created(exchange)

    server, creator = creating(handler, parallelism=8)
    warm(creator, 1)
    idle = creator.multiplexer._threads._idle_semaphore
    eventually(lambda: idle._value == 1, what="the only thread has come back from warming")
    waiting = InThread(lambda: creator.create_chains([chain("slow-1"), chain("slow-2")]))
    eventually(lambda: len(server.requests) == 3, what="the idle connection and the only thread are busy")
    with monkeypatch.context() as patch:
        NoThreads(patch, "api-call_")
        ((error,),) = creator.create_chains([chain("a", "b", "c")])
    assert isinstance(error, TransportError)
    assert "can't start new thread" in str(error)
    going_on.set()
    assert waiting.result() == [[None], [None]]
    InThread(creator.close).result()
    assert sorted(map(name_of, server.requests)) == ["slow-1", "slow-2", "warm-0"]


def test_without_a_thread_to_work_in_it_says_so_and_the_next_try_may_succeed(
    creating: Creating, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, creator = creating(created)
    with monkeypatch.context() as patch:
        NoThreads(patch, "api-calls")
        with pytest.raises(TransportError, match="can't start new thread"):
            creator.create_chains([chain("a")])
    assert InThread(lambda: creator.create_chains([chain("b")])).result() == [[None]]
    assert [name_of(one) for one in server.requests] == ["b"]


@pytest.mark.parametrize("ends", [Exchange.reset, silent])
def test_a_mistake_about_a_lost_answer_fails_that_call_alone(
    ends: Callable[[Exchange], None], creating: Creating
) -> None:
    released = threading.Event()

    def handler(exchange: Exchange) -> None:
        if name_of(exchange) == "bad":
            ends(exchange)
            released.set()
        else:
            assert name_of(exchange) != "slow" or released.wait(60)
            created(exchange)

    timeout = 2.0 if ends is silent else 60.0
    _, creator = creating(handler, observer=Mistaken(), request_timeout=timeout)
    warm(creator)
    calls = [chain("bad", "never"), *([] if ends is silent else [chain("slow")])]
    results = InThread(lambda: creator.create_chains(calls)).result()
    ((error,), *others) = results
    assert isinstance(error, TransportError)
    assert others == [[None]] * (len(calls) - 1)
    assert creator.create_chains([chain("again")]) == [[None]]
