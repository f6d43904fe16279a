"""Credentials that are replaced under a leader and its standby, on a real API server: both use the new credentials."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hack.controlplane import ControlPlane
from tests.support.cluster import Cluster, tfjob
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.controlplane


class Account:
    """A service account with all rights, whose tokens end with the Secrets that they are bound to."""

    def __init__(self, plane: ControlPlane, cluster: Cluster, kubeconfig: Path) -> None:
        self._plane = plane
        self._namespace = cluster.namespace
        self._kubectl = Kubectl(plane.kubeconfig, cluster.namespace)
        self._kubeconfig = kubeconfig
        self._kubectl("create", "serviceaccount", "replaced")
        subject = f"--serviceaccount={self._namespace}:replaced"
        self._kubectl("create", "clusterrolebinding", self._namespace, "--clusterrole=cluster-admin", subject)

    def issue(self, name: str) -> None:
        """Write a new token into the kubeconfig, as a tool does that logs somebody in."""
        self._kubectl("create", "secret", "generic", name)
        bound = ("--bound-object-kind=Secret", f"--bound-object-name={name}", "--duration=1h")
        token = self._kubectl("create", "token", "replaced", *bound).strip()
        config = json.loads(self._plane.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        new = self._kubeconfig.with_suffix(".new")
        new.write_text(json.dumps(config))
        new.replace(self._kubeconfig)

    def revoke(self, name: str) -> None:
        self._kubectl("delete", "secret", name)


def test_a_token_in_a_kubeconfig_is_replaced_under_leader_and_standby(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path, start_operator: Callable[..., OperatorProcess]
) -> None:
    kubeconfig = tmp_path / "replaced"
    account = Account(plane, cluster, kubeconfig)
    account.issue("first")
    elect = ("--leader-elect", f"--leader-elect-namespace={cluster.namespace}", "--leader-elect-lease-duration=6s")
    elect += ("--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s")
    leader, standby = (start_operator(*elect, kubeconfig=kubeconfig) for _ in range(2))
    cluster.submit(tfjob("before", Worker=1))
    cluster.wait_condition("before", "Created", 60)

    account.issue("second")
    account.revoke("first")
    # The API server remembers a token for ten seconds.
    says = "its credentials are read again"
    for operator in (leader, standby):
        eventually(lambda operator=operator: says in operator.log.read_text(), within=60, what="the new token is read")
    cluster.submit(tfjob("after", Worker=1))
    cluster.wait_condition("after", "Created", 60)
    leader.kill()
    cluster.submit(tfjob("by-the-standby", Worker=1))
    cluster.wait_condition("by-the-standby", "Created", 60)
    standby.wait_ready()
