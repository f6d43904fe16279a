"""The conversion webhook in operators with the rights of manifests/overlays/webhook, on a real API server.

The server can't read v1alpha2 without them, and they listen on loopback, where it finds them by URL.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hack.chart import MANIFESTS
from hack.controlplane import ControlPlane, control_plane
from tests.e2e.conftest import OPERATOR_GROUPS, OPERATOR_USER
from tests.support.audit import Right, wait_allowed
from tests.support.cluster import Cluster, decode, find, tfjob
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tests.support.operated import wait_until_clock
from tests.support.operator_process import OperatorProcess, free_port
from tests.support.webhook import V1ALPHA2, wait_served
from tfoperator.api.replicas.names import CRD_NAME
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import CUSTOM_RESOURCE_DEFINITIONS, SECRETS
from tfoperator.servers.keyring.keyring import decode_keyring, encode_keyring, renewed

pytestmark = pytest.mark.controlplane

OVERLAY = MANIFESTS / "overlays" / "webhook"
NAMESPACE, SECRET = "tfoperator-system", "tfoperator-webhook-cert"
ELECT = ("--leader-elect", f"--leader-elect-namespace={NAMESPACE}")
EXPIRY = "tfoperator_webhook_certificate_expiry_timestamp_seconds"


class Deployed:
    """An API server with the CRD of both versions, and operators that serve its webhook."""

    def __init__(self, plane: ControlPlane, client: Client, folder: Path) -> None:
        self.plane = plane
        self.client = client
        self.cluster = Cluster(client)
        self.cluster.create_namespace()
        self.port = free_port()
        self._folder = folder
        self._started: list[OperatorProcess] = []

    def start(self, *flags: str, port: int | None = None) -> OperatorProcess:
        port = port or self.port
        webhook = (
            f"--webhook-bind-address=127.0.0.1:{port}",
            f"--webhook-url=https://127.0.0.1:{self.port}/convert",
            f"--webhook-namespace={NAMESPACE}",
        )
        kubeconfig = self.plane.kubeconfig_for(OPERATOR_USER)
        operator = OperatorProcess(kubeconfig, self._folder, f"operator-{len(self._started)}", *webhook, *flags)
        self._started.append(operator)
        return operator.start()

    def kill_all(self) -> None:
        for operator in self._started:
            operator.kill()

    def logs(self) -> str:
        return "\n".join(f"--- {operator.log.name}\n{operator.tail(40)}" for operator in self._started)

    def serve(self, name: str, **replicas: int) -> OperatorProcess:
        """Start an operator, and submit this older job as soon as its version is served."""
        operator = self.start().wait_ready()
        wait_served(self.client)
        self.submit_older(name, **replicas)
        return operator

    def submit_older(self, name: str, **replicas: int) -> dict[str, Any]:
        job = tfjob(name, restart_policy="OnFailure", **replicas) | {"apiVersion": "kubeflow.org/v1alpha2"}
        return self.client.create(V1ALPHA2, self.cluster.namespace, job, decode)

    def older(self, name: str) -> dict[str, Any]:
        return self.client.get(V1ALPHA2, self.cluster.namespace, name, decode)

    def secret(self) -> dict[str, Any] | None:
        return find(self.client, SECRETS, NAMESPACE, SECRET)

    def age(self, label: str) -> None:
        """Replace the certificate in the Secret by a certificate that is due, with weeks to live; trigger a look."""
        secret = self.secret()
        assert secret is not None
        keyring = decode_keyring({name: base64.b64decode(text) for name, text in secret["data"].items()})
        then = datetime.now(UTC) - timedelta(days=61)
        aged = encode_keyring(renewed(keyring, keyring.about.hosts, then, timedelta(days=90)))
        data = {name: base64.b64encode(text).decode() for name, text in aged.items()}
        self.client.patch(SECRETS, NAMESPACE, SECRET, {"data": data}, decode)
        self.touch_crd(label)

    def touch_crd(self, label: str) -> None:
        """Change the CRD: then operators look at the Secret."""
        change = {"metadata": {"labels": {"touched": label}}}
        self.client.patch(CUSTOM_RESOURCE_DEFINITIONS, "", CRD_NAME, change, decode)

    def crd(self) -> dict[str, Any]:
        return self.client.get(CUSTOM_RESOURCE_DEFINITIONS, "", CRD_NAME, decode)

    def trusted(self) -> bytes:
        config = self.crd()["spec"]["conversion"]["webhook"]["clientConfig"]
        return base64.b64decode(config.get("caBundle") or "")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, Client]]:
    users = {OPERATOR_USER: OPERATOR_GROUPS}
    with control_plane(users=users) as plane, Client(load_config(str(plane.kubeconfig))) as client:
        Kubectl(plane.kubeconfig)("apply", "--server-side", "-k", str(OVERLAY))
        wait_allowed(client, OPERATOR_USER, Right("kubeflow.org", "tfjobs", "list"))
        wait_allowed(client, OPERATOR_USER, Right("", "secrets", "create"), namespace=NAMESPACE)
        yield plane, client


@pytest.fixture
def deployed(api: tuple[ControlPlane, Client], tmp_path: Path) -> Iterator[Deployed]:
    deployment = Deployed(*api, tmp_path)
    yield deployment
    deployment.kill_all()
    logs = deployment.logs()
    print(logs)
    if deployment.secret() is not None:
        deployment.client.delete(SECRETS, NAMESPACE, SECRET)
    assert "forbidden" not in logs.lower()
    assert "PRIVATE KEY" not in logs


class Requests:
    """Requests in v1alpha2, one after the other on connections of the API server's choice, until they are stopped."""

    def __init__(self, deployed: Deployed, name: str) -> None:
        self._deployed = deployed
        self._name = name
        self._stop = threading.Event()
        self.answered = 0
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Requests:
        self._thread.start()
        eventually(lambda: self.answered, what="requests are answered")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                job = self._deployed.older(self._name)
                job["metadata"]["annotations"] = {"number": str(self.answered)}
                del job["metadata"]["resourceVersion"]
                self._deployed.client.patch(V1ALPHA2, self._deployed.cluster.namespace, self._name, job, decode)
            except KubeError as error:
                self.failures.append(str(error))
            self.answered += 1


