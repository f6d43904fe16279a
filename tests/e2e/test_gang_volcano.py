"""Gang scheduling with Volcano: its CRDs and its scheduler, on a node that exists on paper."""

from __future__ import annotations

import pytest

from tests.e2e.gang import Gang, GangKind, GangTests, gang, gang_job, gang_of_module
from tests.support import manifests
from tests.support.cluster import decode
from tests.support.eventually import eventually
from tests.support.gang_schedulers import install_volcano_crds, volcano_scheduler
from tfoperator.controller.pods.gang import VOLCANO_POD_GROUPS
from tfoperator.kube.resources import PODS, PRIORITY_CLASSES

__all__ = ["gang", "gang_of_module"]

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def gang_kind() -> GangKind:
    return GangKind(
        overlay="volcano",
        scheduler_name="volcano",
        pod_groups=VOLCANO_POD_GROUPS,
        install=install_volcano_crds,
        scheduler=volcano_scheduler,
        missing="podgroups.scheduling.volcano.sh, is not installed",
        remedy="install Volcano",
    )


class TestVolcano(GangTests):
    pass


def test_a_job_that_does_not_fit_has_no_pods_says_why_and_runs_when_it_asks_for_less(gang: Gang) -> None:
    before = gang.operated.operator.metrics()
    client = gang.cluster.client
    client.create(PRIORITY_CLASSES, "", {"metadata": {"name": "urgent-gangs"}, "value": 1000}, decode)
    manifest = gang_job("toobig", cpu="3", policy={"priorityClass": "urgent-gangs"}, Worker=3)
    manifest["metadata"]["annotations"] = {"volcano.sh/preemptable": "true"}
    job = gang.submit_manifest(manifest)
    gang.wait_message(job, "the gang of 3 pods (cpu 9) waits until Volcano admits PodGroup toobig")
    group = gang.wait_pod_group("toobig", minMember=3, minResources={"cpu": "9"})
    assert group["spec"]["priorityClassName"] == "urgent-gangs"
    assert group["metadata"]["annotations"] == {"volcano.sh/preemptable": "true"}
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (job.uid, True, True)
    job.wait_reasons("Unschedulable")
    gang.operated.settle()
    assert job.pods() == {}
    assert job.services() == {}
    (told,) = [event for event in job.events() if event["reason"] == "Unschedulable"]
    assert (told["type"], told.get("count", 1)) == ("Warning", 1)

    job.patch_spec(runPolicy={"schedulingPolicy": {"minAvailable": 1}})
    gang.wait_pod_group("toobig", minMember=1, minResources={"cpu": "3"})
    job.wait_pods("worker-0", "worker-1", "worker-2")
    (bound,) = gang.wait_bound(job, 1)
    job.play("Running", bound)
    gang.wait_message(job, "wait: Unschedulable", status="True")
    name = "training_operator_created_pod_groups_total"
    assert gang.operated.operator.metrics()[name] - before[name] >= 1
    client.delete(PRIORITY_CLASSES, "", "urgent-gangs")


def test_a_job_that_fits_runs_as_members_of_its_gang(gang: Gang) -> None:
    gang.operated.settle()  # what became of others' PodGroups is counted after they are gone
    deleted = "training_operator_deleted_pod_groups_total"
    before = gang.operated.operator.metrics()[deleted]
    job = gang.submit("fits", PS=1, Worker=2)
    job.wait_pods("ps-0", "worker-0", "worker-1")
    gang.wait_bound(job, 3)
    for replica, pod in job.pods().items():
        assert pod["spec"]["schedulerName"] == "volcano"
        assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "fits"
        assert pod["metadata"]["annotations"]["volcano.sh/task-spec"] == replica.partition("-")[0]
    job.play("Running", "ps-0", "worker-0", "worker-1", leads_to="Running")
    job.play("Succeeded", "worker-0", leads_to="Succeeded")
    gang.wait_no_pod_group("fits")
    job.wait_reasons("SuccessfulDeletePodGroup")
    assert gang.operated.operator.metrics()[deleted] - before == 1


def test_a_suspended_job_gives_its_pod_group_back_and_a_resumed_one_gets_another(gang: Gang) -> None:
    job = gang.submit("paused", Worker=1)
    gang.wait_bound(job, 1)
    first = gang.wait_pod_group("paused")["metadata"]["uid"]
    job.suspend()
    gang.wait_no_pod_group("paused")
    job.wait_pods()
    job.suspend(False)
    assert gang.wait_pod_group("paused", minMember=1)["metadata"]["uid"] != first
    gang.wait_bound(job, 1)


def test_a_scaled_job_has_a_gang_of_the_new_size(gang: Gang) -> None:
    job = gang.submit("scaled", Worker=1)
    gang.wait_bound(job, 1)
    job.scale(Worker=3)
    gang.wait_pod_group("scaled", minMember=3, minResources={"cpu": "3"})
    gang.wait_bound(job, 3)
    job.scale(Worker=2)
    gang.wait_pod_group("scaled", minMember=2, minResources={"cpu": "2"})
    job.wait_pods("worker-0", "worker-1")


def test_a_pod_group_that_the_go_operator_made_is_taken_over(gang: Gang) -> None:
    job = gang.submit("inherited", cpu="9", Worker=1)
    made = gang.wait_pod_group("inherited")
    gang.operated.restart_operator(
        lambda: gang.cluster.client.patch(
            VOLCANO_POD_GROUPS, gang.cluster.namespace, "inherited", {"metadata": {"labels": None}}, decode
        )
    )

    def labelled() -> bool:
        found = gang.wait_pod_group("inherited")
        assert found["metadata"]["uid"] == made["metadata"]["uid"]
        return bool(found["metadata"].get("labels"))

    eventually(labelled, every=0.05, what="the PodGroup has our labels")
    assert "FailedCreatePodGroup" not in job.reasons()


def test_pods_from_before_the_gang_scheduler_was_chosen_are_left_alone(gang: Gang) -> None:
    job = gang.submit("older", cpu="9", Worker=2)
    gang.wait_pod_group("older")

    def without_a_gang() -> None:
        """Leave the cluster as an operator without gang scheduling would."""
        client, namespace = gang.cluster.client, gang.cluster.namespace
        group = gang.wait_pod_group("older")["metadata"]
        client.delete(VOLCANO_POD_GROUPS, namespace, "older")
        labels = {**group["labels"], "training.kubeflow.org/replica-type": "worker"}
        for index in range(2):
            of_replica = {**labels, "training.kubeflow.org/replica-index": str(index)}
            body = manifests.pod(f"older-worker-{index}", of_replica, *group["ownerReferences"], schedulerName="mine")
            client.create(PODS, namespace, body, decode)

    gang.operated.restart_operator(without_a_gang)
    job.play("Running", "worker-0", "worker-1", leads_to="Running")
    gang.operated.settle()
    assert gang.pod_group("older") is None
