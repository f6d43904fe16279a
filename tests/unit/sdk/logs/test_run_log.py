"""Logs whose connection breaks, or whose server ends the answer though the container runs on."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.kube.server import Exchange, ScriptedServer
from tfoperator.base.clock import SystemClock
from tfoperator.kube import Client, KubeError, ObjectMeta, Pod
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.sdk.logs.pod_logs import LogOptions
from tfoperator.sdk.logs.run_log import ContainerRun, RunLogReader

RUNNING: dict[str, Any] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
ENDED: dict[str, Any] = {"terminated": {"exitCode": 0}}
STARTED = datetime.now(UTC) - timedelta(seconds=1)


class Kubelet:
    """Has a log whose lines are a millisecond apart, and answers each request for it by the next script.

    A script is how much of the log is written by then, how many bytes at its end the answer lacks, and whether it
    ends in order. After the last script the container has ended, and the whole log is there; `restarts` is how often it
    has been started again.
    """

    def __init__(self, log: str, *scripts: tuple[int, int, bool], timed: bool = True, restarts: int = 0) -> None:
        self.queries: list[dict[str, str]] = []
        self._log = log.encode().splitlines(keepends=True)
        self._scripts = list(scripts)
        self._timed = timed
        self._restarts = restarts

    def __call__(self, exchange: Exchange) -> None:
        url = urlsplit(exchange.target)
        if not url.path.endswith("/log"):
            state = RUNNING if self._scripts or self._restarts else ENDED
            statuses = [{"name": "tensorflow", "restartCount": self._restarts, "state": state}]
            meta = {"name": "p", "namespace": "ns", "uid": "u"}
            exchange.respond(200, {"metadata": meta, "status": {"containerStatuses": statuses}})
            return
        self.queries.append({name: values[0] for name, values in parse_qs(url.query).items()})
        written, missing, in_order = self._scripts.pop(0) if self._scripts else (len(self._log), 0, True)
        data = self._answer(self.queries[-1], written)
        exchange.begin_chunks()
        exchange.chunk(data[: len(data) - missing])
        if in_order:
            exchange.end_chunks()
        else:
            exchange.hang_up()

    def _answer(self, query: dict[str, str], written: int) -> bytes:
        lines = [(STARTED + timedelta(milliseconds=n), line) for n, line in enumerate(self._log[:written])]
        if self._timed and "sinceTime" in query:
            lines = [line for line in lines if line[0] >= datetime.fromisoformat(query["sinceTime"])]
        if self._timed and "sinceSeconds" in query:
            since = datetime.now(UTC) - timedelta(seconds=int(query["sinceSeconds"]))
            lines = [line for line in lines if line[0] >= since]
        if "tailLines" in query:
            lines = lines[-int(query["tailLines"]) :]
        timed = self._timed and query.get("timestamps") == "true"
        stamped = [f"{when:%Y-%m-%dT%H:%M:%S.%f}000Z ".encode() + line if timed else line for when, line in lines]
        return b"".join(stamped)


def read(server: Callable[[Exchange], None], tail: int | None = None) -> list[str]:
    lines: list[str] = []
    pod = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u"))
    with ScriptedServer(server) as served, Client(ClusterConfig(server=served.url)) as client:
        run = ContainerRun("u", "tensorflow", 0)
        sink = lambda batch: lines.extend(line.text for line in batch)  # noqa: E731
        RunLogReader(client, pod, run, sink, LogOptions(tail_lines=tail), clock=SystemClock(), settle=0.1).read()
    return lines


@pytest.mark.parametrize(
    ("log", "scripts"),
    [
        ("one\ntwo\nthree\nfour\n", [(3, 4, False), (4, 0, True)]),
        ("one\ntwo\nlast words", [(3, 8, False)]),
        ("one\ntwo", [(1, 0, True), (2, 0, True)]),
    ],
    ids=["a broken connection", "an end between the cut and the next request", "an answer that ends early"],
)
@pytest.mark.parametrize("timed", [True, False])
def test_each_line_comes_once(log: str, scripts: list[tuple[int, int, bool]], timed: bool) -> None:
    assert read(Kubelet(log, *scripts, timed=timed)) == log.splitlines()


def test_the_end_of_a_run_is_read_after_a_restart_or_a_cut_and_a_refused_first_request_is_an_error() -> None:
    kubelet = Kubelet("one\ntwo\n", (1, 2, False), (2, 2, False), restarts=1)
    assert read(kubelet) == ["one", "two"]
    assert [query.get("previous") for query in kubelet.queries] == [None, "true", "true"]
    kubelet = Kubelet("one\ntwo\nthree\nfour\n", (3, 0, False), (4, 0, True))
    assert read(kubelet, tail=1) == ["three", "four"]
    assert [query.get("tailLines") for query in kubelet.queries] == ["1", None]
    with pytest.raises(KubeError, match="no rights"):
        read(lambda exchange: exchange.status(403, "Forbidden", "no rights"))


@pytest.mark.parametrize("then", [503, 429, 403, 401])
def test_an_api_server_that_is_restarted_ends_nothing(then: int) -> None:
    kubelet = Kubelet("one\ntwo\n", (1, 2, False))
    requests = itertools.count()
    codes = {1: 503, 2: then, 3: then}  # the pod, the log, and the pod again

    def answer(exchange: Exchange) -> None:
        if code := codes.get(next(requests)):
            exchange.status(code, "Starting", "starting")
        else:
            kubelet(exchange)

    assert read(answer) == ["one", "two"]


def test_a_line_without_end_is_handed_on_in_pieces_and_bytes_that_are_no_text_do_not_stop_it() -> None:
    pieces = read(Kubelet("x" * 3_000_000, (1, 0, True)))
    assert "".join(pieces) == "x" * 3_000_000
    assert len(pieces) > 1

    def answer(exchange: Exchange) -> None:
        if exchange.target.partition("?")[0].endswith("/log"):
            exchange.respond(200, b"\xff\xfe ok\n")
        else:
            Kubelet("")(exchange)

    assert read(answer) == ["\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER} ok"]
