"""An unset `cleanPodPolicy`: what runs when its job has ended is stopped, or left in peace, and keeps its log."""

from datetime import datetime
from typing import Any

import msgspec
import pytest

from tests.support.plan_options import plan_options
from tests.unit.controller.builders import (
    NOW,
    OPTIONS,
    ReadablePlan,
    after,
    make_job,
    make_pod,
    planned,
    started,
    terminated,
    waiting,
    with_status,
)
from tfoperator.api.replicas.names import ANNOTATION_STOPPED
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.status import JobCondition, TFJobStatus
from tfoperator.controller.plan.values.actions import Patch
from tfoperator.controller.plan.values.observed import PlanOptions
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import ContainerState, ContainerStateTerminated, ContainerStatus, PodCondition

SPECS = {"Chief": 1, "PS": 1, "Worker": 2, "Evaluator": 1}
RAN = (terminated(0, container="init"),)
BEGINS = (ContainerStatus(name="init", state=ContainerState()),)
PULLS = (waiting("ImagePullBackOff"),)


def ended(kind: str, *pods: Pod, options: PlanOptions = OPTIONS, **run_policy: Any) -> ReadablePlan:
    conditions = (JobCondition("Created", "True"), JobCondition(kind, "True", f"TFJob{kind}", "", NOW, NOW))
    status = TFJobStatus(conditions=conditions, start_time=after(-60), completion_time=NOW)
    return planned(make_job(SPECS, status=status, runPolicy=run_policy), *pods, options=options)


@pytest.mark.parametrize("policy", [None, "None", "Running", "All"])
@pytest.mark.parametrize("default", ["", "None"])
def test_what_ran_when_the_job_failed_is_active_only_where_a_policy_is_set(policy: str | None, default: str) -> None:
    """As clients of the Go operator expect it; unset, what ran is stopped."""
    job = started(make_job(SPECS, runPolicy={} if policy is None else {"cleanPodPolicy": policy}))
    failed = make_pod("Worker-1", "Failed", exit_code=1)
    options = plan_options(default_clean_pod_policy=default)
    statuses = planned(job, make_pod("Chief-0"), make_pod("Worker-0"), failed, options=options).status.replica_statuses
    active = 1 if policy or default else 0
    assert {kind: (status.active, status.failed, status.ready) for kind, status in statuses.items()} == {
        "Chief": (active, 0, 0),
        "Worker": (active, 1, 0),
        "PS": (0, 0, 0),
        "Evaluator": (0, 0, 0),
    }


def test_a_stop_is_the_shortest_deadline_and_says_why() -> None:
    pod = make_pod("Chief-0", uid="chief")
    pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, resource_version="7"))
    for kind, why in (("Failed", "job-failed"), ("Succeeded", "job-succeeded")):
        [stop] = ended(kind, make_pod("PS-0") if kind == "Succeeded" else pod).stops
        assert isinstance(stop, Patch)
        assert not stop.required
        assert stop.body["spec"] == {"activeDeadlineSeconds": 1}
        assert stop.body["metadata"]["annotations"] == {ANNOTATION_STOPPED: why}
    expired = ended("Failed", pod, ttlSecondsAfterFinished=0)
    assert (expired.deletes_job, expired.stops) == (True, [])
    [stop] = ended("Failed", pod).stops
    assert (stop.uid, stop.body["metadata"]["resourceVersion"]) == ("chief", "7")


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        (None, "3 pods still run (evaluator-0, ps-0, worker-1)"),
        ("None", "3 pods still run (evaluator-0, ps-0, worker-1)"),
        ("Running", None),
        ("All", None),
    ],
)
def test_what_still_runs_after_a_success_is_named_with_how_to_end_it(policy: str | None, named: str | None) -> None:
    job = started(make_job(SPECS, runPolicy={} if policy is None else {"cleanPodPolicy": policy}))
    pods = (make_pod("Chief-0", "Succeeded", exit_code=0), make_pod("Worker-0", "Succeeded", exit_code=0))
    result = planned(job, *pods, make_pod("PS-0"), make_pod("Worker-1"), make_pod("Evaluator-0"))
    messages = [event.message for event in result.events if event.reason == "PodsLeftRunning"]
    assert [message.partition(". The operator lets")[0] for message in messages] == (
        [] if named is None else [f"The job has succeeded. {named}"]
    )
    assert all("set spec.runPolicy.cleanPodPolicy to Running, or delete the job" in message for message in messages)
    again = planned(with_status(job, result.status), *pods, make_pod("PS-0"), make_pod("Worker-1"))
    assert not [event for event in again.events if event.reason == "PodsLeftRunning"], "once"


