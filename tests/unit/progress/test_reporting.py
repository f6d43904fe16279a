"""The client library against a server of the test's own, over TLS, as programs use it."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.unit.kube.conftest import Certificates
from tests.unit.kube.server import Exchange, ScriptedServer
from tfoperator.progress import Progress, flush, report, sender
from tfoperator.progress.sender import Sender, metric_list
from tfoperator.servers.certificates.pem import KeyPair
from tfoperator.servers.certificates.tls import server_context
from tfoperator.servers.keyring.keyring import new_keyring


class Server:
    """Takes reports and remembers them; `answers` are the codes of the next answers."""

    def __init__(self, folder: Path, own: KeyPair | None = None, authority: bytes = b"") -> None:
        self.reports: list[dict[str, Any]] = []
        self.tokens: list[str] = []
        self.answers: list[int] = []
        self.owed = 0  # bytes of an answer that never come
        keyring = new_keyring(["127.0.0.1"], datetime.now(UTC), timedelta(days=1))
        (folder / "ca.crt").write_bytes(authority or keyring.bundle)
        self.token = folder / "token"
        self.token.write_text("first\n")
        self._server = ScriptedServer(self._answer, tls=server_context(own or keyring.serving))
        self.close = self._server.stop
        self.url = f"{self._server.url}/status"
        self.files = (str(folder / "ca.crt"), str(self.token))

    def _answer(self, exchange: Exchange) -> None:
        code = self.answers.pop(0) if self.answers else 200
        self.tokens.append(exchange.headers["authorization"])
        if code == 200:
            self.reports.append(exchange.json["trainerStatus"])
        answer = b'{"message": "not now"}'
        lines = [f"HTTP/1.1 {code} Whatever", f"Content-Length: {len(answer) + self.owed}"]
        lines += [f"Location: {self.url}/elsewhere"] * (code == 302)
        exchange.send("\r\n".join([*lines, "", ""]).encode() + answer)
        exchange.hang_up()


@pytest.fixture(autouse=True)
def every_thread_ends() -> None:
    """But for those that send a program's reports, which stay."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    report_server = Server(tmp_path)
    monkeypatch.setattr(sender, "_senders", {})
    variables = (sender.URL_VARIABLE, sender.CA_VARIABLE, sender.TOKEN_VARIABLE)
    for name, value in zip(variables, (report_server.url, *report_server.files), strict=True):
        monkeypatch.setenv(name, value)
    yield report_server
    report_server.close()


def metrics(status: dict[str, Any]) -> dict[str, str]:
    return {metric["name"]: metric["value"] for metric in status["metrics"]}


def test_a_line_reports_and_what_follows_from_it(server: Server) -> None:
    assert report(step=430, total_steps=1000, remaining_seconds=12.9, loss=0.23456789, phase="warm-up", skipped=None)
    assert flush()
    (status,) = server.reports
    assert (status["progressPercentage"], status["estimatedRemainingSeconds"]) == (43, 12)
    expected = {"current_step": "430", "total_steps": "1000", "loss": "0.234568", "phase": "warm-up"}
    assert metrics(status) == expected
    assert datetime.fromisoformat(status["lastUpdatedTime"]).tzinfo is not None
    assert server.tokens == ["Bearer first"]


class ArrayInteger:
    """An integer of NumPy or TensorFlow: its class is a number, but does not derive from int."""

    def __float__(self) -> float:
        return 1234567.0


def test_a_step_is_not_rounded_whatever_type_it_has() -> None:
    for step in (1234567, 1234567.0, ArrayInteger()):
        assert metric_list({"current_step": step}) == [{"name": "current_step", "value": "1234567"}]
    assert [metric["value"] for metric in metric_list({"a": 1e300, "b": 0.1234567, "c": float("nan")})] == [
        "1e+300",
        "0.123457",
        "nan",
    ]


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_none_raise_nothing_and_count_as_omitted(server: Server, odd: float) -> None:
    assert report(percentage=odd, remaining_seconds=odd, loss=odd)
    assert report(step=3, total_steps=4, remaining_seconds=odd)
    assert flush()
    assert server.reports[-1]["progressPercentage"] == 75
    assert "estimatedRemainingSeconds" not in server.reports[-1]


def test_without_a_server_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(sender.URL_VARIABLE, raising=False)
    assert not report(step=1)
    with Progress(10) as progress:
        progress.update(1)
    assert flush()


def test_a_loop_is_followed_from_its_first_step_to_its_last_and_one_that_breaks_off_is_not_done(server: Server) -> None:
    with Progress(total_steps=100, initial_step=50) as progress:
        assert flush()
        progress.update(75, loss=0.5)
        assert flush()
        progress.advance(25, loss=0.25)
    first, middle, last = server.reports
    assert (first["progressPercentage"], middle["progressPercentage"], last["progressPercentage"]) == (50, 75, 100)
    assert middle["estimatedRemainingSeconds"] >= 0
    assert (metrics(last)["loss"], last["estimatedRemainingSeconds"]) == ("0.25", 0)
    with pytest.raises(RuntimeError), Progress(total_steps=100) as progress:  # noqa: PT012
        progress.update(40)
        raise RuntimeError("out of memory")
    assert server.reports[-1]["progressPercentage"] == 40


