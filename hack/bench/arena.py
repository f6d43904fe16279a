"""A fresh control plane for one run, the same for every contestant: API server, etcd, kwok as kubelet, one node."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from hack import gobuild
from hack.bench.loads import FINISH_LABEL, FINISH_SECONDS, NAMESPACE, NODE
from hack.bench.measure import AUDIT_POLICY, CONTESTANT_USER, AuditLog, Snapshot, Usage, read_usage
from hack.bench.raw_http import RawClient, RequestFailed
from hack.controlplane import ControlPlane

__all__ = ["Arena", "arena"]

Json = dict[str, Any]

_GROUPS = "system:serviceaccounts,system:serviceaccounts:bench-system,system:authenticated"
_CRD_SECONDS = 30.0

# A kubelet in three sentences: what is pending runs, what is marked finishes, what is to go goes. No pod address is
# handed out: nobody here reads it, and all contestants would pay for its being made.
_STAGES = f"""
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  manageAllNodes: true
  nodeLeaseDurationSeconds: 0
  podPlayStageParallelism: 16
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {{name: pod-run}}
spec:
  resourceRef: {{apiGroup: v1, kind: Pod}}
  selector:
    matchExpressions:
    - {{key: .metadata.deletionTimestamp, operator: DoesNotExist}}
    - {{key: .status.phase, operator: In, values: [Pending]}}
  next:
    statusTemplate: |
      {{{{ $now := Now }}}}
      phase: Running
      startTime: {{{{ $now | Quote }}}}
      conditions:
      - {{type: Initialized, status: "True", lastTransitionTime: {{{{ $now | Quote }}}}}}
      - {{type: Ready, status: "True", lastTransitionTime: {{{{ $now | Quote }}}}}}
      - {{type: ContainersReady, status: "True", lastTransitionTime: {{{{ $now | Quote }}}}}}
      containerStatuses:
      {{{{ range .spec.containers }}}}
      - name: {{{{ .name | Quote }}}}
        image: {{{{ .image | Quote }}}}
        ready: true
        started: true
        restartCount: 0
        state: {{running: {{startedAt: {{{{ $now | Quote }}}}}}}}
      {{{{ end }}}}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {{name: pod-finish}}
spec:
  resourceRef: {{apiGroup: v1, kind: Pod}}
  selector:
    matchExpressions:
    - {{key: .metadata.deletionTimestamp, operator: DoesNotExist}}
    - {{key: '.metadata.labels["{FINISH_LABEL}"]', operator: Exists}}
    - {{key: .status.phase, operator: In, values: [Running]}}
  delay: {{durationMilliseconds: {FINISH_SECONDS * 1000}}}
  next:
    statusTemplate: |
      {{{{ $now := Now }}}}
      phase: Succeeded
      containerStatuses:
      {{{{ range .spec.containers }}}}
      - name: {{{{ .name | Quote }}}}
        image: {{{{ .image | Quote }}}}
        ready: false
        started: false
        restartCount: 0
        state:
          terminated:
            exitCode: 0
            reason: Completed
            startedAt: {{{{ $now | Quote }}}}
            finishedAt: {{{{ $now | Quote }}}}
      {{{{ end }}}}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {{name: pod-delete}}
spec:
  resourceRef: {{apiGroup: v1, kind: Pod}}
  selector:
    matchExpressions:
    - {{key: .metadata.deletionTimestamp, operator: Exists}}
  next:
    finalizers: {{empty: true}}
    delete: true
"""


class Arena:
    """What a run has to work with. `client` is the benchmark's own, `contestant` goes by the contestant's name."""

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
def arena() -> Iterator[Arena]:
    """A running arena; everything in it is stopped and removed afterwards. Raises ControlPlaneError, BuildError."""
    with tempfile.TemporaryDirectory(prefix="tfoperator-bench-") as folder:
        plane = ControlPlane(Path(folder), users={CONTESTANT_USER: _GROUPS}, audit_policy=AUDIT_POLICY)
        plane.start()
        try:
            one = Arena(plane)
            one.prepare()
            with _kwok(plane):
                try:
                    yield one
                finally:
                    one.close()
        finally:
            plane.stop()


@contextmanager
def _kwok(plane: ControlPlane) -> Iterator[None]:
    config = plane.folder / "kwok.yaml"
    config.write_text(_STAGES)
    command = [str(gobuild.ensure("kwok")), f"--kubeconfig={plane.kubeconfig}", f"--config={config}"]
    with (plane.folder / "kwok.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
    finally:
        process.kill()  # it keeps nothing that is worth an orderly end
        process.wait(10)
