"""Two clusters that MultiKueue joins: jobs are created in the manager, and run in the worker.

Each has Kueue and our CRD. The worker has an operator; the manager has one for one of the two namespaces only, for a
platform engineer may have it either way.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hack.controlplane import ControlPlane, control_plane
from tests.e2e.queues import PATIENCE, Queues
from tests.support.audit import AuditTrail, audit_policy, granted, wait_allowed
from tests.support.cluster import Cluster, Json, decode, find
from tests.support.eventually import eventually, eventually_holds
from tests.support.kubectl import Kubectl
from tests.support.kueue import (
    ADMISSION_CHECKS,
    KUEUE_GROUPS,
    KUEUE_USER,
    MULTIKUEUE_CONFIGS,
    connect_cluster,
    create,
    kueue,
)
from tests.support.operated import JobOnCluster
from tests.support.operator_process import OperatorProcess
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.api.schema.crd import crd
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config

WORKER = "worker-1"
"""The worker, as the manager's Kueue calls it."""

MULTIKUEUE_USER = "system:serviceaccount:kueue-system:multikueue"
"""As whom the manager's Kueue asks the worker."""

RIGHTS_IN_WORKER: list[Json] = [
    {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs"], "verbs": ["get", "watch", "create", "delete"]},
    {
        "apiGroups": ["kueue.x-k8s.io"],
        "resources": ["workloads"],
        "verbs": ["get", "list", "watch", "create", "delete"],
    },
    {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads/status"], "verbs": ["patch"]},
]
"""Rules of that user: docs/kueue.md has them."""

_CONFIGURATION: Json = {"waitForPodsReady": None, "multiKueue": {"gcInterval": "2s"}}


class Joined:
    """A namespace of both clusters. A job is submitted in the manager's."""

    def __init__(self, manager: Queues, worker: Queues) -> None:
        self.manager = manager
        self.worker = worker
        self.queue = ""

    def add_queue(self, name: str, cpu: int) -> None:
        """The queue of that name, in both clusters; the manager's sends its jobs to the worker."""
        self.queue = name
        self.worker.queue(cpu, name=name)
        self.manager.queue(100, name=name, admissionChecksStrategy={"admissionChecks": [{"name": WORKER}]})

    def submit(self, name: str, **options: Any) -> JobOnCluster:
        """A job each of whose replicas asks for a CPU; `options` as in `Queues.manifest`."""
        return self.manager.submit(name, self.queue, **options)

    def remote(self, job: JobOnCluster) -> JobOnCluster:
        """The job that MultiKueue has made of it in the worker, once it is there."""

        def there() -> Json:
            remote = find(self.worker.client, TFJOBS, self.worker.namespace, job.name)
            assert remote is not None, self.workload(job)
            prebuilt = remote["metadata"]["annotations"]["kueue.x-k8s.io/prebuilt-workload-name"]
            assert prebuilt == self.workload(job)["name"]
            return remote

        return JobOnCluster(self.worker.cluster, eventually(there, within=PATIENCE, every=0.1, what="a remote job"))

    def running(self, name: str, **options: Any) -> tuple[JobOnCluster, JobOnCluster]:
        """A job with one worker that runs, as the manager has it, and as the worker has it."""
        job = self.submit(name, **{"Worker": 1, **options})
        remote = self.remote(job)
        self.worker.wait_running(remote, "worker-0")
        job.wait("Running", within=PATIENCE)
        return job, remote

    def wait_remote_gone(self, job: JobOnCluster) -> None:
        """Wait until nothing of it is left in the worker, its Workload neither."""

        def gone() -> None:
            where = (self.worker.client, self.worker.namespace)
            assert find(where[0], TFJOBS, where[1], job.name) is None
            names = [item["metadata"]["name"] for item in where[0].list(WORKLOADS, where[1], decode).items]
            assert not [name for name in names if job.name in name], names

        eventually_holds(gone, within=PATIENCE, every=0.1, what=f"nothing of {job.name} in the worker")

    def wait_stopped(self, job: JobOnCluster) -> None:
        """Wait until its quota is free, and the worker has no object of it: a job that goes on before may be stuck."""

        def gave_back() -> None:
            conditions = self.workload(job)["status"]["conditions"]
            assert any(
                (condition["type"], condition["status"]) == ("QuotaReserved", "False") for condition in conditions
            ), conditions

        eventually_holds(gave_back, within=PATIENCE, every=0.1, what=f"the quota of {job.name}")
        self.wait_remote_gone(job)
        job.wait("Suspended", within=PATIENCE)

    def workload(self, job: JobOnCluster) -> Json:
        """Return the manager's Workload of the job, its name beside its spec and status; empty before it exists."""
        workloads = self.manager.workloads(job)
        return {**workloads[0], "name": workloads[0]["metadata"]["name"]} if workloads else {}


class TwoClusters:
    """Both, with a namespace each way: `plain` has no operator in the manager, `operated` has an operator there.

    `trail` is what the manager's Kueue has asked the worker for.
    """

    def __init__(self, worker: ControlPlane, plain: Joined, operated: Joined) -> None:
        self.trail = AuditTrail(worker.audit_log, MULTIKUEUE_USER)
        self.plain = plain
        self.operated = operated
        self._worker = worker

    @contextmanager
    def worker_away(self) -> Iterator[None]:
        """The worker's API server is stopped during the block."""
        with self.trail.restart():
            self._worker.stop_api_server()
            try:
                yield
            finally:
                self._worker.start_api_server()
                wait_allowed(self.plain.worker.client, MULTIKUEUE_USER, *granted(RIGHTS_IN_WORKER))


@contextmanager
def two_clusters(folder: Path) -> Iterator[TwoClusters]:
    """Everything of both runs until the end of the block."""
    with ExitStack() as stack:
        users = {KUEUE_USER: KUEUE_GROUPS}
        worker = stack.enter_context(
            control_plane(users={**users, MULTIKUEUE_USER: KUEUE_GROUPS}, audit_policy=audit_policy(MULTIKUEUE_USER))
        )
        manager = stack.enter_context(control_plane(users=users))
        clients = {
            plane: stack.enter_context(Client(load_config(str(plane.kubeconfig)))) for plane in (manager, worker)
        }
        for name, plane in (("worker", worker), ("manager", manager)):
            Cluster(clients[plane]).install_crd(crd())
            (folder / name).mkdir()
            stack.enter_context(kueue(plane, clients[plane], folder / name, **_CONFIGURATION))
        _let_in(worker, clients[worker])
        plain, operated = (_namespace(manager, worker, clients) for _ in range(2))
        where = f"--namespace={operated.manager.namespace}"
        operators = (
            stack.enter_context(OperatorProcess(worker.kubeconfig, folder, "operator-worker")),
            stack.enter_context(OperatorProcess(manager.kubeconfig, folder, "operator-manager", where)),
        )
        both = TwoClusters(worker, plain, operated)
        _join(clients[manager], worker)
        plain.add_queue("far", cpu=2)
        operated.add_queue("away", cpu=2)
        for operator in operators:
            operator.wait_ready()
        yield both


def _let_in(worker: ControlPlane, client: Client) -> None:
    """Give the manager's Kueue its rights in the worker."""
    kubectl = Kubectl(worker.kubeconfig)
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "multikueue"},
        "rules": RIGHTS_IN_WORKER,
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(role))
    kubectl("create", "clusterrolebinding", "multikueue", "--clusterrole=multikueue", f"--user={MULTIKUEUE_USER}")
    wait_allowed(client, MULTIKUEUE_USER, *granted(RIGHTS_IN_WORKER))


def _namespace(manager: ControlPlane, worker: ControlPlane, clients: dict[ControlPlane, Client]) -> Joined:
    here = Cluster(clients[manager])
    here.create_namespace()
    there = Cluster(clients[worker], here.namespace)
    there.create_namespace()
    return Joined(Queues(here, manager), Queues(there, worker))


def _join(manager: Client, worker: ControlPlane) -> None:
    connect_cluster(manager, WORKER, worker, MULTIKUEUE_USER)
    create(manager, MULTIKUEUE_CONFIGS, {"metadata": {"name": WORKER}, "spec": {"clusters": [WORKER]}})
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": WORKER}
    check = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
    create(manager, ADMISSION_CHECKS, {"metadata": {"name": WORKER}, "spec": check})
