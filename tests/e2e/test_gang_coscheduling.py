"""Gang scheduling with the coscheduling plugin of scheduler-plugins: its CRD and a real scheduler, on a paper node."""

import pytest

from tests.e2e.gang import Gang, GangKind, KubeSchedulerTests, gang, gang_job, gang_of_module
from tests.support.cluster import decode
from tests.support.gang_schedulers import COSCHEDULING, coscheduling_scheduler, install_coscheduling_crds
from tfoperator.controller.pods.gang import COSCHEDULING_POD_GROUPS
from tfoperator.kube.protocol.resources import PRIORITY_CLASSES

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


class TestCoscheduling(KubeSchedulerTests): ...


def test_the_pods_of_the_highest_priority_class_make_the_smallest_gang(gang: Gang) -> None:
    client = gang.cluster.client
    client.create(PRIORITY_CLASSES, "", {"metadata": {"name": "urgent"}, "value": 1000}, decode)
    manifest = gang_job("ranked", cpu="1", policy={"minAvailable": 2, "scheduleTimeoutSeconds": 7}, PS=1, Worker=2)
    worker = manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    worker["priorityClassName"] = "urgent"
    worker["containers"][0]["resources"] = {"limits": {"cpu": "1500m"}}
    job = gang.submit_manifest(manifest)
    gang.wait_pod_group("ranked", minMember=2, minResources={"cpu": "3"}, scheduleTimeoutSeconds=7)
    gang.wait_bound(job, 3)
    client.delete(PRIORITY_CLASSES, "", "urgent")
