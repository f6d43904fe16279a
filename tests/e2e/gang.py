"""Common parts of the tests of both gang schedulers: an operator with its manifests' rights, a scheduler, a node."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hack.chart import MANIFESTS
from hack.controlplane import ControlPlane
from tests.e2e.conftest import OPERATOR_USER
from tests.support.audit import Right, wait_allowed
from tests.support.cluster import Cluster, Json, decode, find, tfjob
from tests.support.eventually import eventually
from tests.support.gang_schedulers import paper_node
from tests.support.kubectl import Kubectl
from tests.support.operated import JobOnCluster, Operated
from tests.support.operator_process import OperatorProcess
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import NotFoundError
from tfoperator.kube.protocol.resources import Resource

_PATIENCE = 100
"""Seconds. A pod that a scheduler has overlooked is looked at again after 30, on a busy machine later."""


class Gang:
    """A namespace whose operator makes PodGroups of one kind, and whose scheduler has one node with 4 CPUs."""

    def __init__(self, operated: Operated, pod_groups: Resource, log_before_crd: str) -> None:
        """`log_before_crd` is the log of the operator before its CRD existed."""
        self.operated = operated
        self.cluster = operated.cluster
        self.pod_groups = pod_groups
        self.log_before_crd = log_before_crd
        self._jobs: list[JobOnCluster] = []

    def submit(self, name: str, *, cpu: str = "1", policy: Json | None = None, **options: Any) -> JobOnCluster:
        return self.submit_manifest(gang_job(name, cpu=cpu, policy=policy, **options))

    def submit_manifest(self, manifest: Json) -> JobOnCluster:
        job = self.operated.submit(manifest)
        self._jobs.append(job)
        return job

    def pod_group(self, name: str) -> Json | None:
        return find(self.cluster.client, self.pod_groups, self.cluster.namespace, name)

    def wait_pod_group(self, name: str, **spec: Any) -> Json:
        """Wait until the PodGroup is there and asks for this."""

        def there() -> Json:
            pod_group = self.pod_group(name)
            assert pod_group is not None, name
            assert {key: pod_group["spec"].get(key) for key in spec} == spec, pod_group["spec"]
            return pod_group

        return eventually(there, within=_PATIENCE, every=0.05, what=f"PodGroup {name}")

    def wait_no_pod_group(self, name: str) -> None:
        eventually(lambda: self.pod_group(name) is None, within=_PATIENCE, every=0.05, what=f"no PodGroup {name}")

    def wait_message(self, job: JobOnCluster, *words: str, status: str = "False") -> str:
        """Wait until the job's Running condition has this status and these words."""

        def matching_message() -> str:
            condition = job.conditions().get("Running") or {}
            message = str(condition.get("message"))
            assert condition.get("status") == status, condition
            assert all(word in message for word in words), message
            return message

        return eventually(matching_message, within=_PATIENCE, every=0.05, what=f"the condition says {words}")

    def wait_bound(self, job: JobOnCluster, count: int) -> list[str]:
        """Wait until the scheduler has given so many of the job's pods a node; returns the replicas.

        A scheduler may look at a pod before it has all of a PodGroup's change, and then not again for half a minute: so
        the PodGroup is changed once more each second.
        """
        changed = time.monotonic()

        def bound() -> list[str]:
            nonlocal changed
            replicas = [replica for replica, pod in job.pods().items() if pod["spec"].get("nodeName")]
            if len(replicas) != count and time.monotonic() > changed + 1:
                changed = time.monotonic()
                self._touch_pod_group(job.name)
            assert len(replicas) == count, job.status()
            return replicas

        return eventually(bound, within=_PATIENCE, every=0.05, what=f"{count} pods of {job.name} are bound")

    def _touch_pod_group(self, name: str) -> None:
        change = {"metadata": {"annotations": {"example.com/touched": str(time.monotonic())}}}
        with suppress(NotFoundError):
            self.cluster.client.patch(self.pod_groups, self.cluster.namespace, name, change, decode)

    def free_the_node(self) -> None:
        """End the test's jobs, without the garbage collector, which is slow to learn of new CRDs."""
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            if job.state() not in ("Succeeded", "Failed"):
                job.suspend()
        for job in jobs:
            job.wait_pods(within=_PATIENCE)
            self.wait_no_pod_group(job.name)
            job.delete()


