"""The work of tests with an API server: make TFJobs, play the kubelet by writing pod status, look at the outcome."""

import itertools
from typing import Any

import msgspec

from hack import kubelet
from hack.faults.oracle.history import conditions_in, true_conditions
from tests.support.eventually import eventually
from tests.support.manifests import pod_status, tfjob
from tfoperator.api.replicas.names import CRD_NAME
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.errors import NotFoundError
from tfoperator.kube.protocol.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, NAMESPACES, PODS, SERVICES, Resource
from tfoperator.kube.protocol.verbs import ApiClient

__all__ = ["Cluster", "Json", "decode", "tfjob"]

Json = dict[str, Any]

_numbers = itertools.count(1)


def decode(data: bytes) -> Json:
    return msgspec.json.decode(data, type=dict[str, Any])


def find(client: ApiClient, resource: Resource, namespace: str, name: str) -> Json | None:
    """An object, or None if it is not there."""
    try:
        return client.get(resource, namespace, name, decode)
    except NotFoundError:
        return None


class Cluster:
    """One namespace of an API server, seen by a test."""

    def __init__(self, client: ApiClient, namespace: str = "") -> None:
        self.client = client
        self.namespace = namespace or f"test-{next(_numbers)}"

    def create_namespace(self) -> None:
        self.client.create(NAMESPACES, "", {"metadata": {"name": self.namespace}}, decode)

    def install_crd(self, crd: Json) -> None:
        """Create a CRD and wait until its objects are served, which they are once the API server has accepted it."""
        self.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd, decode)
        spec, names = crd["spec"], crd["spec"]["names"]
        resource = Resource(spec["group"], spec["versions"][0]["name"], names["kind"], names["plural"])

        def served() -> bool:
            try:
                self.client.list(resource, "", decode)
            except NotFoundError:
                return False
            return True

        eventually(served, what=f"{names['plural']} are served")

    def replace_crd_version(self, version: Json) -> None:
        """Make this version of the TFJobs' CRD its only version. The API server serves it a moment later."""
        changed = {"spec": {"versions": [version]}}
        self.client.patch(CUSTOM_RESOURCE_DEFINITIONS, "", CRD_NAME, changed, decode)

    def submit(self, job: Json) -> Json:
        return self.client.create(TFJOBS, self.namespace, job, decode)

    def job(self, name: str) -> Json:
        return self.client.get(TFJOBS, self.namespace, name, decode)

    def conditions(self, name: str) -> dict[str, Json]:
        return {c["type"]: c for c in conditions_in(self.job(name).get("status", {}))}

    def has_condition(self, name: str, kind: str) -> bool:
        return kind in true_conditions(self.job(name).get("status", {}))

    def wait_condition(self, name: str, kind: str, within: float = 60) -> Json:
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

    def run_pods(self, count: int) -> dict[str, Json]:
        """Wait until there are so many pods, and report that they run; they are as they were before that."""
        pods = self.wait_pods(count)
        for name in pods:
            self.set_phase(name, "Running")
        return pods

    def wait_pods(self, count: int, within: float = 60) -> dict[str, Json]:
        def there() -> dict[str, Json] | None:
            pods = self.pods()
            assert len(pods) == count, sorted(pods)
            return pods

        return eventually(there, within=within, every=0.05, what=f"{count} pods") or {}

    def set_phase(self, name: str, phase: str, **report: Any) -> None:
        """Play the kubelet: report a pod's phase, with its container's state to match; `report` as in `pod_status`."""
        status = pod_status(phase, **report)
        self.client.patch(PODS, self.namespace, name, {"status": status}, decode, subresource="status")

    def bind(self, name: str, node: str = "node-1") -> None:
        """Play the scheduler. The deletion of a pod on a node is graceful: it terminates until `end_pod`."""
        kubelet.bind(self.client, self.namespace, name, node)

    def delete_pod(self, name: str, *, grace_period_seconds: int | None = None) -> None:
        """Delete a pod, as a user, an eviction or a node controller does."""
        self.client.delete(PODS, self.namespace, name, grace_period_seconds=grace_period_seconds)

    def end_pod(self, name: str) -> None:
        """Play the kubelet: the terminating pod's containers have stopped."""
        self.delete_pod(name, grace_period_seconds=0)

    def _by_name(self, resource: Resource) -> dict[str, Json]:
        items = self.client.list(resource, self.namespace, decode).items
        return {item["metadata"]["name"]: item for item in items}
