"""Creating, scaling, doubles and services."""

from datetime import datetime

import msgspec
import pytest

from tests.unit.controller.builders import NOW, after, make_job, make_pod, make_service, planned, services_of, started
from tfoperator.api.replicas import names
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.status import ReplicaStatus
from tfoperator.controller.plan.values.actions import DeleteReason
from tfoperator.kube.views.objects import Pod

C = ConditionType


def test_scaling_down_deletes_from_the_highest_index_and_is_no_failure() -> None:
    job = started(make_job({"Worker": 3}), replica_statuses={"Worker": ReplicaStatus(started_indexes="0-4")})
    pods = [make_pod(f"Worker-{i}", "Failed" if i == 4 else "Running") for i in range(5)]
    services = tuple(make_service(f"Worker-{i}") for i in range(5))
    result = planned(job, *pods, services=services)
    assert result.deleted_pods == ["Worker-4", "Worker-3"]
    assert [s.name for s in result.deletions("services")] == ["mnist-worker-4", "mnist-worker-3"]
    assert {d.reason for d in (*result.deletions("pods"), *result.deletions("services"))} == {DeleteReason.SCALE_DOWN}
    assert result.is_true(C.RUNNING)
    assert result.write_status_first, "their going must not look like a loss later"
    assert result.status.replica_statuses["Worker"].started_indexes == "0-2"


@pytest.mark.parametrize("leader", ["Worker", "Chief"])
def test_a_job_whose_workers_are_scaled_to_nothing_waits_for_more(leader: str) -> None:
    """By hand, to pause them, or by an autoscaler that can."""
    evaluated = make_pod("Evaluator-0", "Succeeded")
    running = planned(started(make_job({"Evaluator": 1, leader: 1})), evaluated, make_pod(f"{leader}-0"))
    paused = planned(make_job({"Evaluator": 1, leader: 0}, status=running.status), evaluated)
    assert not paused.has_condition(C.SUCCEEDED)
    assert f"the job now has no {leader} replica" in paused.condition(C.RUNNING).message
    back = planned(make_job({"Evaluator": 1, leader: 1}, status=paused.status), evaluated)
    assert back.created_pods == [f"{leader}-0"]
    gone = planned(make_job({"Evaluator": 1}, status=paused.status), evaluated)
    assert gone.is_true(C.SUCCEEDED), "there is nobody to wait for"


@pytest.mark.parametrize(
    ("pods", "kept"),
    [
        ([make_pod("Worker-0", uid="a", created=after(1)), make_pod("Worker-0", uid="b")], "b"),
        ([make_pod("Worker-0", "Pending", uid="a"), make_pod("Worker-0", uid="b", created=after(9))], "b"),
        ([make_pod("Worker-0", uid="a", deleted=NOW), make_pod("Worker-0", "Pending", uid="b")], "b"),
        ([make_pod("Worker-0", "Failed", uid="a"), make_pod("Worker-0", "Pending", uid="b")], "b"),
        ([make_pod("Worker-0", uid="b", created=None), make_pod("Worker-0", uid="a")], "b"),
    ],
)
def test_of_two_pods_for_one_index_the_more_advanced_then_the_older_stays(pods: list[Pod], kept: str) -> None:
    for order in (pods, pods[::-1]):
        metas = (msgspec.structs.replace(pod.metadata, name=f"pod-{pod.metadata.uid}") for pod in order)
        named = [msgspec.structs.replace(pod, metadata=meta) for pod, meta in zip(order, metas, strict=True)]
        result = planned(started(make_job({"Worker": 1})), *named)
        assert {d.uid for d in result.deletions("pods")} == {
            p.metadata.uid for p in pods if p.metadata.uid != kept and p.metadata.deletion_timestamp is None
        }
        assert not result.creations("pods")
        assert result.status.restarts == 0


def test_of_two_services_of_the_job_for_one_index_the_older_stays() -> None:
    job = started(make_job({"Worker": 1}))
    double = names.unique_object_name("mnist", ReplicaType.WORKER, 0, job.metadata.uid)
    young = make_service("Worker-0", name=double, created=after(1))
    for services in ((young, make_service("Worker-0")), (make_service("Worker-0"), young)):
        result = planned(job, make_pod("Worker-0"), services=services)
        assert [s.name for s in result.deletions("services")] == [double]
        assert not result.creations("services")


@pytest.mark.parametrize("created", [after(-600), after(600)])
def test_a_service_that_somebody_else_has_made_with_a_pods_labels_is_left_alone(created: datetime) -> None:
    """`kubectl expose pod mnist-worker-0 --name=tb` gives the new service the pod's labels."""
    exposed = make_service("Worker-0", name="tb", created=created)
    job = started(make_job({"Worker": 2}))
    pods = (make_pod("Worker-0"), make_pod("Worker-1"))
    assert not planned(job, *pods, services=(exposed, *services_of(job))).changes_objects
    alone = planned(job, *pods, services=(exposed, make_service("Worker-1")))
    assert [creation.name for creation in alone.creations("services")] == ["mnist-worker-0"]
    suspended = started(make_job({"Worker": 2}, runPolicy={"suspend": True}))
    let_go = planned(suspended, *pods, services=(exposed, *services_of(job)))
    assert {deletion.name for deletion in let_go.deletions("services")} == {"mnist-worker-0", "mnist-worker-1"}


def test_pods_and_services_that_name_no_replica_are_left_alone() -> None:
    job = started(make_job({"Worker": 1}))
    labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "-1"}
    stray = make_pod("Worker-7", labels=labels)
    service = make_service("Worker-7")
    odd = msgspec.structs.replace(service, metadata=msgspec.structs.replace(service.metadata, labels={}))
    result = planned(job, make_pod("Worker-0"), stray, services=(*services_of(job), odd))
    assert not [*result.deletions("pods"), *result.deletions("services")]
    assert result.status.ready == "1/1"


def test_the_cluster_is_rendered_once_however_many_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[int] = []

    def object_name(job: str, kind: str, index: int) -> str:
        named.append(index)
        return f"{kind}-{index}"

    monkeypatch.setattr(names, "object_name", object_name)
    planned(make_job({"Worker": 200}), services=())
    assert len(named) <= 3 * 200 + 1  # once more to see whether the longest name fits