def gang_job(name: str, *, cpu: str = "1", policy: Json | None = None, **options: Any) -> Json:
    """A TFJob each of whose replicas asks for so many CPUs; `policy` is its schedulingPolicy."""
    run_policy = {"cleanPodPolicy": "All", **({"schedulingPolicy": policy} if policy else {})}
    manifest = tfjob(name, run_policy=run_policy, **options)
    for spec in manifest["spec"]["tfReplicaSpecs"].values():
        container = {**spec["template"]["spec"]["containers"][0], "resources": {"requests": {"cpu": cpu}}}
        # There is no kubelet, which would end pods gracefully.
        spec["template"] = {"spec": {"containers": [container], "terminationGracePeriodSeconds": 0}}
    return manifest


@dataclass(frozen=True)
class GangKind:
    """One kind of gang scheduler; the operator logs `missing` and `remedy` in one line while its CRD is missing."""

    overlay: str
    scheduler_name: str
    pod_groups: Resource
    install: Callable[[Client], None]
    scheduler: Callable[[ControlPlane], AbstractContextManager[Path]]
    missing: str
    remedy: str
    asks: Callable[[int, str], Json] = lambda pods, cpu: {"minMember": pods, "minResources": {"cpu": cpu}}
    """The spec of a PodGroup of so many pods, which need so many CPUs together."""


@pytest.fixture(scope="module")
def gang_of_module(
    gang_kind: GangKind, plane: ControlPlane, admin: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gang]:
    """Starts the operator before the CRD is there, installs that, and starts the scheduler."""
    folder = tmp_path_factory.mktemp(gang_kind.overlay)
    overlay = MANIFESTS / "overlays" / gang_kind.overlay
    Kubectl(plane.kubeconfig)("apply", "--server-side", "--force-conflicts", "-k", str(overlay))
    cluster = Cluster(admin)
    cluster.create_namespace()
    listing = Right(gang_kind.pod_groups.group, gang_kind.pod_groups.plural, "list")
    wait_allowed(admin, OPERATOR_USER, listing, namespace=cluster.namespace)
    kubeconfig = plane.kubeconfig_for(OPERATOR_USER, folder / "kubeconfig")
    flags = (f"--namespace={cluster.namespace}", f"--gang-scheduler-name={gang_kind.scheduler_name}")
    with OperatorProcess(kubeconfig, folder, "operator", *flags) as operator:
        eventually(lambda: gang_kind.missing in operator.log.read_text(), what="it says what is missing")
        log_before = operator.log.read_text()
        gang_kind.install(admin)
        with paper_node(admin, f"{gang_kind.overlay}-node", cpu="4"), gang_kind.scheduler(plane):
            yield Gang(Operated(cluster, operator.wait_ready()), gang_kind.pod_groups, log_before)


@pytest.fixture
def gang(gang_of_module: Gang) -> Iterator[Gang]:
    yield gang_of_module
    gang_of_module.free_the_node()