def test_of_many_reports_the_newest_are_sent_and_few(server: Server) -> None:
    for step in range(1000):
        report(step=step, total_steps=1000)
    assert flush()
    assert metrics(server.reports[-1])["current_step"] == "999"
    assert len(server.reports) <= 3


def test_a_report_that_was_not_sent_keeps_the_values_that_the_next_report_lacks(server: Server) -> None:
    report(step=1, at_once=True)
    assert flush()
    report(step=2, total_steps=10, loss=0.5, rate=0.1, remaining_seconds=7)
    report(step=3, loss=0.4)
    assert flush()
    _, last = server.reports
    assert {metric["name"]: metric["value"] for metric in last["metrics"]} == {
        "current_step": "3",
        "loss": "0.4",
        "total_steps": "10",
        "rate": "0.1",
    }
    assert (last["progressPercentage"], last["estimatedRemainingSeconds"]) == (20, 7)


def test_a_report_that_failed_keeps_its_values_for_the_next_attempt(server: Server) -> None:
    server.answers = [503]
    report(step=1, loss=0.5)
    assert not flush()
    report(step=2)
    assert flush()
    (arrived,) = server.reports
    assert {metric["name"]: metric["value"] for metric in arrived["metrics"]} == {"current_step": "2", "loss": "0.5"}


def test_the_token_is_read_again_and_of_an_answer_only_the_status_counts(server: Server) -> None:
    server.owed = 1 << 40
    for step, token in enumerate(("first", "second")):
        server.token.write_text(f"{token}\n")
        assert report(step=step)
        assert flush()
    assert server.tokens == ["Bearer first", "Bearer second"]


def test_what_may_pass_is_sent_again_and_else_told_once(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    report_sender = Sender(server.url, *server.files, interval=0.05)
    server.answers += [500, 500]
    with caplog.at_level(logging.WARNING, "tfoperator.progress"):
        report_sender.put({"progressPercentage": 7}, at_once=True)
        eventually(lambda: server.reports, within=60, what="the third attempt")
    assert [record.message.rpartition(": ")[2] for record in caplog.records] == ["500 not now"]
    server.answers += [403]
    report_sender.put({"progressPercentage": 8}, at_once=True)
    assert report_sender.flush()  # given up: it no longer waits
    assert [status["progressPercentage"] for status in server.reports] == [7]


def test_a_server_that_is_away_costs_a_warning(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.close()
    assert report(step=1)
    assert not flush()
    assert len(caplog.records) == 1


def test_neither_a_proxy_nor_a_redirect_gets_the_token(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.answers += [302]
    report(step=1)
    flush()
    assert (len(server.tokens), server.reports) == (1, [])
    report(step=2)
    assert flush()
    assert len(server.reports) == 1


def test_another_authority_is_not_believed(server: Server, tmp_path: Path) -> None:
    other = new_keyring(["127.0.0.1"], datetime.now(UTC), timedelta(days=1))
    (tmp_path / "other.crt").write_bytes(other.bundle)
    report_sender = Sender(server.url, str(tmp_path / "other.crt"), server.files[1])
    report_sender.put({"progressPercentage": 1}, at_once=True)
    assert not report_sender.flush()
    assert server.tokens == []


def test_an_authority_that_says_little_is_believed_by_every_python(tmp_path: Path) -> None:
    # As `openssl req -x509` makes one: without the usage of its key, which Python 3.13 asks for.
    certificates = Certificates(tmp_path, of_authority="")
    certificate, key = certificates.make("server", "IP:127.0.0.1")
    report_server = Server(tmp_path, KeyPair(certificate.read_bytes(), key.read_bytes()), certificates.ca.read_bytes())
    try:
        client = Sender(report_server.url, *report_server.files)
        client.put({"progressPercentage": 7}, at_once=True)
        assert client.flush()
        assert [status["progressPercentage"] for status in report_server.reports] == [7]
    finally:
        report_server.close()


class Tensor:
    def __float__(self) -> float:
        return 0.123456789


@pytest.mark.parametrize(
    ("value", "text"), [(1, "1"), (0.5, "0.5"), (Tensor(), "0.123457"), (True, "True"), ("x" * 99, "x" * 64)]
)
def test_metrics_are_short_texts_and_no_more_than_a_server_takes(value: object, text: str) -> None:
    assert metric_list({"name": value}) == [{"name": "name", "value": text}]
    assert len(metric_list({f"m{number}": value for number in range(300)})) == 256


PROGRAM = """
import sys
from tfoperator.progress import report
report(step=5, total_steps=10)
loaded = {"msgspec", "kubernetes", "aiohttp", "keras", "cryptography", "yaml"} & set(sys.modules)
assert not loaded, loaded
sys.exit(3)
"""

FORKING = """
import os
from tfoperator.progress import report, flush
report(step=1)
flush()
child = os.fork()
report(step=2 if child else 3)
assert flush()
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    os._exit(0)
"""


@pytest.mark.parametrize(
    ("program", "code", "check"),
    [(PROGRAM, 3, lambda steps: steps == ["5"]), (FORKING, 0, lambda steps: sorted(steps) == ["1", "2", "3"])],
    ids=["what waits is sent at the end", "a forked process reports by itself"],
)
def test_as_a_program_of_its_own(server: Server, program: str, code: int, check: Callable[[list[str]], bool]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    # From 3.12 on Python warns programs that fork while they have threads, and this test does so.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (code, "")
    assert check([metrics(status)["current_step"] for status in server.reports])
