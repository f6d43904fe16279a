"""Metrics over HTTPS with the rights that the component gives, on a real API server: who reads them, who does not."""

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hack.controlplane import ControlPlane
from tests.e2e.conftest import OPERATOR_USER
from tests.support.audit import AuditTrail, Right, granted, wait_allowed
from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl, write_overlay
from tests.support.operator_process import OperatorProcess
from tfoperator.kube.client import Client

pytestmark = pytest.mark.controlplane

ROLE, READER = "tfoperator-metrics-auth", "tfoperator-metrics-reader"
OPERATORS_RIGHTS = (Right("kubeflow.org", "tfjobs", "list"), Right("authentication.k8s.io", "tokenreviews", "create"))
"""One of each role."""


@pytest.fixture(scope="module")
def kubectl(plane: ControlPlane, admin: Client, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """The base with the component is applied, and the operator has its rights."""
    folder = tmp_path_factory.mktemp("overlay")
    write_overlay(folder, ["base"], ["metrics-secure"])
    runner = Kubectl(plane.kubeconfig)
    runner("apply", "--server-side", "--force-conflicts", "-k", str(folder))
    wait_allowed(admin, OPERATOR_USER, *OPERATORS_RIGHTS)
    return runner


@pytest.fixture
def trail(plane: ControlPlane) -> AuditTrail:
    """Record the operator's requests to the API server from now on."""
    return AuditTrail(plane.audit_log, OPERATOR_USER)


@pytest.fixture
def operator(
    plane: ControlPlane, cluster: Cluster, kubectl: Kubectl, trail: AuditTrail, tmp_path: Path
) -> Iterator[OperatorProcess]:
    flags = (f"--namespace={cluster.namespace}", "--metrics-secure")
    with OperatorProcess(plane.kubeconfig_for(OPERATOR_USER), tmp_path, "operator", *flags) as started:
        yield started.wait_ready()


def scrape(operator: OperatorProcess, token: str = "") -> tuple[int, str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", operator.metrics_port, timeout=30, context=context)
    try:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def answered(operator: OperatorProcess, token: str) -> tuple[int, str]:
    """Scrape as `scrape`, once the API server has reviewed the token, which may take longer than the operator waits."""

    def reviewed() -> tuple[int, str]:
        status, text = scrape(operator, token)
        assert status != 503, text
        return status, text

    return eventually(reviewed, every=3.0, what="an answer about a token")


def account(kubectl: Kubectl, cluster: Cluster, name: str) -> str:
    """A new service account's token."""
    kubectl("create", "serviceaccount", name, "-n", cluster.namespace)
    return kubectl("create", "token", name, "-n", cluster.namespace, "--duration=10m").strip()


def test_a_service_account_with_the_right_reads_metrics_and_one_without_does_not(
    operator: OperatorProcess, kubectl: Kubectl, cluster: Cluster, trail: AuditTrail
) -> None:
    prometheus, curious = (account(kubectl, cluster, name) for name in ("prometheus", "curious"))
    subject = f"{cluster.namespace}:prometheus"
    kubectl("create", "clusterrolebinding", cluster.namespace, f"--clusterrole={READER}", f"--serviceaccount={subject}")
    status, text = answered(operator, curious)
    assert status == 403
    assert f"system:serviceaccount:{cluster.namespace}:curious may not get /metrics" in text

    def reads() -> bool:
        status, text = scrape(operator, prometheus)
        assert status == 200, text
        return "tfoperator_leader" in text

    eventually(reads, within=60, every=0.5, what="metrics")
    assert (scrape(operator)[0], answered(operator, "garbage")[0]) == (401, 401)
    trail.wait_used(granted(yaml.safe_load(kubectl("get", "clusterrole", ROLE, "-o", "yaml"))["rules"]))
    assert trail.refused() == []
    assert prometheus not in operator.log.read_text()
