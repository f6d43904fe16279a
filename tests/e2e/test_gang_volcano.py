"""Gang scheduling with Volcano: its CRDs and its scheduler, on a node that exists on paper."""

import pytest

from tests.e2e.gang import Gang, GangKind, GangTests, gang, gang_job, gang_of_module
from tests.support.cluster import decode
from tests.support.gang_schedulers import install_volcano_crds, volcano_scheduler
from tfoperator.controller.pods.gang import VOLCANO_POD_GROUPS
from tfoperator.kube.protocol.resources import PRIORITY_CLASSES

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


class TestVolcano(GangTests): ...


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
    (unschedulable,) = [event for event in job.events() if event["reason"] == "Unschedulable"]
    assert (unschedulable["type"], unschedulable.get("count", 1)) == ("Warning", 1)

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
