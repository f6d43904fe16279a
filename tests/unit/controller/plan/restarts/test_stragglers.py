"""Slow replicas, and replicas that a node fails: the events, and the replicas that are made anew elsewhere."""

from typing import Any

import msgspec
import pytest

from tests.unit.controller.builders import (
    ReadablePlan,
    after,
    make_job,
    make_pod,
    plan_for,
    planned,
    services_of,
    with_status,
)
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.parts.progress import ReplicaProgress, TrainingProgress
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.values.observed import Observed
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
)

C = ConditionType
WORKERS = (make_pod("Worker-0", node="a"), make_pod("Worker-1", node="b"), make_pod("Worker-2", node="c"))


def job(policy: str = "Restart", restart_policy: str = "OnFailure", **run_policy: Any) -> TFJob:
    """A job of three workers that run on nodes a, b and c."""
    worker = {"replicas": 3, "restartPolicy": restart_policy}
    of = make_job({"Worker": worker}, runPolicy={"onStraggler": policy, **run_policy})
    return with_status(of, planned(of, *WORKERS).status)


def reporting(of: TFJob, seconds: float, **factors: str) -> TFJob:
    """The job, whose replicas are slower by these factors, by reports so many seconds after NOW."""
    slow = tuple(ReplicaProgress(name.replace("_", "-"), 9, after(seconds), factor) for name, factor in factors.items())
    progress = TrainingProgress(last_updated_time=after(seconds), slow=slow)
    return with_status(of, msgspec.structs.replace(of.status, progress=progress))


def plan_at(of: TFJob, seconds: float, *pods: Pod) -> ReadablePlan:
    return plan_for(Observed(of, pods or WORKERS, services_of(of)), after(seconds))


def replaced(*pods: Pod) -> tuple[Pod, ...]:
    """The workers, with these in the place of their own."""
    indexes = {pod.metadata.labels["training.kubeflow.org/replica-index"]: pod for pod in pods}
    return tuple(indexes.get(str(index), worker) for index, worker in enumerate(WORKERS))


