"""The Helm chart from `helm install` to `helm uninstall`, by Helm itself, in a cluster whose pods run."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hack import gobuild
from hack.chart import CHART
from hack.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.in_cluster import LIMIT, InCluster, Json, but_for_time, shell_job

RELEASE = "tfoperator"
CRD = "tfjobs.kubeflow.org"


class Helm:
    """`helm`, as an administrator types it for one namespace."""

    def __init__(self, system: InCluster, folder: Path) -> None:
        self._folder = folder
        self._common = (f"--kubeconfig={system.cluster.kubeconfig}", f"--namespace={system.namespace}")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(gobuild.find("helm")), *arguments, *self._common]
        home = {**os.environ, "HOME": str(self._folder)}  # it has caches and settings below its home
        return subprocess.run(command, capture_output=True, text=True, timeout=230, env=home, check=False)

    def __call__(self, *arguments: str) -> str:
        """Run Helm and return its output; if it fails, the test fails with its output."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def install(self, *flags: str, release: str = RELEASE) -> str:
        return self("install", release, str(CHART), "--wait", "--timeout=200s", *flags)

    def upgrade(self, values: Json, *flags: str) -> str:
        file = self._folder / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        return self("upgrade", RELEASE, str(CHART), "--wait", "--timeout=200s", f"--values={file}", *flags)


@pytest.fixture
def system(node_cluster: Cluster, tmp_path: Path) -> Iterator[InCluster]:
    """The namespace that docs/install.md makes; nothing but the CRD outlives the test."""
    namespace = InCluster(node_cluster, "tfoperator-system", tmp_path)
    namespace.kubectl("create", "namespace", namespace.namespace)
    namespace.kubectl("label", "namespace", namespace.namespace, "pod-security.kubernetes.io/enforce=restricted")
    yield namespace
    print(namespace.kubectl("get", "pods", "-o", "wide"))
    namespace.kubectl("delete", "namespace", namespace.namespace, "--timeout=100s", timeout=120)


@pytest.fixture
def team(node_cluster: Cluster, tmp_path: Path) -> Iterator[InCluster]:
    """A namespace with jobs."""
    namespace = InCluster(node_cluster, "team-helm", tmp_path)
    namespace.kubectl("create", "namespace", namespace.namespace)
    yield namespace
    namespace.kubectl("delete", "namespace", namespace.namespace, "--wait=false")


def trains(team: InCluster, name: str) -> None:
    """A job that comes now is seen to its end."""
    team.apply(shell_job(name, "exit 0"))
    team.wait(name, "Succeeded")


def running(team: InCluster, name: str) -> Json:
    """The status of a job with one replica, once nothing more is to come."""
    status: Json = team.get("tfjob", name).get("status", {})
    assert (status.get("phase"), status.get("ready")) == ("Running", "1/1"), status
    return status


def versions(system: InCluster) -> list[str]:
    return [version["name"] for version in system.get("crd", CRD)["spec"]["versions"]]


@pytest.mark.timeout(900)
def test_a_release_from_its_installation_to_its_end(system: InCluster, team: InCluster, tmp_path: Path) -> None:
    helm = Helm(system, tmp_path)

    # A CRD that Helm hasn't made isn't overwritten by accident.
    system.kubectl("apply", "--server-side", "-f", "-", stdin=system.cli.run("crd").stdout)
    refused = helm.run("install", RELEASE, str(CHART))
    assert refused.returncode == 1
    assert CRD in refused.stderr
    assert "cannot be imported into the current release" in refused.stderr
    output = helm.install("--take-ownership", "--force-conflicts")
    assert "runs TFJobs in all namespaces" in output
    assert f"kubectl -n {system.namespace} rollout status deployment/{RELEASE}" in output

    assert "Phase:          Succeeded" in helm("test", RELEASE, "--timeout=120s")
    trains(team, "after-install")
    team.apply(shell_job("long", "trap 'exit 0' TERM; sleep 1000 & wait"))
    status = eventually(lambda: running(team, "long"), within=LIMIT, every=0.3, what="its status is complete")
    pods = team.pod_uids("long")

    # An upgrade reaches CRD, configuration and rights, and disturbs no job.
    values = {"webhook": {"enabled": True}, "config": {"restart-delay-cap": "10m"}}
    helm.upgrade(values, "--force-conflicts")
    assert versions(system) == ["v1", "v1alpha2"]
    # It is served once the operator has written the webhook into the CRD, and API server and kube-proxy have seen it.
    get = ("get", "tfjobs.v1alpha2.kubeflow.org", "long", "-o", "jsonpath={.spec.tfReplicaSpecs}")
    eventually(lambda: "sleep 1000" in team.kubectl(*get), within=LIMIT, every=0.5, what="v1alpha2 is served")
    authority = system.get("crd", CRD)["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]
    helm.upgrade({**values, "logFormat": "text"})
    # Helm must not take away the operator's own changes of the CRD.
    assert system.get("crd", CRD)["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == authority
    trains(team, "after-upgrade")

    # Back to v1 alone, as it was. By itself, Helm 4 applies what it knows, and leaves the authority; but a CRD can't
    # have an authority without a webhook.
    helm("rollback", RELEASE, "1", "--wait", "--timeout=200s", "--server-side=false")
    assert versions(system) == ["v1"]
    assert system.get("crd", CRD)["spec"]["conversion"] == {"strategy": "None"}
    trains(team, "after-rollback")
    after = team.get("tfjob", "long")["status"]
    assert team.pod_uids("long") == pods
    assert but_for_time(after) == but_for_time(status)

    # The jobs outlive the operator; what it has made itself stays in its namespace.
    helm("uninstall", RELEASE, "--wait", "--timeout=200s")
    eventually(lambda: not system.list("pods"), within=LIMIT, every=0.3, what="the operator's pods have ended")
    left = system.kubectl("get", "all,secrets,leases,configmaps,serviceaccounts,roles,rolebindings", "-o", "name")
    assert set(left.split()) == {
        "configmap/kube-root-ca.crt",
        "serviceaccount/default",
        "lease.coordination.k8s.io/tfoperator",
        "secret/tfoperator-webhook-cert",
    }
    assert not system.list("clusterrole,clusterrolebinding", "-l", "app.kubernetes.io/name=tfoperator")
    assert team.pod_uids("long") == pods
    assert team.get("pod", "long-worker-0")["status"]["phase"] == "Running"

    # Another release finds the CRD of the first, and goes on with its jobs.
    helm.install("--set=crds.install=false", release="other")
    trains(team, "after-all")
    team.kubectl("delete", "tfjob", "long", "--wait", "--timeout=100s", timeout=120)
    helm("uninstall", "other", "--wait", "--timeout=200s")
