"""A fresh control plane for one run, the same for every contestant: API server, etcd, kwok as kubelet, one node."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import msgspec

from hack.bench.kwok import kwok
from hack.bench.loads import NAMESPACE, NODE
from hack.bench.measure import AUDIT_POLICY, CONTESTANT_USER, AuditLog, Snapshot, Usage, read_usage
from hack.bench.raw_http import RawClient, RequestFailed
from hack.controlplane import ControlPlane, control_plane

Json = dict[str, Any]

_GROUPS = "system:serviceaccounts,system:serviceaccounts:bench-system,system:authenticated"
_CRD_SECONDS = 30.0


class Environment:
    """What a run works with. `client` is the benchmark's own, `contestant` goes by the contestant's name."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.folder = plane.folder
        self.kubeconfig = plane.kubeconfig_for(CONTESTANT_USER)
        self.client = RawClient(plane.url, plane.ca_file, plane.token)
        self.contestant = RawClient(plane.url, plane.ca_file, plane.token_of(CONTESTANT_USER))
        self._audit = AuditLog(plane.audit_log)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()
        self.contestant.close()

    def create(self, path: str, manifest: Json) -> Json:
        """Create an object as administrator. Raises RequestFailed."""
        answer = self.client.request("POST", path, msgspec.json.encode(manifest))
        return msgspec.json.decode(answer, type=dict[str, Any])

    def list(self, path: str) -> list[Json]:
        """All objects of a collection."""
        return list(msgspec.json.decode(self.client.request("GET", path), type=dict[str, Any])["items"])

    def snapshot(self, operator: int | None) -> Snapshot:
        """Measure now; `operator` is the process of the contestant, if it has one."""
        usage = Usage() if operator is None else read_usage(operator)
        api_server = read_usage(self.plane.pids["kube-apiserver"])
        return Snapshot(time.monotonic(), usage, api_server, self._audit.counts())

    def install_crd(self, crd: Json) -> None:
        """Create a CRD and wait until its objects can be listed. Raises RequestFailed, TimeoutError."""
        self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        end = time.monotonic() + _CRD_SECONDS
        while time.monotonic() < end:
            try:
                self.client.request("GET", f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/tfjobs")
                return
            except RequestFailed:
                time.sleep(0.1)
        raise TimeoutError(f"TFJobs are not served {_CRD_SECONDS:.0f} s after their CRD was created")

    def prepare(self) -> None:
        """Make the node, the namespace, and the contestant an administrator."""
        self.create("/api/v1/nodes", {"metadata": {"name": NODE}})
        self.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        binding = {
            "metadata": {"name": "contestant"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": CONTESTANT_USER}],
        }
        self.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)


@contextmanager
def environment() -> Iterator[Environment]:
    """A running control plane with kwok, all gone afterwards. Raises ControlPlaneError, BuildError."""
    with control_plane(users={CONTESTANT_USER: _GROUPS}, audit_policy=AUDIT_POLICY) as plane:
        one = Environment(plane)
        one.prepare()
        with kwok(plane), closing(one):
            yield one