def test_a_success_after_which_nothing_runs_has_no_such_event() -> None:
    job = started(make_job({"PS": 1, "Worker": 1}))
    result = planned(job, make_pod("Worker-0", "Succeeded", exit_code=0), make_pod("PS-0"))
    assert [stop.name for stop in result.stops] == ["mnist-ps-0"]
    assert "PodsLeftRunning" not in [event.reason for event in result.events]


def anew(finished: datetime | None, container: str = "tensorflow") -> ContainerStatus:
    """A container that runs anew after an end at that time."""
    ended_before = ContainerState(terminated=ContainerStateTerminated(0, "", "", finished))
    return ContainerStatus(name=container, ready=True, restart_count=1, last_state=ended_before)


LOOPS = msgspec.structs.replace(waiting("CrashLoopBackOff", restarts=9), last_state=anew(after(60)).last_state)


@pytest.mark.parametrize(
    ("kind", "pod", "done"),
    [
        ("Failed", make_pod("Worker-0"), "stopped"),
        ("Failed", make_pod("Worker-0", "Succeeded"), "left"),
        ("Failed", make_pod("Worker-0", "Failed", exit_code=137), "left"),
        ("Failed", make_pod("Worker-0", deadline=3600), "stopped"),
        ("Failed", make_pod("Worker-0", deadline=1), "left"),
        ("Failed", make_pod("Worker-0", deleted=NOW), "left"),
        # A node that comes back would go on with it.
        ("Failed", make_pod("Worker-0", "Unknown", node="node"), "stopped"),
        ("Failed", make_pod("Worker-0", "Running", reason="NodeLost"), "stopped"),
        # A pod without a kubelet would never end; it has no log.
        ("Failed", make_pod("Worker-0", "Pending"), "deleted"),
        ("Failed", make_pod("Worker-0", "", start=None), "deleted"),
        ("Failed", make_pod("Worker-0", "Pending", node="node"), "stopped"),
        ("Failed", make_pod("Worker-0", "Pending", node="node", containers=PULLS), "stopped"),
        ("Failed", make_pod("Worker-0", "Pending", init_containers=RAN), "stopped"),
        ("Succeeded", make_pod("Worker-0"), "left"),
        ("Succeeded", make_pod("Evaluator-0"), "left"),
        ("Succeeded", make_pod("Worker-0", deadline=3600), "left"),
        ("Succeeded", make_pod("Worker-0", "Pending"), "deleted"),
        ("Succeeded", make_pod("PS-0", "Pending"), "deleted"),
        ("Succeeded", make_pod("Worker-0", "Pending", node="node", containers=PULLS), "stopped"),
        ("Succeeded", make_pod("Worker-0", "Pending", node="node", init_containers=BEGINS), "left"),
        ("Succeeded", make_pod("Worker-0", containers=(waiting("CrashLoopBackOff", restarts=3),)), "left"),
        # A program that has ended and is started again by its kubelet has finished in peace.
        ("Succeeded", make_pod("Worker-0", containers=(LOOPS,)), "stopped"),
        ("Succeeded", make_pod("Worker-0", containers=(anew(after(60)),)), "stopped"),
        ("Succeeded", make_pod("Evaluator-0", containers=(anew(after(60)),)), "stopped"),
        ("Succeeded", make_pod("Worker-0", "Pending", node="n", init_containers=(anew(after(60), "i"),)), "stopped"),
        # It was started again before the job's end, perhaps: clocks differ.
        ("Succeeded", make_pod("Worker-0", containers=(anew(after(9)),)), "left"),
        ("Succeeded", make_pod("Worker-0", containers=(anew(after(-60)),)), "left"),
        ("Succeeded", make_pod("Worker-0", containers=(anew(None),)), "left"),
        # Another container than the container that trains.
        ("Succeeded", make_pod("Worker-0", containers=(ContainerStatus("tensorflow"), anew(after(60), "x"))), "left"),
        ("Succeeded", make_pod("Worker-0", init_containers=(anew(after(60), "sidecar"),)), "left"),
    ],
)
def test_what_becomes_of_a_pod(kind: str, pod: Pod, done: str) -> None:
    result = ended(kind, pod)
    assert (bool(result.stops), bool(result.deletions("pods"))) == (done == "stopped", done == "deleted")
    assert not result.deletions("services")
    assert not result.write_status


