"""Crowds of strangers at all of the operator's servers: who asks is answered, in time and in bounded memory."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from hack.controlplane import control_plane
from hack.processes import free_ports
from tests.support.cluster import Cluster, decode
from tests.support.operator_process import OperatorProcess, ask
from tests.support.reporters import Reporters
from tests.support.webhook import V1ALPHA2, wait_served
from tfoperator.api.schema.crd import crd
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config

pytestmark = pytest.mark.controlplane

SECONDS = 5
SLOWEST = 15.0
"""Seconds that a probe may take where other programs use the cores too; on idle cores each takes less than a second."""
MOST_MIB = 400


class Besieged:
    """An operator with its four servers, and who asks each of them."""

    def __init__(self, cluster: Cluster, operator: OperatorProcess, reporters: Reporters, ports: list[int]) -> None:
        self.cluster, self.operator, self.reporters = cluster, operator, reporters
        self.plain, self.secured = [operator.health_port, operator.metrics_port], ports
        assert operator.process is not None
        self._process = psutil.Process(operator.process.pid)
        self._reports = 0
        self.slowest = 0.0

    def ask_everyone(self) -> None:
        self._timed(lambda: ask(self.operator.health_port, "/healthz") == (200, "ok\n"))
        self._timed(lambda: ask(self.operator.metrics_port, "/metrics")[0] == 200)
        self._timed(lambda: self.cluster.client.get(V1ALPHA2, self.cluster.namespace, "mnist", decode)["spec"])
        self._reports += 1
        report = {"progressPercentage": self._reports % 100}
        self._timed(lambda: self.reporters.post("mnist-worker-0", report)[0] == 200)

    def resident_mib(self) -> int:
        return int(self._process.memory_info().rss) >> 20

    def _timed(self, answered: Callable[[], object]) -> None:
        began = time.monotonic()
        assert answered()
        self.slowest = max(self.slowest, time.monotonic() - began)


@pytest.fixture(scope="module")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Besieged]:
    folder, (webhook, progress) = tmp_path_factory.mktemp("besieged"), free_ports(2)
    with control_plane() as plane, Client(load_config(str(plane.kubeconfig))) as client:
        cluster = Cluster(client)
        cluster.install_crd(crd(all_versions=True))
        cluster.create_namespace()
        flags = (
            f"--webhook-bind-address=127.0.0.1:{webhook}", f"--webhook-url=https://127.0.0.1:{webhook}/convert",
            f"--progress-bind-address=127.0.0.1:{progress}", f"--progress-url=https://127.0.0.1:{progress}",
            f"--webhook-namespace={cluster.namespace}", f"--progress-namespace={cluster.namespace}",
        )  # fmt: skip
        with OperatorProcess(plane.kubeconfig, folder, "operator", *flags) as operator:
            operator.wait_ready()
            wait_served(client)
            reporters = Reporters(cluster, folder)
            reporters.submit("mnist", Worker=1)
            reporters.accepted("mnist-worker-0", {"progressPercentage": 1})
            yield Besieged(cluster, operator, reporters, [webhook, progress])


@pytest.mark.parametrize(
    ("manner", "sources", "each"),
    [
        pytest.param("rest", 256, 1, id="256 that rest"),
        pytest.param("head", 256, 1, id="256 that send a byte a second"),
        pytest.param("body", 1000, 1, id="1,000 with an endless body"),
        pytest.param("handshake", 1000, 1, id="1,000 with an endless handshake"),
        pytest.param("mixed", 1, 500, id="one source with 500 to each server"),
        pytest.param("unread", 4, 16, id="four that read no answer"),
    ],
)
def test_who_asks_is_answered_amid_a_crowd(besieged: Besieged, manner: str, sources: int, each: int) -> None:
    # Only the webhook converts what nobody reads.
    plain, secured = (besieged.plain, besieged.secured) if manner != "unread" else ([], besieged.secured[:1])
    command = [manner, str(sources), str(each), str(SECONDS), *map(str, plain), "--", *map(str, secured)]
    besieged.slowest, rounds, most = 0.0, 0, 0
    program = [sys.executable, "-m", "tests.support.crowd"]
    with subprocess.Popen([*program, *command], stdout=subprocess.PIPE) as crowd:
        while crowd.poll() is None:
            besieged.ask_everyone()
            rounds, most = rounds + 1, max(most, besieged.resident_mib())
        assert crowd.stdout is not None
        opened = int(crowd.stdout.read())
    print(
        f"{manner}: {opened} connections; {rounds} rounds, slowest probe {besieged.slowest:.3f} s; {most} MiB at most"
    )
    assert opened > sources * each * (len(plain) + len(secured)), "some were closed, and opened again"
    assert rounds > 0
    assert besieged.slowest < SLOWEST
    assert most < MOST_MIB
