"""Pods with other containers beside `tensorflow`: it alone decides what its replica has done."""

from typing import Any

import pytest

from tests.unit.controller.builders import (
    NOW,
    TEMPLATE,
    ReadablePlan,
    after,
    make_job,
    make_pod,
    planned,
    started,
    terminated,
    with_status,
)
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.types import TFJob
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import ContainerState, ContainerStatus

PROXY = ContainerStatus(name="proxy", ready=True, state=ContainerState())
TRAINS = ContainerStatus(name="tensorflow", ready=True, state=ContainerState())
POD_POLICY = {"Never": "Never", "ExitCode": "Never", "OnFailure": "OnFailure", "Always": "Always"}


def job_of(policy: str, **spec: Any) -> TFJob:
    worker = {"replicas": 2, "restartPolicy": policy, **spec.pop("worker", {})}
    return started(make_job({"Worker": worker}, successPolicy="AllWorkers", **spec))


def pod(replica: str, policy: str, *containers: ContainerStatus, **fields: Any) -> Pod:
    fields.setdefault("start", after(-600))
    return make_pod(replica, restart_policy=POD_POLICY[policy], containers=containers, **fields)


def beside(job: TFJob, worker: Pod) -> ReadablePlan:
    """The plan for worker 0 beside a worker 1 that trains."""
    return planned(job, worker, make_pod("Worker-1"))


@pytest.mark.parametrize(
    ("policy", "code", "counts", "restarts"),
    [
        ("Never", 0, (1, 1, 0), 0),
        ("ExitCode", 0, (1, 1, 0), 0),
        ("ExitCode", 137, (1, 0, 1), 1),
        ("OnFailure", 0, (1, 1, 0), 0),
        # The kubelet starts it again.
        ("OnFailure", 3, (2, 0, 0), 0),
        ("Always", 0, (2, 0, 0), 0),
        ("Always", 3, (2, 0, 0), 0),
    ],
)
def test_a_replica_ends_with_its_program_though_a_sidecar_runs_on(
    policy: str, code: int, counts: tuple[int, int, int], restarts: int
) -> None:
    result = beside(job_of(policy), pod("Worker-0", policy, PROXY, terminated(code)))
    worker = result.status.replica_statuses["Worker"]
    assert (worker.active, worker.succeeded, worker.failed) == counts
    assert worker.restarts == restarts
    assert result.stopped_pods == (["Worker-0"] if worker.succeeded else [])
    assert result.deleted_pods == (["Worker-0"] if restarts else [])
    assert not result.created_pods, "the old pod has the name until its kubelet says that it has gone"
    assert result.write_status_first == (result.stopped_pods != result.deleted_pods)


@pytest.mark.parametrize("policy", ["Never", "ExitCode"])
def test_a_failure_for_good_beside_a_sidecar_fails_the_job(policy: str) -> None:
    result = beside(job_of(policy), pod("Worker-0", policy, PROXY, terminated(3)))
    assert "Worker-0: exited with code 3" in result.condition(ConditionType.FAILED).message
    assert sorted(result.stopped_pods) == ["Worker-0", "Worker-1"]


def test_a_program_that_its_kubelet_may_start_again_by_rules_of_its_own_has_not_ended() -> None:
    [main] = TEMPLATE["spec"]["containers"]
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
    own = {"spec": {"containers": [{**main, "restartPolicy": "Never", "restartPolicyRules": rules}]}}
    result = beside(job_of("ExitCode", worker={"template": own}), pod("Worker-0", "ExitCode", PROXY, terminated(42)))
    assert result.status.replica_statuses["Worker"].active == 2
    assert not result.stopped_pods


def test_restarts_of_a_sidecar_are_none_of_the_training() -> None:
    crashes = ContainerStatus(name="proxy", restart_count=3, state=ContainerState())
    job = job_of("OnFailure", runPolicy={"backoffLimit": 2, "onStraggler": "Restart"})
    result = beside(job, pod("Worker-0", "OnFailure", crashes, TRAINS, node="a"))
    assert not result.is_true(ConditionType.FAILED)
    assert result.status.restarts == result.status.replica_statuses["Worker"].restarts == 0
    assert not result.deleted_pods
    init = {"init_containers": (ContainerStatus(name="fetch", restart_count=3, state=ContainerState()),)}
    assert beside(job, pod("Worker-0", "OnFailure", TRAINS, PROXY, **init)).is_true(ConditionType.FAILED)


@pytest.mark.parametrize("init", [False, True])
def test_another_container_that_failed_a_pod_is_told_by_its_name(init: bool) -> None:
    failed = terminated(2, container="fetch")
    containers = {"init_containers": (failed,)} if init else {}
    worker = pod("Worker-0", "Never", *(() if init else (failed, TRAINS)), phase="Failed", **containers)
    message = beside(job_of("Never"), worker).condition(ConditionType.FAILED).message
    assert "Worker-0: container fetch exited with code 2" in message


@pytest.mark.parametrize(("finished", "completed"), [(-300, "0"), (-1, "")])
def test_a_program_that_had_ended_before_its_pods_deletion_has_succeeded(finished: int, completed: str) -> None:
    """The end of its sidecar by the deletion means nothing."""
    rest = (terminated(143, container="proxy", finished=NOW), terminated(0, finished=after(finished)))
    job = job_of("ExitCode")
    job = with_status(job, beside(job, make_pod("Worker-0")).status)
    result = beside(job, pod("Worker-0", "ExitCode", *rest, phase="Failed", deleted=after(-2)))
    assert result.status.replica_statuses["Worker"].completed_indexes == completed