LOST = PodCondition("DisruptionTarget", "True", "DeletionByTaintManager")


@pytest.mark.parametrize(
    ("others", "stopped"),
    [
        ((), True),
        ((make_pod("Worker-0", "Succeeded"), make_pod("Worker-1", "Failed", exit_code=1)), True),
        ((make_pod("Worker-0"), make_pod("Worker-1", "Succeeded")), False),
        ((make_pod("Evaluator-0"),), False),
        # A program that gets SIGTERM may need its variables to save them.
        ((make_pod("Worker-0", deleted=NOW),), False),
        ((make_pod("Worker-0", deadline=1),), False),
        # It goes; until that is seen it may have begun.
        ((make_pod("Worker-0", "Pending"),), False),
        ((make_pod("Worker-0", "Pending", node="node"),), False),
        ((make_pod("Worker-0", "Unknown"),), True),
        ((make_pod("Worker-0", deleted=NOW, conditions=(LOST, PodCondition("Ready", "False"))),), True),
        ((make_pod("Worker-0", deleted=NOW, conditions=(LOST,)),), False),
    ],
)
def test_parameter_servers_serve_as_long_as_anybody_runs(others: tuple[Pod, ...], stopped: bool) -> None:
    result = ended("Succeeded", make_pod("PS-0"), *others)
    assert ("PS-0" in result.stopped_pods) is stopped


@pytest.mark.parametrize("kind", ["Succeeded", "Failed"])
@pytest.mark.parametrize("policy", ["All", "Running", "None"])
def test_an_administrator_chooses_what_unset_means(kind: str, policy: str) -> None:
    pods = (make_pod("Chief-0"), make_pod("PS-0", "Succeeded"), make_pod("Worker-0", "Pending"))
    options = plan_options(default_clean_pod_policy=policy)
    assert ended(kind, *pods, options=options) == ended(kind, *pods, cleanPodPolicy=policy)
    other = "All" if policy != "All" else "None"
    assert ended(kind, *pods, cleanPodPolicy=other, options=options) == ended(kind, *pods, cleanPodPolicy=other)


@pytest.mark.parametrize("limit", ["deadline", "backoff", None])
@pytest.mark.parametrize("policy", ["None", "Running", "All", None])
def test_a_limit_ends_programs_whatever_is_cleaned_up(limit: str | None, policy: str | None) -> None:
    """A job whose time is over, or that was restarted too often, must not train on."""
    limits = {"deadline": {"activeDeadlineSeconds": 60}, "backoff": {"backoffLimit": 0}}
    run_policy = {**limits.get(limit or "", {}), **({} if policy is None else {"cleanPodPolicy": policy})}
    replicas = {"PS": 1, "Worker": {"replicas": 2, "restartPolicy": "OnFailure" if limit == "backoff" else "Never"}}
    job = started(make_job(replicas, runPolicy=run_policy), start_time=after(-60))
    pods = [make_pod(replica) for replica in ("PS-0", "Worker-0", "Worker-1")]
    if limit != "deadline":
        pods[-1] = make_pod("Worker-1", "Failed", exit_code=1)
    result = planned(job, *pods)
    assert result.is_true(ConditionType.FAILED)
    runs = ["PS-0", "Worker-0", *(["Worker-1"] if limit == "deadline" else [])]
    stops = runs if policy is None or (policy == "None" and limit is not None) else []
    deletes = {"All": ["PS-0", "Worker-0", "Worker-1"], "Running": runs}.get(policy or "", [])
    for plan in (result, planned(with_status(job, result.status), *pods)):
        assert (sorted(plan.stopped_pods), sorted(plan.deleted_pods)) == (stops, deletes)
