"""What tests do with an API server: make TFJobs, play the kubelet by writing pod status, look at the outcome."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from tests.support.eventually import eventually
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.errors import NotFoundError
from tfoperator.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, NAMESPACES, PODS, SERVICES, Resource
from tfoperator.kube.verbs import ApiClient

Json = dict[str, Any]

BINDINGS = Resource("", "v1", "Binding", "bindings")

_numbers = itertools.count(1)


def decode(data: bytes) -> Json:
    return msgspec.json.decode(data, type=dict[str, Any])


def tfjob(
    name: str,
    *,
    restart_policy: str = "Never",
    run_policy: Json | None = None,
    spec: Json | None = None,
    **replicas: int,
) -> Json:
    """A TFJob with so many replicas of each type, e.g. `tfjob("x", PS=1, Worker=2)`; `spec` is added to its spec."""
    container = {"name": "tensorflow", "image": "example.invalid/train:1", "command": ["train"]}
    template = {"spec": {"containers": [container]}}
    specs = {
        kind: {"replicas": count, "restartPolicy": restart_policy, "template": template}
        for kind, count in replicas.items()
    }
    whole: Json = {"tfReplicaSpecs": specs, **(spec or {})}
    if run_policy:
        whole["runPolicy"] = run_policy
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}, "spec": whole}


class Cluster:
    """One namespace of an API server, seen by a test."""

    def __init__(self, client: ApiClient, namespace: str = "") -> None:
        self.client = client
        self.namespace = namespace or f"test-{next(_numbers)}"

    def create_namespace(self) -> None:
        self.client.create(NAMESPACES, "", {"metadata": {"name": self.namespace}}, decode)

    def create_crd(self, crd: Json) -> None:
        """Create a CRD and wait until the API server has accepted it."""
        self.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd, decode)

        def established() -> bool:
            status = self.client.get(CUSTOM_RESOURCE_DEFINITIONS, "", crd["metadata"]["name"], decode).get("status", {})
            return any(c["type"] == "Established" and c["status"] == "True" for c in status.get("conditions") or ())

        eventually(established, within=30, what="the CRD is established")

    def install_crd(self, crd: Json) -> None:
        self.create_crd(crd)

        def served() -> bool:
            try:
                self.client.list(TFJOBS, "", decode)
            except NotFoundError:
                return False
            return True

        eventually(served, within=30, what="tfjobs are served")

    def submit(self, job: Json) -> Json:
        return self.client.create(TFJOBS, self.namespace, job, decode)

    def job(self, name: str) -> Json:
        return self.client.get(TFJOBS, self.namespace, name, decode)

    def conditions(self, name: str) -> dict[str, Json]:
        return {c["type"]: c for c in self.job(name).get("status", {}).get("conditions", [])}

    def has_condition(self, name: str, kind: str) -> bool:
        return self.conditions(name).get(kind, {}).get("status") == "True"

    def wait_condition(self, name: str, kind: str, within: float = 20) -> Json:
        def reached() -> Json | None:
            condition = self.conditions(name).get(kind, {})
            assert condition.get("status") == "True", self.job(name).get("status")
            return condition

        return eventually(reached, within=within, every=0.05, what=f"{name} is {kind}") or {}

    def pods(self) -> dict[str, Json]:
        return self._by_name(PODS)

    def services(self) -> dict[str, Json]:
        return self._by_name(SERVICES)

    def events(self) -> list[Json]:
        return list(self.client.list(EVENTS, self.namespace, decode).items)

    def wait_pods(self, count: int, within: float = 20) -> dict[str, Json]:
        def there() -> dict[str, Json] | None:
            pods = self.pods()
            assert len(pods) == count, sorted(pods)
            return pods

        return eventually(there, within=within, every=0.05, what=f"{count} pods") or {}

    def set_phase(
        self,
        name: str,
        phase: str,
        *,
        exit_code: int | None = None,
        ready: bool | None = None,
        restarts: int = 0,
        reason: str = "",
        disruption: str = "",
    ) -> None:
        """Play the kubelet: report a pod's phase, with its container's state to match.

        `restarts` is how often the container was restarted in place. `reason` is the pod's own (Evicted, NodeLost):
        such a pod tells of its container only if `exit_code` is given. `disruption` is the reason of a
        DisruptionTarget condition: PreemptionByScheduler, DeletionByTaintManager ...
        """
        container: Json = {"name": "tensorflow", "image": "x", "imageID": "x", "restartCount": restarts}
        container["ready"] = phase == "Running" if ready is None else ready
        if phase == "Running":
            container["state"] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        elif phase in ("Succeeded", "Failed"):
            code = exit_code if exit_code is not None else int(phase == "Failed")
            outcome = "Completed" if code == 0 else "Error"
            container["state"] = {"terminated": {"exitCode": code, "reason": outcome}}
        status: Json = {"phase": phase, "containerStatuses": [container]}
        if reason:
            status["reason"] = reason
            if exit_code is None and phase != "Running":
                del status["containerStatuses"]
        if disruption:
            status["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": disruption}]
        self.client.patch(PODS, self.namespace, name, {"status": status}, decode, subresource="status")

    def bind(self, name: str, node: str = "node-1") -> None:
        """Play the scheduler. The deletion of a pod on a node is graceful: it terminates until `end_pod`."""
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        self.client.create(BINDINGS, self.namespace, binding, decode)

    def delete_pod(self, name: str, *, grace_period_seconds: int | None = None) -> None:
        """What a user, an eviction or a node controller does."""
        self.client.delete(PODS, self.namespace, name, grace_period_seconds=grace_period_seconds)

    def end_pod(self, name: str) -> None:
        """Play the kubelet: the terminating pod's containers have stopped."""
        self.delete_pod(name, grace_period_seconds=0)

    def _by_name(self, resource: Resource) -> dict[str, Json]:
        items = self.client.list(resource, self.namespace, decode).items
        return {item["metadata"]["name"]: item for item in items}