def avoided(plan: ReadablePlan) -> list[str]:
    """The nodes that the created pod avoids."""
    (creation,) = plan.creations("pods")
    affinity = creation.body["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    return [value for term in terms for rule in term["matchExpressions"] for value in rule["values"]]


def ended(code: int, node: str, before: int) -> Pod:
    return make_pod("Worker-1", "Failed", exit_code=code, node=node, restarts_before=before, uid=f"uid-{before}")


def crashing(restarts: int, code: int = 1, node: str = "b") -> Pod:
    last = ContainerState(terminated=ContainerStateTerminated(code, "Error", "", after(0)))
    state = ContainerState(running=ContainerStateRunning())
    return make_pod("Worker-1", node=node, containers=(ContainerStatus("tensorflow", True, restarts, state, last),))


@pytest.mark.parametrize("policy", ["", "Ignore", "Restart"])
def test_a_slow_replica_is_named_once(policy: str) -> None:
    first = plan_at(reporting(job(policy), 60, worker_1="2.1"), 60)
    condition = first.condition(C.STRAGGLING)
    assert (condition.status, condition.reason) == ("True", "SlowReplica")
    assert condition.message.endswith(": worker-1.")
    assert first.reasons == ["Straggling"]
    assert first.events[0].message == condition.message
    assert not first.deleted_pods
    of = with_status(job("Ignore"), first.status)
    assert not plan_at(reporting(of, 65, worker_1="2.4"), 65).acts, "another factor is worth no write"
    more = plan_at(reporting(of, 65, worker_1="2.4", worker_2="1.6"), 65)
    assert more.condition(C.STRAGGLING).message.endswith(": worker-1, worker-2.")
    assert not more.reasons


def test_it_is_over_when_nobody_is_slow_and_when_the_job_has_ended() -> None:
    of = reporting(job("Ignore"), 60, worker_1="2.1")
    of = with_status(of, plan_at(of, 60).status)
    assert plan_at(reporting(of, 70), 70).condition(C.STRAGGLING).status == "False"
    end = plan_at(of, 70, *replaced(make_pod("Worker-0", "Succeeded", exit_code=0, node="a")))
    assert end.is_true(C.SUCCEEDED)
    assert end.condition(C.STRAGGLING).status == "False"


def test_a_slow_replica_is_made_anew_on_another_node_and_then_left_in_peace() -> None:
    of = reporting(job(), 60, worker_1="2.1")
    of = with_status(of, plan_at(of, 60).status)
    restart = plan_at(of, 62)
    assert restart.deleted_pods == ["Worker-1"]
    assert "NodeAvoided" in restart.reasons
    assert restart.condition(C.STRAGGLING).status == "False"
    of = with_status(of, restart.status)
    again = plan_at(of, 63)
    assert (again.deleted_pods, again.reasons) == (["Worker-1"], []), "the deletion failed: it is asked for again"
    assert avoided(plan_at(of, 64, WORKERS[0], WORKERS[2])) == ["b"]
    # The old pod's reports mean nothing for the new pod.
    pods = replaced(make_pod("Worker-1", node="d", created=after(65), restarts_before=1, uid="new"))
    assert not plan_at(of, 90, *pods).deleted_pods
    assert not plan_at(of, 90, *pods).is_true(C.STRAGGLING)
    # A scheduler that doesn't heed it (a single machine) is not fought.
    same = replaced(make_pod("Worker-1", node="b", created=after(65), restarts_before=1, uid="new"))
    slow_again = with_status(of, plan_at(reporting(of, 120, worker_1="2.0"), 120, *same).status)
    assert slow_again.status.conditions != of.status.conditions
    assert not plan_at(slow_again, 122, *same).deleted_pods


def test_replicas_that_are_slow_at_the_same_time_count_once_for_the_backoff_limit() -> None:
    of = reporting(job(backoffLimit=1), 60, worker_1="2.1", worker_2="2.2")
    of = with_status(of, plan_at(of, 60).status)
    restart = plan_at(of, 62)
    assert restart.deleted_pods == ["Worker-1", "Worker-2"]
    assert (restart.status.restarts, restart.status.shared_restarts) == (2, 1)
    again = plan_at(with_status(of, restart.status), 63)
    assert (again.deleted_pods, again.write_status) == (["Worker-1", "Worker-2"], False), "looked at twice"
    never = reporting(job(backoffLimit=0), 60, worker_1="2.1")
    assert plan_at(with_status(never, plan_at(never, 60).status), 62).is_true(C.FAILED)


def test_three_failures_in_a_row_on_one_node_move_a_replica_each_counts_once_and_an_eviction_or_a_loss_never() -> None:
    of = job(restart_policy="ExitCode")
    for before in range(3):
        pods = replaced(ended(137, "b", before))
        first = plan_at(of, 10, *pods)
        of = with_status(of, first.status)
        assert with_status(of, plan_at(of, 11, *pods).status) == of, "looked at twice, it counts once"
        assert of.status.node_failures == {"worker-1/b": before + 1}
    assert "NodeAvoided" in first.reasons
    assert avoided(plan_at(of, 2000, *replaced(ended(137, "b", 2)))) == ["b"]
    evicted = make_pod("Worker-1", "Failed", exit_code=137, node="b", reason="Evicted")
    assert not plan_at(job(), 10, *replaced(evicted)).status.node_failures
    leaving = make_pod("Worker-1", node="b", deleted=after(5))
    assert not plan_at(job(), 10, *replaced(leaving)).status.node_failures


@pytest.mark.parametrize(("code", "count"), [(201, 3), (202, 3), (203, 1)])
def test_an_exit_code_of_a_device_is_enough(code: int, count: int) -> None:
    plan = plan_at(job(restart_policy="ExitCode"), 10, *replaced(ended(code, "b", 0)))
    assert plan.status.node_failures == {"worker-1/b": count}


@pytest.mark.parametrize(("pod", "moved"), [(crashing(2), False), (crashing(3), True), (crashing(1, 201), True)])
def test_restarts_in_place_count_too(pod: Pod, moved: bool) -> None:
    plan = plan_at(job(), 10, *replaced(pod))
    assert plan.deleted_pods == (["Worker-1"] if moved else [])
    assert not plan_at(job("Ignore"), 10, *replaced(pod)).deleted_pods


def test_after_three_nodes_the_replica_itself_is_the_reason_and_the_memory_has_a_bound() -> None:
    of = job(restart_policy="ExitCode")
    for before, node in enumerate("bdefg"):
        of = with_status(of, plan_at(of, 10, *replaced(ended(201, node, before))).status)
    assert list(of.status.node_failures) == ["worker-1/b", "worker-1/d", "worker-1/e"]
    of = make_job({"Worker": {"replicas": 40, "restartPolicy": "ExitCode"}}, runPolicy={"onStraggler": "Restart"})
    pods = [make_pod(f"Worker-{i}", "Failed", exit_code=201, node=f"n{i}") for i in range(40)]
    assert len(planned(of, *pods).status.node_failures) == 16
