"""The operator with exactly the rights that the manifests give it: they suffice, and it uses each of them and no other.

The API server enforces them, and records in its audit log which were used.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from hack.chart import MANIFESTS
from hack.controlplane import ControlPlane
from tests.e2e.conftest import OPERATOR_USER, UNFINALIZING_USER
from tests.support.audit import SCHEMA, VERSION, AuditTrail, Right, granted, roles_of, wait_allowed
from tests.support.cluster import Cluster, Json, decode, tfjob
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tests.support.operated import JobOnCluster, Operated
from tests.support.operator_process import OperatorProcess
from tfoperator.api.replicas.names import replica_labels
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.errors import ForbiddenError
from tfoperator.kube.protocol.resources import DEPLOYMENTS, LEASES, PODS, SERVICES, Resource

pytestmark = pytest.mark.controlplane

OVERLAY = MANIFESTS / "overlays" / "log-archive"
"""The base and one right more: to read logs."""

FINALIZERS = Right("kubeflow.org", "tfjobs/finalizers", "update")
"""Never asked for by itself: the API server checks it when an object with an owner is made."""

CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)

Start = Callable[..., OperatorProcess]


@pytest.fixture(scope="module")
def rights(plane: ControlPlane, admin: Client) -> set[Right]:
    """Everything of the manifests is applied (nothing here runs the Deployment's pods); the operator's rights."""
    kubectl = Kubectl(plane.kubeconfig)
    kubectl("apply", "--server-side", "--force-conflicts", "-k", str(OVERLAY))
    wait_allowed(admin, OPERATOR_USER, Right("kubeflow.org", "tfjobs", "list"), Right("", "pods/log", "get"))
    lease = Right("coordination.k8s.io", "leases", "create")
    wait_allowed(admin, OPERATOR_USER, lease, namespace="tfoperator-system")
    roles = roles_of(kubectl("kustomize", str(OVERLAY)))
    return granted(roles["ClusterRole", "tfoperator"]) | granted(roles["Role", "tfoperator-leader-election"])


def test_the_rights_of_the_manifests_suffice_and_each_of_them_is_used(
    plane: ControlPlane, cluster: Cluster, rights: set[Right], start_operator: Start, tmp_path: Path
) -> None:
    trail = AuditTrail(plane.audit_log, OPERATOR_USER)
    operator = start_operator(
        "--leader-elect",
        "--leader-elect-namespace=tfoperator-system",
        "--resync-period=1s",
        "--restart-delay-base=100ms",
        f"--archive-dir={tmp_path / 'archive'}",
        "--archive-timeout=1s",
        kubeconfig=plane.kubeconfig_for(OPERATOR_USER),
    )
    operated = Operated(cluster, operator)
    finished = live_a_whole_life(operated)
    lose_owners_and_find_them_again(operated)
    find_names_taken(operated)
    have_a_board_changed_and_removed(operated, trail)
    eventually(finished.is_gone, what="the job is deleted when its time has come")
    lease = cluster.client.get(LEASES, "tfoperator-system", "tfoperator", decode)
    assert lease["spec"]["holderIdentity"]

    trail.wait_used(rights - {FINALIZERS})
    assert operator.stop() == 0
    assert trail.used() ^ rights == {FINALIZERS, VERSION, SCHEMA}
    assert trail.refused() == []
    assert "forbidden" not in operator.tail(1000).lower()


def live_a_whole_life(operated: Operated) -> JobOnCluster:
    """Pods made and made anew twice, which is one event that grows; a success, cleaned up; its end comes 2 s later."""
    policy = {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 2}
    job = operated.running("mnist", restart_policy="ExitCode", run_policy=policy, PS=1, Worker=1)
    for _ in range(2):
        job.fail("worker-0", exit_code=137)
        job.play("Running", "worker-0")
    job.play("Succeeded", "worker-0")
    job.wait_pods()
    job.wait_services()
    job.wait_reasons("SuccessfulCreatePod", "TFJobSucceeded")
    return job


def lose_owners_and_find_them_again(operated: Operated) -> None:
    job = operated.running("orphans", Worker=1)
    for resource in (PODS, SERVICES):
        change = {"metadata": {"ownerReferences": None}}
        operated.cluster.client.patch(resource, operated.cluster.namespace, "orphans-worker-0", change, decode)
        eventually(
            lambda r=resource: owner_of(operated, r, "orphans-worker-0") == job.uid,
            every=0.05,
            what=f"{resource.plural} are adopted",
        )


def owner_of(operated: Operated, resource: Resource, name: str) -> str:
    obj = operated.cluster.client.get(resource, operated.cluster.namespace, name, decode)
    return str(next(iter(obj["metadata"].get("ownerReferences") or [{"uid": ""}]))["uid"])


def find_names_taken(operated: Operated) -> None:
    """Let the operator look at objects that are in its way."""
    client, namespace = operated.cluster.client, operated.cluster.namespace
    container = {"name": "main", "image": "example.invalid/x:1"}
    name = {"metadata": {"name": "taken-worker-0"}}
    client.create(SERVICES, namespace, {**name, "spec": {"ports": [{"port": 1}]}}, decode)
    job = operated.job("taken", Worker=1)
    job.wait_reasons("FailedCreateService")
    client.create(PODS, namespace, {**name, "spec": {"containers": [container]}}, decode)
    client.delete(SERVICES, namespace, "taken-worker-0")
    job.wait_reasons("FailedCreatePod")
    client.delete(PODS, namespace, "taken-worker-0", grace_period_seconds=0)


def have_a_board_changed_and_removed(operated: Operated, trail: AuditTrail) -> None:
    client, namespace = operated.cluster.client, operated.cluster.namespace
    labels = {"app": "foreign"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "x", "image": "example.invalid/x:1"}]}}
    foreign = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    name = {"metadata": {"name": "board-tensorboard"}}
    client.create(DEPLOYMENTS, namespace, {**name, "spec": foreign}, decode)
    job = operated.submit(tfjob("board", spec={"tensorBoard": {"logDir": "/logs"}}, Worker=1))
    job.wait_reasons("FailedTensorBoard")
    client.delete(DEPLOYMENTS, namespace, "board-tensorboard")
    eventually(lambda: is_owned(operated, job), within=60, every=0.05, what="the job's deployment")
    job.patch_spec(tensorBoard={"image": "boards:2"})

    def changed() -> bool:
        deployment = client.get(DEPLOYMENTS, namespace, "board-tensorboard", decode)
        return bool(deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "boards:2")

    eventually(changed, every=0.05, what="its change")
    compared = Right("apps", "deployments", "list")
    eventually(lambda: compared in trail.used(), every=0.2, what="its comparison with the live state")
    job.patch_spec(tensorBoard=None)
    eventually(lambda: not boards(operated), every=0.05, what="its end")


def boards(operated: Operated) -> list[Json]:
    return list(operated.cluster.client.list(DEPLOYMENTS, operated.cluster.namespace, decode).items)


def is_owned(operated: Operated, job: JobOnCluster) -> bool:
    owners = [board["metadata"].get("ownerReferences") or [{"uid": ""}] for board in boards(operated)]
    return [references[0]["uid"] for references in owners] == [job.uid]


def test_without_the_right_to_finalizers_no_pod_of_a_job_can_be_made_where_owners_are_guarded(
    plane: ControlPlane, admin: Client, cluster: Cluster, rights: set[Right]
) -> None:
    """The reason for the one right that no request asks for."""
    enough = [right for right in rights if right != FINALIZERS and right.resource != "leases"]
    rules = [{"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]} for right in enough]
    name = {"name": "without-finalizers"}
    admin.create(CLUSTER_ROLES, "", {"metadata": name, "rules": rules}, decode)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **name}
    users = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": UNFINALIZING_USER}]
    admin.create(BINDINGS, "", {"metadata": name, "roleRef": role, "subjects": users}, decode)
    job = cluster.submit(tfjob("guarded", Worker=1))
    owner = {
        "apiVersion": job["apiVersion"], "kind": job["kind"], "name": "guarded", "uid": job["metadata"]["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    labels = replica_labels("guarded", "Worker", 0, is_master=False)
    metadata = {"name": "guarded-worker-0", "labels": labels, "ownerReferences": [owner]}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "tensorflow", "image": "example.invalid/x:1"}]}}
    for user, may in ((UNFINALIZING_USER, False), (OPERATOR_USER, True)):
        with Client(load_config(str(plane.kubeconfig_for(user)))) as client:
            if may:
                client.create(PODS, cluster.namespace, pod, decode)
            else:
                eventually(lambda c=client: may_list(c, cluster.namespace), what="RBAC has heard of it")
                with pytest.raises(ForbiddenError, match="blockOwnerDeletion"):
                    client.create(PODS, cluster.namespace, pod, decode)


def may_list(client: Client, namespace: str) -> bool:
    try:
        client.list(PODS, namespace, decode)
    except ForbiddenError:
        return False
    return True
