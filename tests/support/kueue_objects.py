"""Kueue's objects without Kueue: Workloads as it writes them, on an embedded API server that has them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hack.faults.simulation.pod_groups import OPEN, crd_of
from tests.support.cluster import Json, decode, find
from tests.support.jobs import JobWorld, write_kubeconfig
from tfoperator.api.kueue.queues import JOB_UID_LABEL, QUEUE_LABEL
from tfoperator.api.kueue.workloads import WORKLOAD_VERSIONS
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.local.apiserver.objects.custom_resources import custom_resource
from tfoperator.local.apiserver.objects.tfjobs import tfjobs
from tfoperator.local.apiserver.server import EmbeddedApiServer
from tfoperator.sdk import TFJobClient


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def no_quota(message: str = "insufficient unused quota for cpu in flavor default, 2 more needed") -> Json:
    return condition("QuotaReserved", "False", "Pending", message)


def workload(job: Json, *conditions: Json, name: str = "", spec: Json | None = None, **status: Any) -> Json:
    """The Workload of a job; `status` has the other members of it."""
    meta = job["metadata"]
    return {
        "apiVersion": WORKLOAD_VERSIONS[-1].api_version,
        "kind": "Workload",
        "metadata": {"name": name or f"tfjob-{meta['name']}", "labels": {JOB_UID_LABEL: meta["uid"]}},
        "spec": {"queueName": meta.get("labels", {}).get(QUEUE_LABEL, ""), **(spec or {})},
        "status": {"conditions": list(conditions), **status},
    }


class QueueWorld(JobWorld):
    """A namespace of an API server that has Workloads, in one version."""

    def __init__(self, client: Client, version: str, server: EmbeddedApiServer, folder: Path) -> None:
        super().__init__(client)
        self.resource = next(resource for resource in WORKLOAD_VERSIONS if resource.version == version)
        self.server = server
        self.kubeconfig = write_kubeconfig(folder / "kubeconfig", server.kubeconfig(), self.namespace)
        self.sdk = TFJobClient(namespace=self.namespace, client=client)

    def queue(self, name: str = "mnist", queue: str = "research") -> Json:
        """A job in a queue, suspended as Kueue's webhook does."""
        job = self.submit(name, {QUEUE_LABEL: queue}, Worker=2)
        self.client.patch(TFJOBS, self.namespace, name, {"spec": {"runPolicy": {"suspend": True}}}, decode)
        self.becomes("Suspended", name)
        return job

    def admits(self, job: Json, *conditions: Json, **more: Any) -> Json:
        """Kueue's record of the job, new or changed."""
        body = workload(job, *conditions, **more) | {"apiVersion": self.resource.api_version}
        name = body["metadata"]["name"]
        if find(self.client, self.resource, self.namespace, name) is None:
            self.client.create(self.resource, self.namespace, body, decode)
        status = {"status": body["status"]}
        return self.client.patch(self.resource, self.namespace, name, status, decode, subresource="status")


@contextmanager
def queue_world(folder: Path, version: str = "v1beta1") -> Iterator[QueueWorld]:
    """Such a namespace, whose server ends with the block."""
    [resource] = [resource for resource in WORKLOAD_VERSIONS if resource.version == version]
    crd = crd_of(resource, {"spec": OPEN, "status": OPEN})
    custom = (*tfjobs(), custom_resource(crd))
    with EmbeddedApiServer(custom_resources=custom) as server:
        kubeconfig = write_kubeconfig(folder / "admin", server.kubeconfig(), "default")
        with Client(load_config(str(kubeconfig))) as client:
            yield QueueWorld(client, version, server, folder)
