"""The cost of the operator, counted from outside: calls from the API server's audit log, memory from the system."""

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest

from hack.controlplane import ControlPlane
from tests.e2e.conftest import COUNTED_USER
from tests.support.cluster import Cluster, tfjob
from tests.support.eventually import eventually
from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.controlplane

Start = Callable[..., OperatorProcess]


def calls(plane: ControlPlane, namespace: str) -> Counter[tuple[str, str]]:
    """How often each verb and resource was asked for in the namespace by the counted user, watches left out."""
    lines = plane.audit_log.read_text().splitlines(keepends=True) if plane.audit_log.exists() else []
    entries = [json.loads(line) for line in lines if line.endswith("\n")]  # the last may still be being written
    return Counter(
        (entry["verb"], "/".join(filter(None, (ref.get("resource"), ref.get("subresource")))))
        for entry in entries
        if (ref := entry.get("objectRef", {})).get("namespace") == namespace and entry["verb"] != "watch"
        if entry["user"]["username"] == COUNTED_USER
    )


@contextmanager
def paused(operator: OperatorProcess) -> Iterator[None]:
    assert operator.process is not None
    operator.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        operator.process.send_signal(signal.SIGCONT)


def test_a_job_costs_a_handful_of_calls_and_none_of_them_reads(
    plane: ControlPlane, cluster: Cluster, start_operator: Start
) -> None:
    operator = start_operator(kubeconfig=plane.kubeconfig_for(COUNTED_USER)).wait_leads_for_a_second()
    before = calls(plane, cluster.namespace)
    cluster.submit(tfjob("cheap", run_policy={"cleanPodPolicy": "Running"}, PS=1, Worker=2))
    cluster.wait_pods(3)
    cluster.wait_condition("cheap", "Created")
    with paused(operator):  # so that it sees at once what kubelets report at once, however long the test takes for it
        cluster.run_pods(3)
    cluster.wait_condition("cheap", "Running")
    cluster.set_phase("cheap-worker-1", "Succeeded")
    eventually(lambda: cluster.job("cheap")["status"]["replicaStatuses"]["Worker"].get("succeeded") == 1)
    cluster.set_phase("cheap-worker-0", "Succeeded")
    cluster.wait_condition("cheap", "Succeeded")
    eventually(lambda: len(cluster.pods()) == 2 and len(cluster.services()) == 2, what="the server is cleaned up")
    eventually(lambda: calls(plane, cluster.namespace)["delete", "services"] == 1, what="the audit log is written")

    spent = calls(plane, cluster.namespace)
    spent.subtract(before)
    reads = {call: count for call, count in spent.items() if call[0] in ("get", "list") and count}
    assert not reads, "a sync looks at the caches only"
    assert spent["create", "pods"] == spent["create", "services"] == 3
    assert spent["delete", "pods"] == spent["delete", "services"] == 1
    # Created, Running, one worker of two, Succeeded; one more if what was reported at once was read in pieces.
    assert spent["update", "tfjobs/status"] <= 5
    # The Go operator: 20 to 24 (reference measurements of a job to its end).
    assert spent.total() <= 17, spent


def test_an_idle_operator_asks_for_nothing_and_stays_small(
    plane: ControlPlane, cluster: Cluster, start_operator: Start
) -> None:
    operator = start_operator(kubeconfig=plane.kubeconfig_for(COUNTED_USER))
    for number in range(20):
        cluster.submit(tfjob(f"idle-{number}", Worker=1))
    cluster.run_pods(20)
    for number in range(20):
        cluster.wait_condition(f"idle-{number}", "Running")

    def quiet() -> bool:
        return operator.metrics().get('workqueue_depth{controller="tfjobs",name="tfjobs"}') == 0

    eventually(quiet, what="the queue is empty")
    assert operator.process is not None
    assert psutil.Process(operator.process.pid).memory_info().rss < 80 * 2**20
    syncs = operator.metrics()['workqueue_adds_total{controller="tfjobs",name="tfjobs"}']
    assert syncs < 20 * 15, "syncs feed on themselves"
