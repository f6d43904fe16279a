"""Common parts of the tests of Kueue: one control plane with Kueue and an operator, and queues for each test."""

import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hack.chart import MANIFESTS
from hack.controlplane import ControlPlane, control_plane
from hack.faults.oracle.history import true_conditions
from tests.e2e.conftest import AUDIT_POLICY, OPERATOR_GROUPS, OPERATOR_USER
from tests.e2e.gang import gang_job
from tests.support.audit import Right, wait_allowed
from tests.support.cli import Cli
from tests.support.cluster import Cluster, Json, decode, find
from tests.support.eventually import eventually, eventually_holds
from tests.support.gang_schedulers import COSCHEDULING, install_coscheduling_crds
from tests.support.kubectl import Kubectl
from tests.support.kueue import (
    CLUSTER_QUEUES,
    FLAVORS,
    KUEUE_GROUPS,
    KUEUE_USER,
    LOCAL_QUEUES,
    Kueue,
    cluster_queue,
    create,
    kueue,
)
from tests.support.operated import JobOnCluster
from tests.support.operator_process import OperatorProcess
from tfoperator.api.kueue.queues import JOB_UID_LABEL, QUEUE_LABEL
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.kube import ListOptions
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.resources import DEPLOYMENTS, Resource
from tfoperator.sdk import JobQueue, QueueState, TFJobClient

PATIENCE = 150
"""Seconds. Kueue looks again at what it has taken back after some, on a busy machine later."""

_numbers = itertools.count(1)


ON: Json = {"frameworks": ["kubeflow.org/tfjob"]}
OFF: Json = {"frameworks": ["batch/job"], "externalFrameworks": ["TFJob.v1.kubeflow.org"]}
"""Kueue's `integrations` with its own framework for TFJobs, and as the operator has it with --kueue."""

_OVERLAY = MANIFESTS / "overlays/kueue"


