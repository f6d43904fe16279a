"""Kueue on a real API server: its CRDs, its rights, its webhooks and its manager, and queues for tests.

Its webhooks are asked about every TFJob of the cluster, so whoever starts it has a control plane of its own.
"""

import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from hack import gobuild
from hack.controlplane import ControlPlane
from hack.processes import end_process, free_port, spawn, tail
from tests.support.cluster import Cluster, Json, decode
from tests.support.eventually import eventually, eventually_holds
from tests.support.kubectl import Kubectl
from tests.support.large_yaml import loaded
from tests.support.operator_process import ask
from tfoperator.base.clock import SystemClock
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.resources import NAMESPACES, SECRETS, Resource
from tfoperator.servers.certificates.pem import make_authority, make_certificate

KUEUE_USER = "system:serviceaccount:kueue-system:kueue-controller-manager"
KUEUE_GROUPS = "system:serviceaccounts,system:serviceaccounts:kueue-system,system:authenticated"

PODS_READY_SECONDS = 30
"""How long Kueue waits for the pods of a job that it has admitted, before it takes the quota back."""

_GROUP, _VERSION = "kueue.x-k8s.io", "v1beta2"
CLUSTER_QUEUES = Resource(_GROUP, _VERSION, "ClusterQueue", "clusterqueues", namespaced=False)
LOCAL_QUEUES = Resource(_GROUP, _VERSION, "LocalQueue", "localqueues")
FLAVORS = Resource(_GROUP, _VERSION, "ResourceFlavor", "resourceflavors", namespaced=False)
TOPOLOGIES = Resource(_GROUP, _VERSION, "Topology", "topologies", namespaced=False)
ADMISSION_CHECKS = Resource(_GROUP, _VERSION, "AdmissionCheck", "admissionchecks", namespaced=False)
PRIORITIES = Resource(_GROUP, _VERSION, "WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False)
MULTIKUEUE_CONFIGS = Resource(_GROUP, _VERSION, "MultiKueueConfig", "multikueueconfigs", namespaced=False)
MULTIKUEUE_CLUSTERS = Resource(_GROUP, _VERSION, "MultiKueueCluster", "multikueueclusters", namespaced=False)
MUTATING = Resource(
    "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False
)
VALIDATING = Resource(
    "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False
)

_NAMESPACE = "kueue-system"
_CONVERTED = ("localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters")
"""Kinds of which Kueue serves two versions, by its own webhook."""
_WEBHOOKS = ("tfjob", "clusterqueue", "resourceflavor", "workload", "cohort")


class _Webhooks:
    """Where Kueue's webhooks are, and the authority that signed their certificate."""

    def __init__(self, folder: Path, port: int) -> None:
        now, day = SystemClock().now(), timedelta(days=1)
        authority = make_authority("kueue", now, day)
        served = make_certificate(authority, ["127.0.0.1"], now, day)
        self.folder = folder / "certificates"
        self.folder.mkdir()
        (self.folder / "tls.crt").write_bytes(served.certificate)
        (self.folder / "tls.key").touch(mode=0o600)
        (self.folder / "tls.key").write_bytes(served.key)
        self.port = port
        self._bundle = authority.certificate

    def client_config(self, path: str) -> Json:
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": _base64(self._bundle)}


class Kueue:
    """Kueue's manager as a process, which can be killed and started again, also with another configuration."""

    def __init__(self, plane: ControlPlane, folder: Path, webhooks: _Webhooks) -> None:
        self._plane = plane
        self._folder = folder
        self._webhooks = webhooks
        self._members: Json = {}
        self._health_port = free_port()
        self.log = folder / "kueue.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **configuration: Any) -> None:
        """Start it, and return when it is ready. `configuration` stays for the starts after it."""
        self._members |= configuration
        members = _configuration(self._webhooks, self._health_port) | self._members
        config = self._folder / "kueue.json"
        config.write_text(json.dumps({name: value for name, value in members.items() if value is not None}))
        kubeconfig = self._plane.kubeconfig_for(KUEUE_USER)
        self._process = spawn([gobuild.find("kueue"), f"--config={config}", f"--kubeconfig={kubeconfig}"], self.log)
        eventually(self._is_ready, within=90, every=0.05, what="Kueue is ready")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(60)

    def restart(self, integrations: Json) -> None:
        """Kill it, and start it with these integrations."""
        self.kill()
        self.start(integrations=integrations)

    def end(self) -> None:
        process = self._process
        if process is not None:
            end_process(process.pid, lambda: process.poll() is not None)
        print(f"--- {self.log.name}\n{tail(self.log, 30)}")

    def check(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, f"Kueue ended:\n{tail(self.log, 20)}"

    def _is_ready(self) -> bool:
        self.check()
        try:
            return ask(self._health_port, "/readyz")[0] == 200
        except OSError:
            return False


@contextmanager
def kueue(plane: ControlPlane, client: Client, folder: Path, **configuration: Any) -> Iterator[Kueue]:
    """Kueue, ready; it ends with the block, and its log is in the folder. The plane needs the user `KUEUE_USER`.

    `configuration` replaces members of Kueue's configuration; None leaves one out.
    """
    source = gobuild.module_folder("kueue", "sigs.k8s.io/kueue") / "config/components"
    webhooks = _Webhooks(folder, free_port())
    client.create(NAMESPACES, "", {"metadata": {"name": _NAMESPACE}}, decode)
    kubectl = Kubectl(plane.kubeconfig)
    _install_crds(client, source / "crd/bases", webhooks)
    _wait_discovered(kubectl, source / "crd/bases")
    _grant(kubectl, source / "rbac")
    manager = Kueue(plane, folder, webhooks)
    try:
        manager.start(**configuration)
        _register(client, source / "webhook/manifests.yaml", webhooks)
        yield manager
        manager.check()
    finally:
        manager.end()


def _configuration(webhooks: _Webhooks, health_port: int) -> Json:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": _NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhooks.port, "certDir": str(webhooks.folder)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["kubeflow.org/tfjob"]},
        "clientConnection": {"qps": 200, "burst": 400},
        "waitForPodsReady": {
            "timeout": f"{PODS_READY_SECONDS}s",
            "blockAdmission": False,
            "requeuingStrategy": {"timestamp": "Eviction", "backoffBaseSeconds": 1, "backoffMaxSeconds": 2},
        },
    }


def _install_crds(client: Client, folder: Path, webhooks: _Webhooks) -> None:
    for path in sorted(folder.glob("*.yaml")):
        crd = loaded(path.read_text())
        if crd["spec"]["names"]["plural"] in _CONVERTED:
            webhook = {"clientConfig": webhooks.client_config("/convert"), "conversionReviewVersions": ["v1"]}
            crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        Cluster(client).install_crd(crd)


def _wait_discovered(kubectl: Kubectl, folder: Path) -> None:
    """Return when all kinds are in the list of kinds, which comes after they are served: else Kueue would end."""
    crds = [loaded(path.read_text()) for path in folder.glob("*.yaml")]
    wanted = {
        (version["name"], crd["spec"]["names"]["plural"])
        for crd in crds
        for version in crd["spec"]["versions"]
        if version["served"]
    }
    versions = {version for version, _ in wanted}

    def are_listed() -> None:
        listed = set()
        for version in versions:
            done = kubectl.run("get", "--raw", f"/apis/{_GROUP}/{version}")
            assert done.returncode == 0, done.stderr
            listed |= {(version, resource["name"]) for resource in json.loads(done.stdout)["resources"]}
        assert wanted <= listed, wanted - listed

    eventually_holds(are_listed, every=0.1, what="Kueue's kinds are listed")


def _grant(kubectl: Kubectl, folder: Path) -> None:
    """Kueue's own roles, and no right beside them."""
    kubectl("apply", "--server-side", "-f", str(folder / "role.yaml"))
    role = (folder / "manager_secrets_role.yaml").read_text().replace("namespace: system", f"namespace: {_NAMESPACE}")
    kubectl("apply", "--server-side", "-f", "-", stdin=role)
    user = f"--user={KUEUE_USER}"
    kubectl("create", "clusterrolebinding", "kueue", "--clusterrole=manager-role", user)
    kubectl("create", "rolebinding", "kueue", "-n", _NAMESPACE, "--role=manager-secrets-role", user)


def _register(client: Client, manifests: Path, webhooks: _Webhooks) -> None:
    wanted = {f"{prefix}{name}.kb.io" for name in _WEBHOOKS for prefix in "mv"}
    resources = {resource.kind: resource for resource in (MUTATING, VALIDATING)}
    for document in yaml.safe_load_all(manifests.read_text()):
        chosen = [webhook for webhook in document["webhooks"] if webhook["name"] in wanted]
        for webhook in chosen:
            webhook["clientConfig"] = webhooks.client_config(webhook["clientConfig"]["service"]["path"])
        body = {"metadata": {"name": "kueue"}, "webhooks": chosen}
        client.create(resources[document["kind"]], "", body, decode)


def connect_cluster(client: Client, name: str, worker: ControlPlane, user: str) -> None:
    """Tell Kueue in the client's cluster of a worker cluster, which it asks as this user of the worker's plane."""
    config = json.loads(worker.kubeconfig_for(user).read_text())
    # Kueue refuses a kubeconfig that names files.
    cluster = config["clusters"][0]["cluster"]
    cluster["certificate-authority-data"] = _base64(Path(cluster.pop("certificate-authority")).read_bytes())
    secret = {"metadata": {"name": name}, "data": {"kubeconfig": _base64(json.dumps(config).encode())}}
    client.create(SECRETS, _NAMESPACE, secret, decode)
    source = {"kubeConfig": {"locationType": "Secret", "location": name}}
    create(client, MULTIKUEUE_CLUSTERS, {"metadata": {"name": name}, "spec": {"clusterSource": source}})


def create(client: Client, resource: Resource, body: Json, namespace: str = "") -> None:
    """Make an object of Kueue's, which has to say what it is."""
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    client.create(resource, namespace, kind | body, decode)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def cluster_queue(name: str, cpu: int, flavor: str, **spec: Any) -> Json:
    """A queue of the cluster with so many CPUs of a flavor; jobs of higher priority preempt others."""
    quota = {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    return {
        "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
            "preemption": {"withinClusterQueue": "LowerPriority"},
            **spec,
        },
    }
