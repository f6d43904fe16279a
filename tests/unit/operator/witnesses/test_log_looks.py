import threading
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.clock import FakeClock
from tests.support.fake_api import api_error
from tests.unit.kube.server import Exchange, ScriptedServer
from tests.unit.logs.archive.samples import JOB, pod
from tfoperator.kube.client import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.errors import TransportError
from tfoperator.kube.objects import Pod
from tfoperator.operator.witnesses.log_looks import LogLooker, Seen, newest_line_from, parse_stamp

START = datetime(2026, 1, 1, tzinfo=UTC)
PODS = [pod(0), pod(1), pod(2)]


class Logs:
    """The newest line of each pod, in seconds after START, or what its node answers."""

    def __init__(self, *newest: float | Exception | None) -> None:
        self.newest = list(newest)
        self.asked: list[str] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, of: Pod) -> Seen:
        assert self.gate.wait(30)
        self.asked.append(of.metadata.name)
        told = self.newest[PODS.index(of)]
        if isinstance(told, Exception):
            raise told
        return Seen(None if told is None else START + timedelta(seconds=told))


def look(logs: Logs, newer_than: float = 0) -> LogLooker:
    """Have the logs looked at once, and wait for that and for the threads."""
    looker, done = LogLooker(logs, clock=FakeClock(START)), threading.Event()
    looker.look(JOB, PODS, START + timedelta(seconds=newer_than), done.set)
    assert done.wait(30)
    looker.close()
    return looker


def test_a_look_ends_with_the_first_line_that_is_new_and_without_news_all_are_looked_at() -> None:
    logs = Logs(-5, -1, -2)
    known = look(logs, newer_than=-3).known(JOB.uid)
    assert logs.asked == ["mnist-worker-0", "mnist-worker-1"]
    assert known.looked == START
    assert sorted(known.newest) == sorted(one.metadata.uid for one in PODS[:2])
    quiet = Logs(TransportError("node is gone"), None, -5)
    known = look(quiet).known(JOB.uid)
    assert (len(quiet.asked), known.newest[PODS[1].metadata.uid].stamp, known.problem) == (3, None, "")


def test_without_the_right_it_says_so_and_asks_for_no_other_pod() -> None:
    logs = Logs(api_error(403), 0, 0)
    looker = look(logs)
    assert len(logs.asked) == 1
    assert "pods/log" in looker.known(JOB.uid).problem


def test_a_look_that_is_under_way_is_not_begun_again() -> None:
    logs = Logs(-5, -5, -5)
    logs.gate.clear()
    looker, done = LogLooker(logs, clock=FakeClock(START)), threading.Event()
    for _ in range(2):
        looker.look(JOB, PODS, START, done.set)
    logs.gate.set()
    assert done.wait(30)
    looker.close()
    assert len(logs.asked) == 3


def test_a_job_that_is_gone_is_forgotten_and_a_closed_looker_looks_no_more() -> None:
    logs = Logs(-5, -5, -5)
    looker = look(logs)
    looker.forget(JOB.uid)
    assert looker.known(JOB.uid).looked is None
    looker.look(JOB, PODS, START, lambda: None)
    assert len(logs.asked) == 3


def test_one_line_with_its_time_is_asked_of_the_api_server() -> None:
    targets: list[str] = []

    def answer(exchange: Exchange) -> None:
        targets.append(exchange.target)
        exchange.respond(200, b"2026-01-01T00:00:05.123456789Z " + b"x" * 100_000, media="text/plain")

    with ScriptedServer(answer) as server, Client(ClusterConfig(server=server.url)) as client:
        seen = newest_line_from(client)(PODS[0])
    assert seen.written == START + timedelta(seconds=5, microseconds=123456)
    assert [option in targets[0] for option in ("tailLines=1", "timestamps=true")] == [True] * 2


@pytest.mark.parametrize("line", [b"", b"no time", b"2026-01-01T00:00:00 naive", b"\xff\xfe", b"9" * 64])
def test_what_has_no_time_is_no_line(line: bytes) -> None:
    assert parse_stamp(line) is None


def test_what_a_look_finds_of_a_job_that_is_gone_meanwhile_is_not_kept() -> None:
    began, gate = threading.Event(), threading.Event()

    def slow(_: Pod) -> Seen:
        began.set()
        assert gate.wait(30)
        return Seen(START)

    looker = LogLooker(slow, clock=FakeClock(START))
    looker.look(JOB, PODS, START, lambda: None)
    assert began.wait(30)
    looker.forget(JOB.uid)
    gate.set()
    looker.close(30)  # which waits for the look
    assert not looker._known