class GangTests:
    """The tests that are the same with each kind: a test module derives a class from it."""

    def test_an_operator_without_the_crd_says_what_to_install_and_starts_once_it_is_there(
        self, gang: Gang, gang_kind: GangKind
    ) -> None:
        lines = [line for line in gang.log_before_crd.splitlines() if gang_kind.missing in line]
        assert len(lines) == 1
        assert gang_kind.remedy in lines[0]

    def test_more_than_there_are_never_runs_and_lowered_succeeds(self, gang: Gang) -> None:
        job = gang.submit("ten", policy={"minAvailable": 10}, Worker=1)
        gang.wait_message(
            job, "the gang of 10 pods (cpu 1) can never start: it needs more pods", "the job's 1 replicas"
        )
        gang.operated.settle()
        assert "Running" not in job.state()
        job.patch_spec(runPolicy={"schedulingPolicy": {"minAvailable": 1}})
        gang.wait_bound(job, 1)
        job.play("Running", "worker-0", leads_to="Running")
        job.play("Succeeded", "worker-0", leads_to="Succeeded")
        gang.wait_no_pod_group("ten")

    def test_the_pods_of_a_data_service_start_or_wait_with_the_processes_of_a_jax_job(
        self, gang: Gang, gang_kind: GangKind
    ) -> None:
        manifest = gang_job("fed", Worker=2)
        manifest["spec"]["dataService"] = {"workers": 2}
        manifest["spec"]["runPolicy"]["restartScope"] = "Job"
        job = gang.submit_manifest(manifest)
        # The node has 4 CPUs, and there are a dispatcher, two data workers and two workers with 1 CPU each.
        gang.wait_message(job, "Worker-0 and Worker-1 wait: the gang of 5 pods (cpu 5) waits")
        gang.wait_pod_group("fed", **gang_kind.asks(5, "5"))
        gang.operated.settle()
        assert not any("nodeName" in pod["spec"] for pod in job.pods().values())
        job.patch_spec(dataService={"workers": 1})
        gang.wait_pod_group("fed", **gang_kind.asks(4, "4"))
        pods = ("worker-0", "worker-1", "dispatcher-0", "dataworker-0")
        job.wait_pods(*pods)
        gang.wait_bound(job, 4)
        job.play("Running", *pods, leads_to="Running")
        assert "gang" not in job.conditions()["Running"]["message"]
        job.play("Succeeded", "worker-0", leads_to="Succeeded")
        gang.wait_no_pod_group("fed")


class KubeSchedulerTests(GangTests):
    """The same tests where Kubernetes' scheduler knows gangs, and looks at the pods of a gang that has no room."""

    def test_a_job_that_does_not_fit_says_what_it_lacks_and_runs_when_it_asks_for_less(
        self, gang: Gang, gang_kind: GangKind
    ) -> None:
        job = gang.submit("toobig", cpu="3", Worker=3)
        message = gang.wait_message(job, "the gang of 3 pods (cpu 9) waits for room: Insufficient cpu")
        assert "Worker-0, Worker-1 and Worker-2 wait: the gang of 3 pods" in message, message
        gang.wait_pod_group("toobig", **gang_kind.asks(3, "9"))
        assert not any("nodeName" in pod["spec"] for pod in job.wait_pods("worker-0", "worker-1", "worker-2").values())
        job.wait_reasons("Unschedulable")
        gang.operated.settle()
        assert len([event for event in job.events() if event["reason"] == "Unschedulable"]) == 1
        job.patch_spec(runPolicy={"schedulingPolicy": {"minAvailable": 1}})
        (bound,) = gang.wait_bound(job, 1)
        job.play("Running", bound)
        gang.wait_message(job, "wait: Unschedulable: Insufficient cpu", status="True")

    def test_a_restarted_replica_finds_its_gang_though_others_have_completed(
        self, gang: Gang, gang_kind: GangKind
    ) -> None:
        job = gang.submit("finishing", restart_policy="ExitCode", spec={"successPolicy": "AllWorkers"}, Worker=3)
        gang.wait_bound(job, 3)
        job.play("Running", "worker-0", "worker-1", "worker-2", leads_to="Running")
        job.play("Succeeded", "worker-0", "worker-1")
        job.fail("worker-2", exit_code=137)
        # The scheduler does not see pods that have ended: a gang of three would never come together again.
        gang.wait_pod_group("finishing", **gang_kind.asks(1, "1"))
        gang.wait_bound(job, 3)

    def test_with_a_size_of_its_own_a_gang_is_scheduled_beside_the_pods_of_its_data_service(
        self, gang: Gang, gang_kind: GangKind
    ) -> None:
        manifest = gang_job("beside", policy={"minAvailable": 2}, Worker=2)
        manifest["spec"]["dataService"] = {"workers": 1}
        job = gang.submit_manifest(manifest)
        gang.wait_bound(job, 4)
        gang.wait_pod_group("beside", **gang_kind.asks(2, "2"))
        members = [name for name, pod in job.pods().items() if is_member(pod, "beside")]
        assert sorted(members) == ["worker-0", "worker-1"]


def is_member(pod: Json, group: str) -> bool:
    """Whether a pod is a member of a PodGroup of a kube-scheduler."""
    label = pod["metadata"]["labels"].get("scheduling.x-k8s.io/pod-group")
    return group in (label, pod["spec"].get("schedulingGroup", {}).get("podGroupName"))
