"""What the tests of Kueue share: one control plane with Kueue and an operator, and queues for each test."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path
from typing import Any

from hack.controlplane import ControlPlane
from tests.e2e.gang import gang_job
from tests.support.cli import Cli
from tests.support.cluster import Cluster, Json, find
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tests.support.kueue import CLUSTER_QUEUES, FLAVORS, LOCAL_QUEUES, cluster_queue, create
from tests.support.operated import JobOnCluster
from tfoperator.api.queues import QUEUE_LABEL
from tfoperator.kube.resources import DEPLOYMENTS, Resource
from tfoperator.sdk import JobQueue, QueueState, TFJobClient

PATIENCE = 90
"""Seconds. Kueue looks again at what it has taken back after some, on a busy machine later."""

_numbers = itertools.count(1)


class Queues:
    """A namespace whose queues a test uses."""

    def __init__(self, cluster: Cluster, plane: ControlPlane, *, ours: bool = False) -> None:
        """`ours`: the operator drives Workloads, and Kueue's own framework for TFJobs is off."""
        self.ours = ours
        self.cluster = cluster
        self.client = cluster.client
        self.namespace = cluster.namespace
        self.kubectl = Kubectl(plane.kubeconfig, self.namespace)
        self.kubeconfig = plane.kubeconfig
        self.sdk = TFJobClient(namespace=self.namespace, client=self.client)

    def create(self, resource: Resource, body: Json) -> None:
        create(self.client, resource, body, self.namespace if resource.namespaced else "")

    def queue(self, cpu: int, *, name: str = "", flavor: Json | None = None, active: bool = True, **spec: Any) -> str:
        """A new queue with so many CPUs; `flavor` is the spec of its own flavor of nodes, `spec` its own.

        With `active` it waits until Kueue admits jobs from it.
        """
        name = name or f"queue-{next(_numbers)}"
        self.create(FLAVORS, {"metadata": {"name": name}, "spec": flavor or {}})
        self.create(CLUSTER_QUEUES, cluster_queue(name, cpu, name, **spec))
        self.create(LOCAL_QUEUES, {"metadata": {"name": name}, "spec": {"clusterQueue": name}})

        def is_active() -> bool:
            found = find(self.client, LOCAL_QUEUES, self.namespace, name) or {}
            conditions = found.get("status", {}).get("conditions", ())
            assert any(one["type"] == "Active" and one["status"] == "True" for one in conditions), conditions
            return True

        if active:
            eventually(is_active, within=PATIENCE, every=0.05, what=f"{name} is active")
        return name

    def submit(self, name: str, queue: str, *, labels: Json | None = None, **options: Any) -> JobOnCluster:
        """A job each of whose replicas asks for a CPU; `options` as in `gang_job`."""
        return self.submit_manifest(self.manifest(name, queue, labels=labels, **options))

    def manifest(self, name: str, queue: str, *, labels: Json | None = None, **options: Any) -> Json:
        made = gang_job(name, **options)
        made["metadata"]["labels"] = {**({QUEUE_LABEL: queue} if queue else {}), **(labels or {})}
        return made

    def submit_manifest(self, manifest: Json) -> JobOnCluster:
        return JobOnCluster(self.cluster, self.cluster.submit(manifest))

    def wait_queue(self, job: JobOnCluster, state: QueueState, *words: str) -> JobQueue:
        """Wait until the SDK says that the job stands so in its queue, in these words."""

        def stands() -> JobQueue:
            queue = self.sdk.get_job_queue(job.name)
            assert queue is not None
            assert queue.state is state, str(queue)
            assert all(word in queue.message for word in words), str(queue)
            return queue

        return eventually(stands, within=PATIENCE, every=0.1, what=f"{job.name} is {state}: {words}")

    def wait_running(self, job: JobOnCluster, *replicas: str) -> dict[str, Json]:
        """Wait for these pods, and have them run."""
        pods = job.wait_pods(*replicas, within=PATIENCE)
        job.play("Running", *replicas, leads_to="Running")
        return pods

    def wait_held(self, job: JobOnCluster) -> None:
        """Wait until the job has no pods, and its conditions say that quota, or the suspension by Kueue, is why."""
        job.wait_pods(within=PATIENCE)

        def is_said() -> bool:
            conditions = job.conditions()
            found = conditions.get("Admitted" if self.ours else "Suspended", {})
            assert found.get("status") == ("False" if self.ours else "True"), conditions
            suspended = conditions.get("Suspended", {}).get("status") == "True"
            assert suspended != self.ours, "waiting for quota and suspension by a person are shown as two"
            return True

        eventually(is_said, within=PATIENCE, every=0.1, what=f"{job.name} is held")

    def deployment(self, name: str) -> Json | None:
        return find(self.client, DEPLOYMENTS, self.namespace, name)


class Commands:
    """`tfoperator` against the namespace of the queues."""

    def __init__(self, queues: Queues, folder: Path) -> None:
        self._cli = Cli(folder)
        self._where = ("--kubeconfig", str(queues.kubeconfig), "-n", queues.namespace)

    def __call__(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self._cli.run(*arguments, *self._where, code=code, timeout=120)


def node_selector(pod: Json) -> Json:
    return dict(pod["spec"].get("nodeSelector") or {})