def test_an_older_job_runs_and_its_status_is_read_in_its_own_words(deployed: Deployed) -> None:
    operator = deployed.serve("mnist", Worker=1, Eval=1)
    cluster = deployed.cluster
    assert set(cluster.run_pods(2)) == {"mnist-worker-0", "mnist-evaluator-0"}
    cluster.wait_condition("mnist", "Running")
    # A webhook that is gone for a while: v1 needs none, and v1alpha2 is back with it.
    operator.kill()
    assert cluster.job("mnist")["apiVersion"] == "kubeflow.org/v1"
    again = deployed.start().wait_ready()
    wait_served(deployed.client)
    cluster.set_phase("mnist-worker-0", "Succeeded")
    cluster.wait_condition("mnist", "Succeeded")
    status = deployed.older("mnist")["status"]
    assert set(status["tfReplicaStatuses"]) == {"Worker", "Eval"}
    assert status["tfReplicaStatuses"]["Worker"]["succeeded"] == 1
    assert status["phase"] == "Succeeded"
    assert again.metrics()['tfoperator_webhook_objects_total{version="v1alpha2"}'] > 0
    assert again.stop() == 0


def test_a_certificate_is_renewed_again_and_again_without_a_failed_request(deployed: Deployed) -> None:
    # Two replicas; the API server has the URL of one replica. Both renew, and each takes the other's certificates.
    first = deployed.start(*ELECT).wait_ready()
    second = deployed.start(*ELECT, port=free_port()).wait_ready()
    wait_served(deployed.client)
    deployed.submit_older("busy", Worker=1)

    def both_show_another_than(before: float) -> bool:
        shown = {operator.metrics()[EXPIRY] for operator in (first, second)}
        return len(shown) == 1 and before not in shown

    with Requests(deployed, "busy") as requests:
        for number in range(2):
            before = first.metrics()[EXPIRY]
            wait_until_clock(int(time.time()) + 1)  # certificates are told apart by their ends, in whole seconds
            deployed.age(str(number))
            eventually(partial(both_show_another_than, before), every=0.2, what="both show another certificate")
        more = max(requests.answered + 50, 101)
        eventually(lambda: requests.answered >= more, what="requests go on")
    assert requests.failures == []
    assert deployed.trusted().count(b"BEGIN CERTIFICATE") >= 3


def test_operators_that_start_together_agree_on_one_certificate(deployed: Deployed) -> None:
    operators = [deployed.start(*ELECT), *(deployed.start(*ELECT, port=free_port()) for _ in range(2))]
    for operator in operators:
        operator.wait_ready()
    wait_served(deployed.client)
    secret = deployed.secret()
    assert secret is not None
    eventually(
        lambda: len({operator.metrics()[EXPIRY] for operator in operators}) == 1, what="all show the same certificate"
    )
    assert base64.b64decode(secret["data"]["ca.crt"]) == deployed.trusted()
    assert sum(operator.log.read_text().count("created a certificate") for operator in operators) == 1
    deployed.submit_older("agreed", Worker=1)
