"""Gang scheduling with the coscheduling plugin of scheduler-plugins: its CRD and a real scheduler, on a paper node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hack.controlplane import ControlPlane
from tests.e2e.gang import Gang, gang_job, gang_operated
from tests.support.cluster import decode
from tests.support.gang_schedulers import COSCHEDULING, coscheduling_scheduler, install_coscheduling_crds
from tfoperator.controller.gang import COSCHEDULING_POD_GROUPS
from tfoperator.kube.client import Client
from tfoperator.kube.resources import PRIORITY_CLASSES

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def gang_of_module(plane: ControlPlane, admin: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gang]:
    with gang_operated(
        plane,
        admin,
        tmp_path_factory.mktemp("coscheduling"),
        overlay="scheduler-plugins",
        flag=f"--gang-scheduler-name={COSCHEDULING}",
        pod_groups=COSCHEDULING_POD_GROUPS,
        install=install_coscheduling_crds,
        scheduler=coscheduling_scheduler,
    ) as one:
        yield one


@pytest.fixture
def gang(gang_of_module: Gang) -> Iterator[Gang]:
    yield gang_of_module
    gang_of_module.free_the_node()


def test_an_operator_without_the_crd_says_what_to_install_and_starts_once_it_is_there(gang: Gang) -> None:
    lines = [line for line in gang.told_before.splitlines() if "podgroups.scheduling.x-k8s.io" in line]
    assert len(lines) == 1
    assert "install scheduler-plugins" in lines[0]


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


def test_more_than_there_are_never_runs_and_lowered_succeeds(gang: Gang) -> None:
    job = gang.submit("ten", policy={"minAvailable": 10}, Worker=1)
    gang.wait_message(job, "the gang of 10 pods (cpu 1) can't come together", "only 1 replicas")
    job.patch_spec(runPolicy={"schedulingPolicy": {"minAvailable": 1}})
    gang.wait_bound(job, 1)
    job.play("Running", "worker-0")
    job.wait("Running")
    job.play("Succeeded", "worker-0")
    job.wait("Succeeded")
    gang.wait_no_pod_group("ten")


def test_a_restarted_replica_finds_its_gang_though_others_have_completed(gang: Gang) -> None:
    job = gang.submit_manifest(
        gang_job("finishing", restart_policy="ExitCode", spec={"successPolicy": "AllWorkers"}, Worker=3)
    )
    gang.wait_bound(job, 3)
    job.play("Running", "worker-0", "worker-1", "worker-2")
    job.wait("Running")
    job.play("Succeeded", "worker-0", "worker-1")
    first = job.pod_uid("worker-2")
    job.play("Failed", "worker-2", exit_code=137)
    job.wait_successor("worker-2", of=first)
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
