import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.clock import FakeClock
from tests.support.fake_api import api_error
from tests.unit.kube.server import Exchange, ScriptedServer
from tests.unit.logs.archive.samples import JOB, pod
from tfoperator.controller.plan.values.observed import LogLines
from tfoperator.kube.client import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.protocol.errors import TransportError
from tfoperator.kube.views.objects import ObjectMeta, Pod
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
        newest = self.newest[PODS.index(of)]
        if isinstance(newest, Exception):
            raise newest
        return Seen(None if newest is None else START + timedelta(seconds=newest))


def look(logs: Logs, newer_than: float = 0) -> LogLooker:
    """Have the logs looked at once, and wait for that and for the threads."""
    looker, done = LogLooker(logs, clock=FakeClock(START)), threading.Event()
    looker.look(JOB, PODS, START + timedelta(seconds=newer_than), done.set)
    assert done.wait(30)
    looker.close()
    return looker


def test_a_look_ends_with_the_first_line_that_is_new_and_without_news_all_are_looked_at() -> None:
    logs = Logs(-5, -1, -2)
    log_look = look(logs, newer_than=-3).known(JOB.uid)
    assert logs.asked == ["mnist-worker-0", "mnist-worker-1"]
    assert log_look.looked == START
    assert sorted(log_look.newest) == sorted(looked_pod.metadata.uid for looked_pod in PODS[:2])
    quiet = Logs(TransportError("node is gone"), None, -5)
    log_look = look(quiet).known(JOB.uid)
    assert (len(quiet.asked), log_look.newest[PODS[1].metadata.uid].stamp, log_look.problem) == (3, None, "")


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


def of_namespace(namespace: str, number: int) -> tuple[ObjectMeta, Pod]:
    """A job of a namespace, and its only pod, which is silent."""
    job = ObjectMeta(name=f"job-{number}", namespace=namespace, uid=f"{namespace}-{number}")
    meta = ObjectMeta(name=f"job-{number}-worker-0", namespace=namespace, uid=f"{namespace}-{number}-pod")
    return job, Pod(metadata=meta)


class Asked:
    """Notes the namespaces of the pods that are asked for a line, and answers with what it is given."""

    def __init__(self, answer: Exception | None = None) -> None:
        self.namespaces: list[str] = []
        self.answer = answer

    def __call__(self, pod: Pod) -> Seen:
        self.namespaces.append(pod.metadata.namespace)
        if self.answer is not None:
            raise self.answer
        return Seen(None)


def look_once(looker: LogLooker, job: ObjectMeta, pod: Pod) -> LogLines:
    """Have the logs of a job looked at, and wait for that."""
    done = threading.Event()
    looker.look(job, [pod], START, done.set)
    assert done.wait(30)
    return looker.known(job.uid)


def test_a_refusal_holds_for_all_jobs_of_its_namespace_for_five_minutes() -> None:
    clock, asked = FakeClock(START), Asked(api_error(403))
    looker = LogLooker(asked, clock=clock)
    for number in range(100):
        log_look = look_once(looker, *of_namespace("team-a", number))
        assert "pods/log" in log_look.problem
        assert log_look.looked == clock.now(), "for the plan that was a look"
    assert asked.namespaces == ["team-a"]
    look_once(looker, *of_namespace("team-b", 0))
    assert asked.namespaces == ["team-a", "team-b"]
    clock.advance(299)
    look_once(looker, *of_namespace("team-a", 0))
    assert len(asked.namespaces) == 2
    clock.advance(1)
    asked.answer = None
    assert not look_once(looker, *of_namespace("team-a", 0)).problem, "the right was granted"
    assert not look_once(looker, *of_namespace("team-a", 1)).problem
    assert asked.namespaces[2:] == ["team-a", "team-a"]
    looker.close()


def test_the_requests_of_the_whole_process_are_bounded_in_a_second() -> None:
    clock, asked, done = FakeClock(START), Asked(), threading.Semaphore(0)
    looker = LogLooker(asked, clock=clock)
    for number in range(100):
        job, pod = of_namespace(f"team-{number % 3}", number)
        looker.look(job, [pod], START, done.release)
    for _ in range(40):
        assert done.acquire(timeout=30)
    clock.wait_for_waiters(4)
    assert len(asked.namespaces) == 40
    for second in (1, 2):
        clock.advance(1)
        for _ in range(4):
            assert done.acquire(timeout=30)
        # Each thread asks once when its time has come, and then waits for its next turn.
        clock.wait_for_waiters(4)
        assert 40 < len(asked.namespaces) <= 40 + 20 * second
    looker.close(30)
    assert len(asked.namespaces) <= 80


def test_a_namespace_with_many_silent_jobs_does_not_delay_the_one_job_of_another() -> None:
    began, gate, asked = threading.Barrier(5), threading.Event(), Asked()

    def slow(pod: Pod) -> Seen:
        seen = asked(pod)
        if not gate.is_set():
            began.wait(30)
            assert gate.wait(30)
        return seen

    looker, done = LogLooker(slow, clock=FakeClock(START)), threading.Semaphore(0)
    for number in range(30):
        job, pod = of_namespace("many", number)
        looker.look(job, [pod], START, done.release)
    began.wait(30)  # its first looks are under way, and keep all threads
    job, pod = of_namespace("one", 0)
    looker.look(job, [pod], START, done.release)
    gate.set()
    for _ in range(31):
        assert done.acquire(timeout=30)
    looker.close()
    assert asked.namespaces.index("one") <= 4 + 4, "after those under way, and one turn of each thread"


def test_a_looker_that_waits_for_its_turn_can_be_closed_at_once() -> None:
    clock, asked = FakeClock(START), Asked()
    looker = LogLooker(asked, clock=clock)
    for number in range(60):
        job, pod = of_namespace("team", number)
        looker.look(job, [pod], START, lambda: None)
    clock.wait_for_waiters(4)
    began = time.monotonic()
    looker.close(60)
    assert time.monotonic() - began < 30, "it waited for looks that will never begin"
    assert len(asked.namespaces) == 40
