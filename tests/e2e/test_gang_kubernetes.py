"""Gang scheduling by Kubernetes' own scheduler, with its feature gates on, on paper nodes."""

import os
import re
from collections.abc import Iterator
from itertools import groupby

import pytest

from hack.controlplane import ControlPlane, control_plane
from hack.gobuild import kubernetes_version
from tests.e2e.conftest import AUDIT_POLICY, OPERATOR_GROUPS, OPERATOR_USER, admin_of
from tests.e2e.gang import Gang, GangKind, KubeSchedulerTests, gang, gang_job, gang_of_module
from tests.support.audit import AuditTrail, Right
from tests.support.cluster import Json, decode
from tests.support.eventually import eventually
from tests.support.gang_schedulers import NODES, kubernetes_scheduler, paper_node
from tests.support.operated import JobOnCluster
from tfoperator.api.replicas.names import LABEL_JOB_NAME
from tfoperator.controller import KUBERNETES_POD_GROUPS
from tfoperator.informers import SharedInformerFactory
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.resources import PODS, PRIORITY_CLASSES
from tfoperator.kube.views.objects import Pod, decode_pod

__all__ = ["gang", "gang_of_module"]

_OLDER = kubernetes_version().startswith(("v1.35", "v1.36"))
pytestmark = [pytest.mark.controlplane, pytest.mark.skipif(_OLDER, reason="Kubernetes 1.37 began with this")]

STARTS = int(os.environ.get("TFOPERATOR_CONTENDED_STARTS", "30"))
"""How many gangs start beside others that want the same room."""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Start a control plane that has no PodGroups yet."""
    flags = ("--runtime-config=scheduling.k8s.io/v1beta1=true",)
    users = {OPERATOR_USER: OPERATOR_GROUPS}
    with control_plane(
        users=users,
        audit_policy=AUDIT_POLICY,
        api_server_flags=flags,
        more_controllers="podgroup-protection-controller",
    ) as started:
        yield started


admin = pytest.fixture(scope="module")(admin_of)


def switch_on(plane: ControlPlane, gates: str) -> None:
    plane.feature_gates = gates
    plane.stop_controller_manager()
    plane.stop_api_server()
    plane.start_api_server()
    plane.start_controller_manager()


@pytest.fixture(scope="module")
def gang_kind(plane: ControlPlane) -> GangKind:
    return GangKind(
        overlay="kubernetes-gangs",
        scheduler_name="kubernetes",
        pod_groups=KUBERNETES_POD_GROUPS,
        install=lambda _: switch_on(plane, "GenericWorkload=true"),
        scheduler=kubernetes_scheduler,
        missing="this API server does not serve PodGroups of scheduling.k8s.io/v1beta1",
        remedy="--feature-gates=GenericWorkload=true",
        asks=lambda pods, _: members(pods),
    )


class TestKubernetes(KubeSchedulerTests): ...


def members(count: int) -> Json:
    return {"schedulingPolicy": {"gang": {"minCount": count}}}


class Bindings:
    """The jobs of the pods that got a node, once for each, in the order in which that happened."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_add(self, obj: Pod) -> None:
        if obj.spec.node_name:
            self.seen.append(obj.metadata.labels[LABEL_JOB_NAME])

    def on_update(self, old: Pod, new: Pod) -> None:
        if not old.spec.node_name:
            self.on_add(new)

    def on_delete(self, obj: Pod) -> None:
        pass


@pytest.fixture
def bindings(gang: Gang, admin: Client) -> Iterator[Bindings]:
    factory = SharedInformerFactory(admin, namespaces=(gang.cluster.namespace,))
    pods = factory.informer(PODS, decode_pod)
    recorded = Bindings()
    pods.add_handler(recorded)
    factory.start()
    eventually(lambda: pods.has_synced, what="the watch of pods")
    yield recorded
    assert factory.stop(60)


def test_of_jobs_that_fit_one_at_a_time_each_gets_all_its_nodes_in_its_turn(gang: Gang, bindings: Bindings) -> None:
    """The node has room for four pods, so one gang of three leaves some for a pod of another."""
    left = [gang_job(f"contends-{number}", Worker=3) for number in range(STARTS)]
    queued: list[JobOnCluster] = []

    def placed() -> JobOnCluster | None:
        nodes = {job: [pod["spec"].get("nodeName") for pod in job.pods().values()] for job in queued}
        started = [job for job in queued if any(nodes[job])]
        assert len(started) <= 1, "two gangs have nodes"
        return next((job for job in started if len(nodes[job]) == 3 and all(nodes[job])), None)

    while left or queued:
        while left and len(queued) < 3:
            queued.append(gang.operated.submit(left.pop()))
        job = eventually(placed, within=100, every=0.05, what="a gang has its nodes")
        job.play("Succeeded", "worker-0", leads_to="Succeeded")
        queued.remove(job)
        job.delete()
    bound_jobs = [job for job in bindings.seen if job.startswith("contends-")]
    turns = [(job, len(list(pods))) for job, pods in groupby(bound_jobs)]
    assert sorted(job for job, _ in turns) == sorted(f"contends-{number}" for number in range(STARTS))
    assert {count for _, count in turns} == {3}


