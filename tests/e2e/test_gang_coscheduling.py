"""Gang scheduling with the coscheduling plugin of scheduler-plugins: its CRD and a real scheduler, on a paper node."""

from __future__ import annotations

import pytest

from tests.e2e.gang import Gang, GangKind, GangTests, gang, gang_job, gang_of_module
from tests.support.cluster import decode
from tests.support.gang_schedulers import COSCHEDULING, coscheduling_scheduler, install_coscheduling_crds
from tfoperator.controller.pods.gang import COSCHEDULING_POD_GROUPS
from tfoperator.kube.resources import PRIORITY_CLASSES

__all__ = ["gang", "gang_of_module"]

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def gang_kind() -> GangKind:
    return GangKind(
        overlay="scheduler-plugins",
        scheduler_name=COSCHEDULING,
        pod_groups=COSCHEDULING_POD_GROUPS,
        install=install_coscheduling_crds,
        scheduler=coscheduling_scheduler,
        missing="podgroups.scheduling.x-k8s.io, is not installed",
        remedy="install scheduler-plugins",
    )


class TestCoscheduling(GangTests):
    pass


def test_a_job_that_does_not_fit_says_what_it_lacks_and_runs_when_it_asks_for_less(gang: Gang) -> None:
    job = gang.submit("toobig", cpu="3", policy={"scheduleTimeoutSeconds": 7}, Worker=3)
    gang.wait_message(job, "the gang of 3 pods (cpu 9) waits for room: Insufficient cpu")
    gang.wait_pod_group("toobig", minMember=3, minResources={"cpu": "9"}, scheduleTimeoutSeconds=7)
    for pod in job.wait_pods("worker-0", "worker-1", "worker-2").values():
        assert pod["spec"]["schedulerName"] == COSCHEDULING
        assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "toobig"
        assert "nodeName" not in pod["spec"]
    job.wait_reasons("Unschedulable")
    gang.operated.settle()
    assert len([event for event in job.events() if event["reason"] == "Unschedulable"]) == 1
    job.patch_spec(runPolicy={"schedulingPolicy": {"minAvailable": 1}})
    (bound,) = gang.wait_bound(job, 1)
    job.play("Running", bound)
    gang.wait_message(job, "wait: Unschedulable: Insufficient cpu", status="True")


def test_a_restarted_replica_finds_its_gang_though_others_have_completed(gang: Gang) -> None:
    job = gang.submit_manifest(
        gang_job("finishing", restart_policy="ExitCode", spec={"successPolicy": "AllWorkers"}, Worker=3)
    )
    gang.wait_bound(job, 3)
    job.play("Running", "worker-0", "worker-1", "worker-2", leads_to="Running")
    job.play("Succeeded", "worker-0", "worker-1")
    job.fail("worker-2", exit_code=137)
    # This scheduler does not see pods that have ended: a gang of three would never come together again.
    gang.wait_pod_group("finishing", minMember=1, minResources={"cpu": "1"})
    gang.wait_bound(job, 3)


def test_the_pods_of_the_highest_priority_class_make_the_smallest_gang(gang: Gang) -> None:
    client = gang.cluster.client
    client.create(PRIORITY_CLASSES, "", {"metadata": {"name": "urgent"}, "value": 1000}, decode)
    manifest = gang_job("ranked", cpu="1", policy={"minAvailable": 2}, PS=1, Worker=2)
    worker = manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    worker["priorityClassName"] = "urgent"
    worker["containers"][0]["resources"] = {"limits": {"cpu": "1500m"}}
    job = gang.submit_manifest(manifest)
    gang.wait_pod_group("ranked", minMember=2, minResources={"cpu": "3"})
    gang.wait_bound(job, 3)
    client.delete(PRIORITY_CLASSES, "", "urgent")
