"""The operator as a process on a real kube-apiserver; the test plays the kubelet by writing pod status."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest

from hack.controlplane import ControlPlane
from tests.support.cluster import Cluster, decode, tfjob
from tests.support.eventually import eventually
from tests.support.operator_process import OperatorProcess
from tests.support.tcp_proxy import TcpProxy
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.resources import LEASES

pytestmark = pytest.mark.controlplane

Start = Callable[..., OperatorProcess]


# A lease that nobody gives back is waited for. One that is given back is taken long before its time is over.
@pytest.mark.parametrize(("how", "lasts", "renewed"), [(signal.SIGKILL, "8s", "6s"), (signal.SIGTERM, "10m", "5m")])
def test_the_standby_takes_over(
    cluster: Cluster, start_operator: Start, how: signal.Signals, lasts: str, renewed: str
) -> None:
    lease = (f"--leader-elect-lease-duration={lasts}", f"--leader-elect-renew-deadline={renewed}")
    elect = ("--leader-elect", f"--leader-elect-namespace={cluster.namespace}", *lease)
    operators = [start_operator(*elect) for _ in range(2)]

    def one_leads() -> OperatorProcess:
        leaders = [one for one in operators if one.metrics().get("tfoperator_leader") == 1]
        assert len(leaders) == 1, cluster.client.list(LEASES, cluster.namespace, decode).items
        return leaders[0]

    leading = eventually(one_leads, every=0.05, what="one of them leads")
    [standby] = [one for one in operators if one is not leading]
    assert leading.process is not None
    leading.process.send_signal(how)
    # Until it has given the lease back, a leader that was asked to stop may still make this pod itself.
    cluster.submit(tfjob("handover", Worker=1))
    eventually(lambda: standby.metrics().get("tfoperator_leader") == 1, every=0.05, what="the standby leads")
    cluster.submit(tfjob("afterwards", Worker=1))
    cluster.wait_pods(2)


def test_a_change_made_while_the_api_server_was_unreachable_is_noticed(
    plane: ControlPlane, cluster: Cluster, start_operator: Start, tmp_path: object
) -> None:
    proxy = TcpProxy(("127.0.0.1", plane.port))
    try:
        config = plane.kubeconfig.read_text().replace(plane.url, f"https://127.0.0.1:{proxy.port}")
        through_proxy = plane.folder / f"kubeconfig-proxy-{proxy.port}"
        through_proxy.write_text(config)
        start_operator(kubeconfig=through_proxy)
        cluster.submit(tfjob("cut", Worker=1))
        cluster.wait_pods(1)
        proxy.cut()
        cluster.set_phase("cut-worker-0", "Running")
        proxy.restore()
        cluster.wait_condition("cut", "Running")
    finally:
        proxy.close()


def test_an_api_server_that_restarts_is_found_again(
    plane: ControlPlane, cluster: Cluster, start_operator: Start
) -> None:
    start_operator()
    cluster.submit(tfjob("restart", Worker=1))
    cluster.wait_pods(1)
    plane.stop_api_server()
    plane.start_api_server()
    cluster.set_phase("restart-worker-0", "Running")
    cluster.wait_condition("restart", "Running")


def test_an_object_nested_deeply_keeps_nobody_from_working(cluster: Cluster, start_operator: Start) -> None:
    # API servers take 10,000 levels; a decoder in Python stops before, and may not always be told otherwise.
    levels = "[" * 9990 + "]" * 9990
    deep = json.dumps(tfjob("deep", Worker=1)).replace('"containers"', f'"deep": {levels}, "containers"')
    cluster.client.create(TFJOBS, cluster.namespace, deep.encode(), lambda _: None)
    start_operator()
    cluster.submit(tfjob("flat", Worker=1))
    eventually(lambda: "flat-worker-0" in cluster.pods(), what="the other job's pod")
