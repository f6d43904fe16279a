"""Logs whose connection breaks, or whose server ends the answer though the container runs on."""

from __future__ import annotations

from typing import Any

from tests.unit.kube.server import Exchange, ScriptedServer
from tfoperator.clock import SystemClock
from tfoperator.kube import Client, ClusterConfig, ObjectMeta, Pod
from tfoperator.sdk.log_reader import Attempt, LogReader

RUNNING: dict[str, Any] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
ENDED: dict[str, Any] = {"terminated": {"exitCode": 0}}


class Kubelet:
    """Answers each request for the log with the next script, and says that the container has ended after the last."""

    def __init__(self, *scripts: tuple[bytes, bool]) -> None:
        self.targets: list[str] = []
        self._scripts = list(scripts)

    def __call__(self, exchange: Exchange) -> None:
        if "/log" not in exchange.target:
            state = RUNNING if self._scripts else ENDED
            statuses = [{"name": "tensorflow", "restartCount": 0, "state": state}]
            meta = {"name": "p", "namespace": "ns", "uid": "u"}
            exchange.respond(200, {"metadata": meta, "status": {"containerStatuses": statuses}})
            return
        self.targets.append(exchange.target)
        data, in_order = self._scripts.pop(0)
        exchange.begin_chunks()
        exchange.chunk(data)
        if in_order:
            exchange.end_chunks()
        else:
            exchange.hang_up()


def read(kubelet: Kubelet, tail: int | None = None) -> list[str]:
    lines: list[str] = []
    pod = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u"))
    with ScriptedServer(kubelet) as server, Client(ClusterConfig(server=server.url)) as client:
        attempt = Attempt("u", "tensorflow", 0)
        sink = lambda batch: lines.extend(line.text for line in batch)  # noqa: E731
        LogReader(client, pod, attempt, sink, tail_lines=tail, clock=SystemClock(), settle=0.1).read()
    return lines


def test_a_broken_connection_is_read_on_from_where_it_broke() -> None:
    kubelet = Kubelet((b"one\ntw", False), (b"o\nthree\n", True))
    assert read(kubelet, tail=7) == ["one", "two", "three"]
    assert "tailLines=7" in kubelet.targets[0]
    assert "sinceSeconds=" in kubelet.targets[1]
    assert "tailLines" not in kubelet.targets[1]


def test_a_server_that_ends_its_answer_early_is_asked_again() -> None:
    kubelet = Kubelet((b"one\n", True), (b"two", True))
    assert read(kubelet) == ["one", "two"]


def test_a_line_without_end_is_handed_on_in_pieces() -> None:
    pieces = read(Kubelet((b"x" * 500_000, True)))
    assert "".join(pieces) == "x" * 500_000
    assert len(pieces) > 1


def test_bytes_that_are_no_text_do_not_stop_it() -> None:
    assert read(Kubelet((b"\xff\xfe ok\n", True))) == ["�� ok"]
