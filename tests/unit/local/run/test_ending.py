"""The end of a run, written into the jobs and pods that it has seen last."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tfoperator.api.v1.types import TFJob, decode_tfjob
from tfoperator.kube.views.objects import Pod, decode_pod
from tfoperator.local.run.ending import DIED, RunEnd, ended_objects
from tfoperator.report.facts import FinalState
from tfoperator.sdk.states import ready_text, replica_state, was_stopped

BEGAN = datetime(2026, 1, 31, 12, tzinfo=UTC)
END = BEGAN + timedelta(seconds=60, microseconds=700_000)


def stamp(seconds: int) -> str:
    return (BEGAN + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def condition(kind: str, status: str = "True") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": f"TFJob{kind}", "message": kind, "lastTransitionTime": stamp(1)}


def job(*conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "a", "namespace": "ns", "uid": "u", "creationTimestamp": stamp(0)},
        "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2}, "PS": {}}},
        "status": {
            "phase": "Running",
            "ready": "2/3",
            "conditions": [condition("Created"), *conditions],
            "operatorConditions": [condition("Ready"), condition("Stalled"), condition("Admitted")],
            "replicaStatuses": {"Worker": {"active": 2, "ready": 2, "restarts": 1, "startedIndexes": "0-1"}},
            "startTime": stamp(2),
            "usage": {"phase": "training", "since": stamp(10), "seconds": {"starting": 8}, "resourcesSince": stamp(10)},
            "progress": {"completion": "50%", "percentage": 50, "eta": "30s", "estimatedRemainingSeconds": 30},
            **status,
        },
    }


def pod(name: str = "a-worker-0", *, phase: str = "Running", leaves: bool = True, **state: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"namespace": "ns", "name": name, "uid": name}
    if leaves:
        metadata |= {"deletionTimestamp": stamp(70), "deletionGracePeriodSeconds": 10, "managedFields": [{}]}
    containers = [{"name": "tensorflow", "ready": True, "restartCount": 0, "state": state}] if state else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": []},
        "status": {"phase": phase, "containerStatuses": containers},
    }


def ended_job(obj: dict[str, Any], end: RunEnd) -> TFJob:
    (ended,) = ended_objects([obj], end)
    return decode_tfjob(msgspec.json.encode(ended))


def ended_pod(obj: dict[str, Any], end: RunEnd) -> Pod:
    (ended,) = ended_objects([obj], end)
    return decode_pod(msgspec.json.encode(ended))


@pytest.mark.parametrize(
    ("state", "shown", "reason", "why"),
    [
        ("TimedOut", "TimedOut", "RunTimedOut", "the time limit of its run was over."),
        ("Interrupted", "Interrupted", "RunInterrupted", "its run was interrupted."),
        (DIED, "Died", "RunDied", "The run last wrote its records at 2026-01-31 12:01:00 UTC."),
        ("Failed", "Failed", "RunFailed", "its run failed: no port is free"),
    ],
)
def test_a_job_that_was_at_work_ends_with_its_run(state: str, shown: str, reason: str, why: str) -> None:
    ended = ended_job(job(condition("Running")), RunEnd(state, END, "no port is free"))
    status = ended.status
    assert (ended.state.word, status.phase, ready_text(ended)) == (shown, "Failed", "0/3")
    failed = status.conditions[-1]
    assert (failed.type, failed.status, failed.reason) == ("Failed", "True", reason)
    assert failed.message.startswith("TFJob ns/a was stopped: ")
    assert failed.message.endswith(why)
    statuses = {recorded.type: recorded.status for recorded in (*status.conditions, *status.operator_conditions)}
    assert statuses == {
        "Created": "True",
        "Running": "False",
        "Failed": "True",
        "Ready": "False",
        "Stalled": "False",
        "Admitted": "True",
    }
    assert status.completion_time == failed.last_transition_time == END.replace(microsecond=0)
    assert status.replica_statuses["Worker"].active == status.replica_statuses["Worker"].ready == 0
    assert status.replica_statuses["Worker"].restarts == 1
    assert status.usage is not None
    assert (status.usage.phase, status.usage.seconds) == ("", {"starting": 8, "training": 50})
    assert status.progress is not None
    assert (status.progress.completion, status.progress.eta) == ("50%", "")


def test_a_job_that_had_ended_keeps_its_outcome_and_its_time() -> None:
    succeeded = job(condition("Running", "False"), condition("Succeeded"), completionTime=stamp(30))
    ended = ended_job(succeeded, RunEnd("TimedOut", END))
    assert ended.state.word == "Succeeded"
    assert ended.status.completion_time == BEGAN + timedelta(seconds=30)
    assert ended.status.usage is not None
    assert ended.status.usage.seconds == {"starting": 8, "training": 20}
    assert ready_text(ended) == "0/3", "what still ran was stopped with the run"


def test_a_change_of_size_that_goes_on_has_a_cost_when_its_run_ends() -> None:
    change = {"time": stamp(20), "before": 2, "workers": 1, "untrainedBefore": 8}
    elastic = {"workers": 1, "wanted": 2, "changes": 1, "resizes": [change]}
    usage = {"phase": "lost", "since": stamp(20), "seconds": {"starting": 8, "training": 12}}
    ended = ended_job(job(condition("Running"), elastic=elastic, usage=usage), RunEnd("Interrupted", END))
    assert ended.status.elastic is not None
    assert [resize.cost for resize in ended.status.elastic.resizes] == ["40 s without training"]


def test_an_end_is_written_once_and_never_before_the_start() -> None:
    for obj in (job(condition("Running")), pod(running={"startedAt": stamp(3)}), pod(phase="Pending", leaves=False)):
        once = ended_objects([obj], RunEnd("TimedOut", END))
        assert ended_objects(once, RunEnd(DIED, END + timedelta(hours=1))) == once
    early = ended_job(job(condition("Running")), RunEnd(DIED, BEGAN - timedelta(hours=1)))
    assert early.status.completion_time == early.status.start_time


def test_a_job_that_nobody_looked_at_and_one_that_is_broken_end_too() -> None:
    bare = {member: value for member, value in job().items() if member != "status"}
    assert ended_job(bare, RunEnd(DIED, END)).state.word == "Died"
    broken = {**bare, "spec": {"tfReplicaSpecs": 5}}
    assert ended_job(broken, RunEnd(DIED, END)).state.word == "Died"


def test_a_pod_whose_end_nobody_saw_was_stopped_with_the_run() -> None:
    ended = ended_pod(pod(running={"startedAt": stamp(3)}, leaves=False), RunEnd(DIED, END))
    assert (replica_state(ended), ended.status.phase) == ("Stopped", "Failed")
    (status,) = ended.status.container_statuses
    assert not status.ready
    assert status.state is not None
    assert status.state.terminated is not None
    assert status.state.terminated.reason == "ContainerStatusUnknown"
    assert status.state.terminated.finished_at == END.replace(microsecond=0)


@pytest.mark.parametrize(
    ("final_state", "code", "shown"),
    [
        (FinalState.STOPPED, 143, "Stopped"),
        (FinalState.FAILED, 1, "Failed"),
        (FinalState.SUCCEEDED, 0, "Succeeded"),
        (None, 143, "Stopped"),
    ],
)
def test_a_pod_is_what_the_run_knew_of_its_replica(final_state: FinalState | None, code: int, shown: str) -> None:
    terminated = {"exitCode": code, "finishedAt": stamp(60), "startedAt": stamp(3)}
    obj = pod(phase="Failed" if code else "Succeeded", terminated=terminated)
    replicas = {} if final_state is None else {("ns", "a-worker-0"): final_state}
    ended = ended_pod(obj, RunEnd("Failed", END, replicas=replicas))
    assert replica_state(ended) == shown
    assert was_stopped(ended) is (shown == "Stopped")
    assert ended.metadata.deletion_timestamp is None
    (status,) = ended.status.container_statuses
    assert status.state is not None
    assert status.state.terminated is not None
    assert status.state.terminated.exit_code == code


def test_a_pod_that_waited_for_its_next_attempt_ended_with_the_one_before() -> None:
    obj = pod(waiting={"reason": "CrashLoopBackOff", "message": "back-off 16s"})
    terminated = {"exitCode": 1, "finishedAt": stamp(60), "startedAt": stamp(3)}
    obj["status"]["containerStatuses"][0] |= {"restartCount": 5, "lastState": {"terminated": terminated}}
    ended = ended_pod(obj, RunEnd("TimedOut", END, replicas={("ns", "a-worker-0"): FinalState.FAILED}))
    (status,) = ended.status.container_statuses
    assert status.state is not None
    assert status.state.terminated is not None
    assert (replica_state(ended), status.state.terminated.exit_code, status.restart_count) == ("Failed", 1, 5)
    never = ended_pod(pod(waiting={"reason": "ErrImagePull"}, phase="Pending"), RunEnd("TimedOut", END))
    assert replica_state(never) == "Stopped"


@pytest.mark.parametrize("spoilt", [5, "x", [1], {"conditions": 5}, {"containerStatuses": ["x", {"state": 5}]}, None])
@pytest.mark.parametrize("member", ["spec", "status"])
def test_objects_that_somebody_has_edited_have_an_end_too(member: str, spoilt: Any) -> None:
    for obj in (job(), pod()):
        (ended,) = ended_objects([{**obj, member: spoilt}], RunEnd(DIED, END))
        assert ended["status"]["phase"] == "Failed"
    for strange in (5, [1]):
        ended_objects([{**pod(), "metadata": {**pod()["metadata"], "annotations": strange}}], RunEnd(DIED, END))


def test_events_stay_as_they_are() -> None:
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}}
    assert ended_objects([event], RunEnd(DIED, END)) == (event,)


def test_a_job_that_finished_after_the_interruption_has_succeeded_and_another_one_has_not() -> None:
    other = job(condition("Running"))
    other["metadata"] = {**other["metadata"], "name": "b"}
    end = RunEnd("Interrupted", END, finished=frozenset({("ns", "a")}))
    first, second = (
        decode_tfjob(msgspec.json.encode(obj)) for obj in ended_objects((job(condition("Running")), other), end)
    )
    assert [first.state.word, second.state.word] == ["Succeeded", "Interrupted"]
    assert [recorded.reason for recorded in first.status.conditions if recorded.type == "Succeeded"] == [
        "FinishedWhenInterrupted"
    ]
    assert {recorded.type for recorded in first.status.conditions if recorded.status == "True"} == {
        "Created",
        "Succeeded",
    }
