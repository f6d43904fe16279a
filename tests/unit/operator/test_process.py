import json
import logging
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.cluster import Cluster, decode, tfjob
from tests.support.eventually import eventually
from tests.support.jobs import write_kubeconfig
from tests.support.operator_process import OperatorProcess, free_port
from tests.unit.kube.config.kubeconfigs import kubeconfig, write
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.resources import LEASES
from tfoperator.local.apiserver.server import EmbeddedApiServer
from tfoperator.operator.process import run

FORBIDDEN = (
    "tfoperator.cli", "tfoperator.local", "tfoperator.sdk", "tfoperator.servers.webhook", "tfoperator.api.conversion",
    "typer", "rich", "websockets", "jsonschema", "cryptography",
)  # fmt: skip


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """The process logs by one handler of its own; the next tests are to have none of it."""
    root = logging.getLogger()
    before, level = set(root.handlers), root.level
    yield
    root.handlers[:] = [handler for handler in root.handlers if handler in before]
    root.setLevel(level)
    logging.captureWarnings(False)


@pytest.fixture
def unreachable(tmp_path: Path) -> Path:
    """A kubeconfig for a server that isn't there."""
    return write(tmp_path / "kubeconfig", kubeconfig(f"http://127.0.0.1:{free_port()}"))


@pytest.mark.parametrize(("of", "words"), [("health-probe", "{}"), ("webhook", "{} for the webhook")])
def test_a_taken_port_is_a_mistake(unreachable: Path, capsys: pytest.CaptureFixture[str], of: str, words: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert run([f"--kubeconfig={unreachable}", f"--{of}-bind-address={address}"], {}) == 2
    assert words.format(address) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--threadiness=none", "--threadiness must be a whole number"),
        ("--kubeconfig=/not/there", "/not/there"),
        ("--config=/not/there", "/not/there"),
        ("--archive-dir={folder}/file/archive", "--archive-dir {folder}/file/archive: Not a directory\n"),
    ],
)
def test_a_users_mistake_is_one_clear_line_and_exit_code_2(
    unreachable: Path, tmp_path: Path, argument: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run([f"--kubeconfig={unreachable}", argument.format(folder=tmp_path)], {}) == 2
    output = capsys.readouterr().err
    assert words.format(folder=tmp_path) in output
    assert output.startswith("tfoperator operator: ")
    assert "Traceback" not in output


def test_an_unreachable_server_is_waited_for_until_an_interrupt(unreachable: Path, tmp_path: Path) -> None:
    port = free_port()
    flags = ("--log-format=json", f"--webhook-bind-address=127.0.0.1:{port}")
    with OperatorProcess(unreachable, tmp_path, "json", *flags) as operator:
        for words in ("the API server does not answer", "the webhook's certificate can't be stored"):
            eventually(lambda words=words: words in operator.log.read_text(), what=f"the log says {words}")
        assert operator._get(operator.health_port, "/healthz") == "ok\n"
        assert operator._get(operator.health_port, "/readyz") is None
        assert operator.metrics()["tfoperator_leader"] == 0
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            assert client.recv(1) == b"", "a webhook without a certificate costs nobody else"
        operator.process.send_signal(signal.SIGINT)
        assert operator.process.wait(60) == 0
        log = operator.log.read_text()
    entries = [json.loads(line) for line in log.splitlines()]
    assert {"time", "level", "logger", "message"} <= entries[0].keys()
    assert "Traceback" not in log
    messages = [entry["message"] for entry in entries if "the API server does not answer" in entry["message"]]
    assert len([message for message in messages if "certificate" not in message]) == 1


def test_the_process_loads_neither_command_line_nor_embedded_server() -> None:
    code = "import sys, tfoperator.operator.__main__; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in loaded if name.startswith(FORBIDDEN)] == []


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig for an API server that works."""
    with EmbeddedApiServer() as server:
        yield write_kubeconfig(tmp_path / "kubeconfig", server.kubeconfig(), "default")


def test_it_is_soon_ready_and_small(served: Path, tmp_path: Path) -> None:
    with OperatorProcess(served, tmp_path) as operator:
        operator.wait_ready()
        process = psutil.Process(operator.process.pid)
        # CPU time, since other processes may have the processors: 0.4 s when measured, and 1.1 s where many had them.
        spent = process.cpu_times()
        assert spent.user + spent.system < 2.0
        assert process.memory_info().rss < 80 * 2**20
        eventually(lambda: operator.metrics()["tfoperator_leader"] == 1)
        assert operator.stop() == 0


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig for a server that accepts connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield write(tmp_path / "kubeconfig", kubeconfig(f"http://127.0.0.1:{listener.getsockname()[1]}"))


@pytest.mark.parametrize(("signals", "code"), [(1, 0), (2, 128 + signal.SIGTERM)])
def test_it_stops_beside_a_silent_server_or_is_ended(silent: Path, tmp_path: Path, signals: int, code: int) -> None:
    with OperatorProcess(silent, tmp_path) as operator:
        eventually(lambda: operator._get(operator.health_port, "/healthz"), what="it is up")
        operator.process.send_signal(signal.SIGTERM)
        if signals == 2:
            eventually(lambda: "stopping" in operator.tail(), what="it begins to stop")
            operator.process.send_signal(signal.SIGTERM)
        assert operator.process.wait(60) == code


def test_a_webhook_outlives_the_operator_by_its_delay(served: Path, tmp_path: Path) -> None:
    port = free_port()
    flags = (f"--webhook-bind-address=127.0.0.1:{port}", "--webhook-shutdown-delay=1s")
    with OperatorProcess(served, tmp_path, "webhook", *flags) as operator:
        operator.wait_ready()
        samples = operator.metrics()
        assert samples["tfoperator_webhook_certificate_expiry_timestamp_seconds"] > time.time()
        assert operator.process is not None
        began = time.monotonic()
        operator.process.send_signal(signal.SIGTERM)
        eventually(lambda: "stopping" in operator.tail(), what="it begins to stop")
        with socket.create_connection(("127.0.0.1", port), timeout=60):
            pass  # still listening
        assert operator.process.wait(60) == 0
        assert time.monotonic() - began >= 1.0


def test_who_has_lost_the_lease_writes_no_more_until_the_process_ends(served: Path, tmp_path: Path) -> None:
    flags = (
        "--leader-elect", "--leader-elect-retry-period=100ms", "--kube-api-qps=20", "--kube-api-burst=5",
        f"--webhook-bind-address=127.0.0.1:{free_port()}", "--webhook-shutdown-delay=2s",
    )  # fmt: skip
    with OperatorProcess(served, tmp_path, "leader", *flags) as operator:
        operator.wait_ready()
        with Client(load_config(str(served))) as client:
            cluster = Cluster(client)
            cluster.create_namespace()
            # More than can be made before the process ends.
            cluster.submit(tfjob("job", Worker=300))
            eventually(lambda: len(cluster.pods()) > 5, what="the sync is under way")
            [lease] = client.list(LEASES, "default", decode).items
            client.patch(LEASES, "default", lease["metadata"]["name"], {"spec": {"holderIdentity": "other"}}, decode)
            eventually(lambda: "the lease was lost" in operator.tail(), every=0.01, what="it knows")
            before = len(cluster.pods())
            assert operator.process.wait(20) == 1
            assert len(cluster.pods()) - before <= 5  # those under way
