"""The gang of a job with a data service: its pods need room together with the replicas."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.controller.builders import make_job, started, with_status
from tests.unit.controller.plan.objects.test_data_service import ALL, created
from tests.unit.controller.plan.objects.test_gang import (
    COSCHEDULING,
    KUBERNETES,
    VOLCANO,
    body_of_group,
    decide,
    made,
    member,
    message,
    of_group,
    pod_group,
    replicas,
)
from tfoperator.api.replicas.data_service import DataServiceMember, member_labels, member_suffix
from tfoperator.api.replicas.names import job_labels
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.values.actions import Create, Patch
from tfoperator.controller.pods.gang import GangScheduler
from tfoperator.kube.views.objects import Pod

NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."


def fed(count: int = 2, **spec: Any) -> TFJob:
    return make_job({"Worker": replicas(count) | {"restartPolicy": "ExitCode"}}, dataService={"workers": 2}, **spec)


def data_pod(of: DataServiceMember, phase: str = "Pending", **given: Any) -> Pod:
    labels = job_labels("mnist") | member_labels(of)
    return member("Worker-0", phase, labels=labels, name=f"mnist-{member_suffix(of)}", **given)


def data_pods(phase: str = "Pending", **given: Any) -> list[Pod]:
    return [data_pod(of, phase, **given) for of in ALL]


@pytest.mark.parametrize("gang", [COSCHEDULING, KUBERNETES, VOLCANO])
def test_a_gang_waits_for_room_for_all_its_pods_and_then_no_more(gang: GangScheduler) -> None:
    job = started(fed())
    group = pod_group(job, gang=gang)
    assert group.spec.members == 5
    pods = [*(member(f"Worker-{index}") for index in range(2)), *data_pods(refusal=NO_ROOM)]
    waiting = decide(job, *pods, group=group, gang=gang)
    assert "the gang of 5 pods (cpu 5) waits for room: Insufficient cpu" in message(waiting)
    assert "can never start" not in message(waiting)
    workers = [member(f"Worker-{index}", node="n") for index in range(2)]
    placed = decide(job, *workers, *data_pods(node="n"), group=group, gang=gang)
    assert "gang" not in message(placed)


def test_a_refusal_of_a_replica_is_a_reason_too() -> None:
    job = started(fed())
    pods = [*(member(f"Worker-{index}", refusal=NO_ROOM) for index in range(2)), *data_pods()]
    waiting = decide(job, *pods, group=pod_group(job, gang=COSCHEDULING), gang=COSCHEDULING)
    assert "Worker-0 and Worker-1 wait: the gang of 5 pods (cpu 5) waits for room: Insufficient cpu" in message(waiting)
    assert waiting.reasons == ["Unschedulable"]


def test_completed_replicas_count_only_while_no_pod_of_the_data_service_needs_room() -> None:
    job = fed(successPolicy="AllWorkers")
    group = pod_group(job, gang=COSCHEDULING)
    workers = [member("Worker-0", "Succeeded", node="n", exit_code=0), member("Worker-1", "Running", node="n")]
    kept = data_pods("Running", node="n")
    job = with_status(job, decide(job, *workers, *kept, group=group, gang=COSCHEDULING).status)
    assert of_group(decide(job, *workers, *kept, group=group, gang=COSCHEDULING), Patch) is None
    patch = of_group(decide(job, *workers, *kept[:2], group=group, gang=COSCHEDULING), Patch)
    assert patch.body == {"spec": {"minMember": 4, "minResources": {"cpu": "4"}}}


@pytest.mark.parametrize("gang", [COSCHEDULING, KUBERNETES, VOLCANO])
def test_with_a_size_of_its_own_a_gang_has_no_pod_of_the_data_service(gang: GangScheduler) -> None:
    job = fed(runPolicy={"schedulingPolicy": {"minAvailable": 2}})
    assert pod_group(job, gang=gang).spec.members == 2
    plan = decide(job, group=pod_group(job, gang=gang), gang=gang)
    bodies = {
        action.name: action.body for action in plan.actions if isinstance(action, Create) and action.kind == "pods"
    }
    for name, body in bodies.items():
        assert body["spec"]["schedulerName"] == gang.name
        marks = [*body["metadata"].get("annotations", ()), *body["metadata"]["labels"], *body["spec"]]
        is_member = any(mark.endswith(("/pod-group", "/group-name", "schedulingGroup")) for mark in marks)
        assert is_member == name.startswith("mnist-worker-"), name
    assert len(bodies) == 5


def test_a_job_whose_data_service_is_no_part_of_its_gang_gets_its_pod_group_again() -> None:
    job = started(fed(runPolicy={"schedulingPolicy": {"minAvailable": 2}}))
    workers = [member(f"Worker-{index}", node="n") for index in range(2)]
    service = data_pods(node="n")
    for pod in service:
        pod.metadata.labels.pop("scheduling.x-k8s.io/pod-group")
    plan = decide(job, *workers, *service, gang=COSCHEDULING)
    assert body_of_group(plan)["spec"]["minMember"] == 2


def test_volcano_admits_the_pods_of_the_data_service_too() -> None:
    job = fed()
    assert created(decide(job, group=pod_group(job, "Pending"))) == []
    assert {"mnist-dispatcher-0", "mnist-dataworker-1"} <= set(created(decide(job, group=pod_group(job))))
    assert made(job)["minResources"] == {"cpu": "5"}


def test_a_changed_number_of_data_workers_changes_the_gang() -> None:
    job = started(fed())
    group = pod_group(job, gang=COSCHEDULING)
    workers = [member(f"Worker-{index}", "Running", node="n") for index in range(2)]
    smaller = with_status(make_job({"Worker": replicas(2)}, dataService={"workers": 1}), job.status)
    patch = of_group(decide(smaller, *workers, *data_pods("Running", node="n"), group=group, gang=COSCHEDULING), Patch)
    assert patch.body == {"spec": {"minMember": 4, "minResources": {"cpu": "4"}}}
