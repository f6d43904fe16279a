"""A fresh control plane for one run, the same for every contestant: API server, etcd, kwok as kubelet, one node."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote

import msgspec

from hack.bench.kwok import kwok
from hack.bench.loads import NAMESPACE, NODE
from hack.bench.measure import AUDIT_POLICY, CONTESTANT_USER, AuditLog, Snapshot, read_usage, total_usage
from hack.bench.paths import tfjobs_path
from hack.bench.raw_http import RawClient, RequestFailed
from hack.controlplane import ControlPlane, control_plane

Json = dict[str, Any]

_GROUPS = "system:serviceaccounts,system:serviceaccounts:bench-system,system:authenticated"
_EXEMPT_GROUP = "system:masters"
"""Whose requests are exempt from priority and fairness, in every cluster."""
_CRD_SECONDS = 30.0
_PAGE = 2000


class _PageMeta(msgspec.Struct):
    onwards: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    items: list[Json]
    metadata: _PageMeta


class Environment:
    """The things that a run needs. `client` is the benchmark's own, `contestant` has the contestant's name."""

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
        return list(self.each(path))

    def each(self, path: str) -> Iterator[Json]:
        """Yield the objects of a collection; only a page is in memory at a time, as there may be 100,000."""
        onwards = ""
        while True:
            answer = self.client.request("GET", f"{path}?limit={_PAGE}&continue={onwards}")
            page = msgspec.json.decode(answer, type=_Page)
            yield from page.items
            onwards = quote(page.metadata.onwards)
            if not onwards:
                return

    def snapshot(self, operator: Sequence[int]) -> Snapshot:
        """Measure now; `operator` are the processes of the contestant, if it has any."""
        usage = total_usage(operator)
        api_server = read_usage(self.plane.pids["kube-apiserver"])
        return Snapshot(time.monotonic(), usage, api_server, self._audit.counts())

    def install_crd(self, crd: Json) -> None:
        """Create a CRD and wait until its objects can be listed. Raises RequestFailed, TimeoutError."""
        self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        end = time.monotonic() + _CRD_SECONDS
        while time.monotonic() < end:
            try:
                self.client.request("GET", tfjobs_path(""))
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
def environment(*, exempt: bool = False) -> Iterator[Environment]:
    """A running control plane with kwok and the namespace of the jobs, all gone afterwards.

    `exempt`: the contestant's requests are not subject to priority and fairness. Raises ControlPlaneError, BuildError.
    """
    groups = f"{_EXEMPT_GROUP},{_GROUPS}" if exempt else _GROUPS
    with control_plane(users={CONTESTANT_USER: groups}, audit_policy=AUDIT_POLICY) as plane:
        new_environment = Environment(plane)
        new_environment.prepare()
        with kwok(plane), closing(new_environment):
            yield new_environment
