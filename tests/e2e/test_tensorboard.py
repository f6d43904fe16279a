"""`spec.tensorBoard` on a real API server: a deployment and a service from the job's start until it is deleted.

No controller runs deployments there, so the test plays it, as it plays the kubelet.
"""

from typing import Any

import pytest

from tests.support.cluster import Cluster, Json, decode, find, tfjob
from tests.support.eventually import eventually, eventually_holds
from tests.support.operated import JobOnCluster, Operated
from tfoperator.kube.protocol.errors import ForbiddenError
from tfoperator.kube.protocol.resources import DEPLOYMENTS, NAMESPACES, PODS, SERVICES, Resource

pytestmark = pytest.mark.controlplane

BOARD: Json = {
    "logDir": "/logs",
    "volumes": [{"name": "logs", "persistentVolumeClaim": {"claimName": "logs"}}],
    "volumeMounts": [{"name": "logs", "mountPath": "/logs"}],
}


@pytest.fixture(scope="module")
def operator_flags() -> tuple[str, ...]:
    return ("--exposed-tensorboards",)


def with_board(operated: Operated, name: str, board: Json = BOARD, **options: Any) -> JobOnCluster:
    return operated.submit(tfjob(name, spec={"tensorBoard": board}, Worker=1, **options))


def board_of(job: JobOnCluster, resource: Resource) -> Json | None:
    return find(job.cluster.client, resource, job.cluster.namespace, f"{job.name}-tensorboard")


def wait_for(job: JobOnCluster, resource: Resource) -> Json:
    what = f"{resource.plural} of {job.name}"
    return eventually(lambda: board_of(job, resource), every=0.05, what=what) or {}


def board_status(job: JobOnCluster) -> Json:
    return dict(job.status().get("tensorBoard") or {})


def test_it_runs_beside_the_job_survives_its_end_and_goes_with_it(operated: Operated) -> None:
    job = with_board(operated, "board-life", run_policy={"cleanPodPolicy": "All"})
    deployment, service = wait_for(job, DEPLOYMENTS), wait_for(job, SERVICES)
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["command"][:2] == ["tensorboard", "--logdir=/logs"]
    assert container["volumeMounts"][0]["mountPath"] == "/logs"
    assert deployment["metadata"]["ownerReferences"][0]["uid"] == job.uid
    assert [(port["port"], port["targetPort"]) for port in service["spec"]["ports"]] == [(80, "http")]
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    url = f"http://board-life-tensorboard.{operated.cluster.namespace}.svc"
    eventually(lambda: board_status(job) == {"url": url}, every=0.05, what="its address")

    available = {"status": {"availableReplicas": 1, "readyReplicas": 1, "replicas": 1}}
    job.cluster.client.patch(
        DEPLOYMENTS, job.cluster.namespace, "board-life-tensorboard", available, decode, subresource="status"
    )
    eventually(lambda: board_status(job).get("ready") is True, every=0.05, what="it is ready")

    job.wait_pods("worker-0")
    job.play("Succeeded", "worker-0", leads_to="Succeeded")
    job.wait_pods()
    operated.settle()
    for resource, before in ((DEPLOYMENTS, deployment), (SERVICES, service)):
        now = board_of(job, resource)
        assert now is not None
        assert now["metadata"]["uid"] == before["metadata"]["uid"]
    assert board_status(job) == {"url": url, "ready": True}

    job.delete()
    for resource in (DEPLOYMENTS, SERVICES):
        # The garbage collector needs half a minute to hear of a new kind, which TFJob may be to it.
        eventually(lambda r=resource: board_of(job, r) is None, within=75, what=f"{resource.plural} are collected")


def test_changes_of_the_spec_arrive_and_its_removal_removes_both(operated: Operated) -> None:
    job = with_board(operated, "board-change")
    before = wait_for(job, DEPLOYMENTS)
    wait_for(job, SERVICES)
    job.patch_spec(tensorBoard={"image": "boards:2", "serviceType": "NodePort", "volumes": [], "volumeMounts": []})

    def changed() -> None:
        pod = wait_for(job, DEPLOYMENTS)["spec"]["template"]["spec"]
        image = pod["containers"][0]["image"]
        assert (image, pod.get("volumes") or []) == ("boards:2", []), pod
        assert wait_for(job, SERVICES)["spec"]["type"] == "NodePort"

    eventually_holds(changed, every=0.05, what="the change arrives")
    assert wait_for(job, DEPLOYMENTS)["metadata"]["uid"] == before["metadata"]["uid"]
    job.patch_spec(tensorBoard={"serviceType": "ClusterIP"})
    eventually(lambda: wait_for(job, SERVICES)["spec"]["type"] == "ClusterIP", what="the type changes back")

    job.patch_spec(tensorBoard=None)
    for resource in (DEPLOYMENTS, SERVICES):
        eventually(lambda r=resource: board_of(job, r) is None, what=f"no more {resource.plural}")
    eventually(lambda: board_status(job) == {}, what="the status forgets it")
    job.wait_pods("worker-0")


def test_its_pod_is_admitted_where_pod_security_is_restricted(operated: Operated) -> None:
    job = with_board(operated, "board-restricted")
    pod = {"metadata": {"name": "board"}, "spec": wait_for(job, DEPLOYMENTS)["spec"]["template"]["spec"]}
    space = Cluster(job.cluster.client)
    space.create_namespace()
    labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    space.client.patch(NAMESPACES, "", space.namespace, labels, decode)

    def refused() -> bool:
        root = {**pod, "spec": {**pod["spec"], "securityContext": {}}}
        try:
            space.client.create(PODS, space.namespace, root, decode, dry_run=True)
        except ForbiddenError as error:
            return "runAsNonRoot" in str(error)
        return False

    eventually(refused, every=0.05, what="the level holds")
    space.client.create(PODS, space.namespace, pod, decode, dry_run=True)
