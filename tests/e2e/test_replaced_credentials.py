"""Credentials that are replaced under a leader and its standby, on a real API server: both use the new credentials.

Operators connect through a proxy. After each replacement the old credentials are revoked, and every connection is cut:
with the old credentials an operator could do nothing.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.controlplane import ControlPlane, control_plane
from tests.e2e.conftest import admin_of
from tests.support.cluster import Cluster, tfjob
from tests.support.credentials import Authority, kubeconfig_of, self_signed, written
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tests.support.operator_process import OperatorProcess
from tests.support.tcp_proxy import TcpProxy
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.errors import KubeError

pytestmark = pytest.mark.controlplane

AUTHORITY = Authority()


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module's own: it trusts client certificates, and its serving certificate is replaced."""
    trusted = written(tmp_path_factory.mktemp("authority") / "clients.crt", AUTHORITY.certificate)
    with control_plane(api_server_flags=(f"--client-ca-file={trusted}",)) as running:
        yield running


admin = pytest.fixture(scope="module")(admin_of)


@pytest.fixture
def proxy(plane: ControlPlane) -> Iterator[TcpProxy]:
    proxy = TcpProxy(("127.0.0.1", plane.port))
    yield proxy
    proxy.close()


class Credentials:
    """Credentials in one of their forms, first and second; each form is a subclass."""

    def __init__(self, plane: ControlPlane, cluster: Cluster, folder: Path, port: int) -> None:
        self.plane = plane
        self.cluster = cluster
        self.folder = folder
        self.url = f"https://127.0.0.1:{port}"
        self.kubectl = Kubectl(plane.kubeconfig, cluster.namespace)
        self.kubeconfig = folder / "replaced"

    def write(self, user: dict[str, Any], ca: Path | None = None) -> None:
        """Write the kubeconfig, which leads through the proxy."""
        kubeconfig_of(self.plane, user, self.kubeconfig, namespace=self.cluster.namespace, ca=ca, server=self.url)

    def begin(self) -> None:
        """Make the first credentials, and the kubeconfig."""
        raise NotImplementedError

    def replace(self) -> None:
        """Put the second credentials in the place of the first, which the API server does not accept any more."""
        raise NotImplementedError


class InlineToken(Credentials):
    """A token in the kubeconfig, of a service account with all rights; it ends with the Secret that it is bound to."""

    def begin(self) -> None:
        self.kubectl("create", "serviceaccount", "replaced")
        subject = f"--serviceaccount={self.cluster.namespace}:replaced"
        self.kubectl("create", "clusterrolebinding", self.cluster.namespace, "--clusterrole=cluster-admin", subject)
        self.first = self.issue("first")
        self.store(self.first)

    def issue(self, name: str) -> str:
        self.kubectl("create", "secret", "generic", name)
        bound = ("--bound-object-kind=Secret", f"--bound-object-name={name}", "--duration=1h")
        return self.kubectl("create", "token", "replaced", *bound).strip()

    def store(self, token: str) -> None:
        """Put a token where the operators look for it."""
        self.write({"token": token})

    def replace(self) -> None:
        self.store(self.issue("second"))
        self.kubectl("delete", "secret", "first")
        old = kubeconfig_of(self.plane, {"token": self.first}, self.folder / "old")
        # The API server remembers a token for ten seconds.
        eventually(lambda: not is_accepted(old), within=60, what="the first token is refused")


class TokenFile(InlineToken):
    """A token in a file, as a pod has it."""

    def begin(self) -> None:
        super().begin()
        self.write({"tokenFile": str(self.folder / "token")})

    def store(self, token: str) -> None:
        written(self.folder / "token", token)


class ExecPlugin(InlineToken):
    """A program that prints a token, as the clouds have it."""

    def begin(self) -> None:
        super().begin()
        api = "client.authentication.k8s.io/v1"
        plugin = {"apiVersion": api, "command": "cat", "args": [str(self.folder / "answer")]}
        self.write({"exec": {**plugin, "interactiveMode": "Never"}})

    def store(self, token: str) -> None:
        answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}}
        written(self.folder / "answer", json.dumps(answer))


class ClientCertificate(Credentials):
    """A certificate in files. A certificate can't be revoked, so the first user loses the rights."""

    def begin(self) -> None:
        self.store("first")
        self.write({"client-certificate": str(self.folder / "crt"), "client-key": str(self.folder / "key")})

    def store(self, user: str) -> None:
        name = f"{self.cluster.namespace}-{user}"
        self.kubectl("create", "clusterrolebinding", name, "--clusterrole=cluster-admin", f"--user={name}")
        pair = AUTHORITY.client(name)
        written(self.folder / "key", pair.key)
        written(self.folder / "crt", pair.certificate)

    def replace(self) -> None:
        self.store("second")
        self.kubectl("delete", "clusterrolebinding", f"{self.cluster.namespace}-first")


class AuthorityFile(Credentials):
    """The file with the authority of the API server, whose certificate is replaced, too."""

    def begin(self) -> None:
        written(self.folder / "ca.crt", self.plane.ca_file.read_bytes())
        self.write({"token": self.plane.token}, ca=self.folder / "ca.crt")

    def replace(self) -> None:
        pair = self_signed("new", "127.0.0.1")
        written(self.plane.ca_file.with_suffix(".key"), pair.key)
        written(self.plane.ca_file, pair.certificate)
        eventually(lambda: self.served() == pair.certificate.decode(), within=90, what="the new certificate is served")
        written(self.folder / "ca.crt", pair.certificate)

    def served(self) -> str:
        return ssl.get_server_certificate(("127.0.0.1", self.plane.port))


def is_accepted(kubeconfig: Path) -> bool:
    """Whether an API server accepts the credentials."""
    with Client(load_config(str(kubeconfig))) as client:
        try:
            client.get_raw("/api")
        except KubeError:
            return False
    return True


@pytest.mark.parametrize("form", [InlineToken, TokenFile, ExecPlugin, ClientCertificate, AuthorityFile])
def test_credentials_are_replaced_under_leader_and_standby(
    form: type[Credentials],
    plane: ControlPlane,
    cluster: Cluster,
    proxy: TcpProxy,
    tmp_path: Path,
    start_operator: Callable[..., OperatorProcess],
) -> None:
    credentials = form(plane, cluster, tmp_path, proxy.port)
    credentials.begin()
    elect = ("--leader-elect", f"--leader-elect-namespace={cluster.namespace}", "--leader-elect-lease-duration=6s")
    elect += ("--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=500ms")
    leader = start_operator(*elect, kubeconfig=credentials.kubeconfig)
    eventually(lambda: leader.metrics()["tfoperator_leader"] == 1, what="the first operator leads")
    standby = start_operator(*elect, kubeconfig=credentials.kubeconfig)
    cluster.submit(tfjob("before", Worker=1))
    cluster.wait_condition("before", "Created", 60)

    credentials.replace()
    proxy.cut()
    proxy.restore()
    cluster.submit(tfjob("after", Worker=1))
    cluster.wait_condition("after", "Created", 60)
    assert leader.metrics()["tfoperator_leader"] == 1, "the leader goes on"
    leader.kill()
    cluster.submit(tfjob("by-the-standby", Worker=1))
    cluster.wait_condition("by-the-standby", "Created", 60)
    standby.wait_ready()