class Queues:
    """A namespace whose queues a test uses."""

    kueue: Kueue
    operator: OperatorProcess

    def __init__(self, cluster: Cluster, plane: ControlPlane, *, ours: bool = False) -> None:
        """`ours`: the operator drives Workloads, and Kueue's own framework for TFJobs is off."""
        self.plane = plane
        self.ours = ours
        self.client = cluster.client
        self.kubeconfig = plane.kubeconfig
        self._use(cluster)

    def move_to(self, cluster: Cluster) -> None:
        """Make that namespace, and go on in it."""
        cluster.create_namespace()
        self._use(cluster)

    def _use(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.namespace = cluster.namespace
        self.kubectl = Kubectl(self.plane.kubeconfig, self.namespace)
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

        def is_active() -> None:
            queue = find(self.client, LOCAL_QUEUES, self.namespace, name) or {}
            assert "Active" in true_conditions(queue.get("status", {})), queue

        if active:
            eventually_holds(is_active, within=PATIENCE, every=0.05, what=f"{name} is active")
        return name

    def set_stop_policy(self, queue: str, policy: str) -> None:
        self.client.patch(CLUSTER_QUEUES, "", queue, {"spec": {"stopPolicy": policy}}, decode)

    def set_active(self, workload: str, active: bool) -> None:
        self.client.patch(WORKLOADS, self.namespace, workload, {"spec": {"active": active}}, decode)

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
        """Wait until the SDK reports this state of the job in its queue, in these words."""

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
        """Wait until the job has no pods, and its conditions give quota, or the suspension by Kueue, as the reason."""
        job.wait_pods(within=PATIENCE)

        def is_held() -> None:
            conditions = job.conditions()
            condition = conditions.get("Admitted" if self.ours else "Suspended", {})
            assert condition.get("status") == ("False" if self.ours else "True"), conditions
            suspended = conditions.get("Suspended", {}).get("status") == "True"
            assert suspended != self.ours, "waiting for quota and suspension by a person are shown as two"

        eventually_holds(is_held, within=PATIENCE, every=0.1, what=f"{job.name} is held")

    def workloads(self, job: JobOnCluster) -> list[Json]:
        options = ListOptions(label_selector=f"{JOB_UID_LABEL}={job.uid}")
        return list(self.client.list(WORKLOADS, self.namespace, decode, options).items)

    def workload(self, job: JobOnCluster, *, other_than: str = "") -> Json:
        """Return Kueue's record of the job, once it is there, with another UID than `other_than`."""

        def there() -> Json | None:
            return next(
                (workload for workload in self.workloads(job) if workload["metadata"]["uid"] != other_than), None
            )

        return eventually(there, within=PATIENCE, every=0.05, what=f"Workload of {job.name}") or {}

    def wait_reserved(self, queue: str, cpu: int) -> None:
        """Wait until Kueue's status shows that so many CPUs of the queue are given away."""

        def reserved() -> None:
            status = self.client.get(CLUSTER_QUEUES, "", queue, decode).get("status") or {}
            usage = [
                resource["total"] for each in status.get("flavorsReservation") or () for resource in each["resources"]
            ]
            assert [int(total) for total in usage] == [cpu], usage

        eventually_holds(reserved, within=PATIENCE, every=0.1, what=f"{cpu} CPUs of {queue} are given away")

    def deployment(self, name: str) -> Json | None:
        return find(self.client, DEPLOYMENTS, self.namespace, name)


def _apply_with_gangs(plane: ControlPlane, admin: Client, folder: Path) -> None:
    """Give the operator the rights of both components, and the cluster the CRD of the coscheduling plugin."""
    parts = {"resources": ["base"], "components": ["components/kueue", "components/scheduler-plugins"]}
    paths = {kind: [os.path.relpath(MANIFESTS / name, folder) for name in names] for kind, names in parts.items()}
    (folder / "kustomization.yaml").write_text(json.dumps(paths))
    Kubectl(plane.kubeconfig)("apply", "--server-side", "-k", str(folder))
    install_coscheduling_crds(admin)
    wait_allowed(admin, OPERATOR_USER, Right("scheduling.x-k8s.io", "podgroups", "list"))


@contextmanager
def queues_of(folder: Path, mode: str, *flags: str, gangs: bool = False, **configuration: Any) -> Iterator[Queues]:
    """A cluster with Kueue and an operator: Kueue's framework is on ("theirs"), --kueue is ("ours"), or "both" are.

    The operator has the rights of the overlay and no others, and the audit log has each of its requests. The API
    server gets the `flags`. With `gangs` each job has a PodGroup, too, of the coscheduling plugin.
    """
    users = {KUEUE_USER: KUEUE_GROUPS, OPERATOR_USER: OPERATOR_GROUPS}
    with ExitStack() as stack:
        # A control plane of its own: API servers send each job of a cluster to Kueue's webhooks.
        plane = stack.enter_context(control_plane(users=users, audit_policy=AUDIT_POLICY, api_server_flags=flags))
        admin = stack.enter_context(Client(load_config(str(plane.kubeconfig))))
        cluster = Cluster(admin)
        cluster.create_namespace()
        if gangs:
            _apply_with_gangs(plane, admin, folder)
        else:
            Kubectl(plane.kubeconfig)("apply", "--server-side", "-k", str(_OVERLAY))
        wait_allowed(admin, OPERATOR_USER, Right("kueue.x-k8s.io", "workloads", "list"))
        queues = Queues(cluster, plane, ours=mode == "ours")
        integrations = OFF if mode == "ours" else ON
        queues.kueue = stack.enter_context(kueue(plane, admin, folder, integrations=integrations, **configuration))
        options = ("--default-ps-image=example.invalid/ps:1", f"--kueue={mode != 'theirs'}")
        options += (f"--gang-scheduler-name={COSCHEDULING}",) if gangs else ()
        operator = OperatorProcess(plane.kubeconfig_for(OPERATOR_USER), folder, "operator", *options)
        queues.operator = stack.enter_context(operator).wait_ready()
        yield queues


@pytest.fixture(scope="module", params=["theirs", "ours"])
def queues(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    """For a file: such a cluster in either of the modes."""
    with queues_of(tmp_path_factory.mktemp("kueue"), request.param) as started:
        yield started


class Commands:
    """`tfoperator` against the namespace of the queues."""

    def __init__(self, queues: Queues, folder: Path) -> None:
        self._cli = Cli(folder)
        self._where = ("--kubeconfig", str(queues.kubeconfig), "-n", queues.namespace)

    def __call__(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self._cli.run(*arguments, *self._where, code=code, timeout=120)


def node_selector(pod: Json) -> Json:
    return dict(pod["spec"].get("nodeSelector") or {})


def with_template(manifest: Json, kind: str, change: Json) -> Json:
    """The manifest, with a change of a type's template."""
    template = manifest["spec"]["tfReplicaSpecs"][kind]["template"]
    template["metadata"] = change.get("metadata", {})
    template["spec"] |= change.get("spec", {})
    return manifest