def test_a_gang_of_a_higher_class_takes_the_place_of_a_whole_job_which_says_so(gang: Gang) -> None:
    client = gang.cluster.client
    client.create(PRIORITY_CLASSES, "", {"metadata": {"name": "urgent"}, "value": 1000}, decode)
    manifest = gang_job("preempted", Worker=3)
    manifest["spec"]["runPolicy"]["restartScope"] = "Job"
    del manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["terminationGracePeriodSeconds"]
    low = gang.submit_manifest(manifest)
    gang.wait_pod_group("preempted", disruptionMode={"all": {}})
    gang.wait_bound(low, 3)
    workers = ("worker-0", "worker-1", "worker-2")
    low.play("Running", *workers, leads_to="Running")
    manifest = gang_job("urgent", Worker=2)
    manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["priorityClassName"] = "urgent"
    high = gang.submit_manifest(manifest)
    gang.wait_pod_group("urgent", priorityClassName="urgent")
    message = low.wait("Restarting")["message"]
    # Several may be marked before the operator looks.
    named = r"restarting all its replicas because of Worker-\d \(preempted by the scheduler: PreemptionByScheduler\)"
    assert re.search(named, message), message

    def all_leave() -> bool:
        return all("deletionTimestamp" in pod["metadata"] for pod in low.pods().values())

    eventually(all_leave, every=0.05, what="the whole job leaves")
    for worker in workers:
        gang.cluster.end_pod(low.pod_name(worker))
    gang.wait_bound(high, 2)
    successors = low.wait_pods(*workers, within=100)
    assert not any("nodeName" in pod["spec"] for pod in successors.values())
    assert low.status()["jobRestarts"] == 1
    gang.wait_message(low, "TFJob", "restarts", "waits for room")
    client.delete(PRIORITY_CLASSES, "", "urgent")


def test_each_right_to_pod_groups_is_used(gang: Gang, plane: ControlPlane) -> None:
    trail = AuditTrail(plane.audit_log, OPERATOR_USER)
    taken = {"metadata": {"name": "taken"}, "spec": members(1)}
    gang.cluster.client.create(KUBERNETES_POD_GROUPS, gang.cluster.namespace, taken, decode)
    job = gang.submit("taken", Worker=1)
    job.wait_reasons("FailedCreatePodGroup")
    gang.cluster.client.delete(KUBERNETES_POD_GROUPS, gang.cluster.namespace, "taken")
    gang.wait_bound(job, 1)
    job.scale(Worker=2)
    gang.wait_pod_group("taken", **members(2))
    gang.operated.restart_operator()
    job.suspend()
    gang.wait_no_pod_group("taken")
    group = KUBERNETES_POD_GROUPS.group
    rights = {Right(group, "podgroups", verb) for verb in ("get", "list", "watch", "create", "patch", "delete")}
    trail.wait_used(rights)
    assert {right for right in trail.used() if right.group == group} == rights, "and no other"
    assert trail.refused() == []


def test_a_topology_is_kept_where_its_gate_is_on_and_its_lack_is_said_where_it_is_off(
    gang: Gang, plane: ControlPlane, admin: Client
) -> None:
    def close_together(name: str) -> JobOnCluster:
        manifest = gang_job(name, Worker=2)
        manifest["metadata"]["annotations"] = {"training.kubeflow.org/gang-topology": "example.com/rack"}
        manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["schedulerName"] = "with-topology"
        return gang.submit_manifest(manifest)

    apart = close_together("apart")
    gang.wait_message(apart, "PodGroup apart has no topology: the API server's feature gate")
    apart.wait_reasons("TopologyIgnored")
    switch_on(plane, "GenericWorkload=true,TopologyAwareWorkloadScheduling=true")
    gang.operated.settle()
    with (
        paper_node(admin, "alone", cpu="1"),
        paper_node(admin, "beside", cpu="2"),
        kubernetes_scheduler(plane, "with-topology"),
    ):
        for node, rack in (("alone", "a"), ("beside", "b")):
            admin.patch(NODES, "", node, {"metadata": {"labels": {"example.com/rack": rack}}}, decode)
        together = close_together("together")
        gang.wait_bound(together, 2)
        assert {pod["spec"]["nodeName"] for pod in together.pods().values()} == {"beside"}
        assert "TopologyIgnored" not in together.reasons()
