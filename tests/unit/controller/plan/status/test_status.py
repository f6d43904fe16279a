"""The Go operator's status scenarios: what a job's state is for each combination of what its replicas do."""

from typing import Any

import pytest

from tests.unit.controller.builders import NOW, after, make_job, make_pod, planned, pods_by_letter, started
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.status import ReplicaStatus, TFJobStatus
from tfoperator.controller.plan.status.status import is_worth_writing
from tfoperator.controller.plan.values.conditions import Conditions, conditions_of

C = ConditionType


def state(result: Any) -> str:
    return str(result.status.conditions[-1].type)


CASES: list[tuple[str, dict[str, str], str, ConditionType]] = [
    ("chief succeeded", {"Chief": "S", "Worker": "S"}, "", C.SUCCEEDED),
    ("chief running", {"Chief": "R", "Worker": "-"}, "", C.RUNNING),
    ("master running", {"Master": "R", "Worker": "-"}, "", C.RUNNING),
    ("chief failed", {"Chief": "F", "Worker": "-"}, "", C.FAILED),
    ("worker failed", {"Worker": "F"}, "", C.FAILED),
    ("worker running", {"Worker": "R"}, "", C.RUNNING),
    ("some run, some failed", {"Worker": "FFRR", "PS": "RR"}, "", C.FAILED),
    ("worker 0 done", {"Worker": "SRRR", "PS": "RR"}, "", C.SUCCEEDED),
    ("worker 0 of all", {"Worker": "SRRR"}, "AllWorkers", C.RUNNING),
    ("all workers", {"Worker": "SSSS"}, "AllWorkers", C.SUCCEEDED),
    ("one of all failed", {"Worker": "SFRR"}, "AllWorkers", C.FAILED),
    ("the last of all failed", {"Worker": "SSSF"}, "AllWorkers", C.FAILED),
    ("chief runs, workers failed", {"Chief": "R", "Worker": "FFFF", "PS": "RR"}, "", C.FAILED),
    ("chief runs, workers done", {"Chief": "R", "Worker": "SSSS", "PS": "RR"}, "", C.RUNNING),
    ("chief runs, a PS failed", {"Chief": "R", "Worker": "SSSS", "PS": "FR"}, "", C.FAILED),
    ("chief failed, workers done", {"Chief": "F", "Worker": "SSSS", "PS": "RR"}, "", C.FAILED),
    ("chief done, workers failed", {"Chief": "S", "Worker": "FFFF", "PS": "RR"}, "", C.SUCCEEDED),
    ("only some chiefs done", {"Chief": "SR", "Worker": "S"}, "", C.RUNNING),
    ("servers alone run", {"PS": "RR"}, "", C.RUNNING),
    ("servers alone done", {"PS": "SS"}, "", C.SUCCEEDED),
    ("no worker wanted", {"Worker": "", "PS": "R"}, "", C.RUNNING),
    ("nothing wanted", {"Worker": ""}, "", C.CREATED),
    ("only the servers run", {"Worker": "-", "PS": "R"}, "", C.CREATED),
    ("a chief that does not run", {"Chief": "-", "Worker": "R"}, "", C.CREATED),
]


@pytest.mark.parametrize(("pods", "policy", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_state_of_a_job(pods: dict[str, str], policy: str, expected: ConditionType) -> None:
    job = started(make_job({kind: len(letters) for kind, letters in pods.items()}, successPolicy=policy))
    result = planned(job, *pods_by_letter(**pods))
    assert state(result) == expected
    assert not (result.is_true(C.SUCCEEDED) and result.is_true(C.FAILED))


@pytest.mark.parametrize("policy", ["OnFailure", "Always", "ExitCode"])
def test_a_retryable_failure_restarts_the_job(policy: str) -> None:
    job = started(make_job({"Chief": {"replicas": 1, "restartPolicy": policy}, "Worker": 1, "PS": 1}))
    pods = (make_pod("Chief-0", "Failed", exit_code=130), make_pod("Worker-0"), make_pod("PS-0"))
    result = planned(job, *pods)
    assert state(result) == C.RESTARTING
    restarting = result.condition(C.RESTARTING)
    assert restarting.reason == "TFJobRestarting"
    assert (
        restarting.message == "job mnist is restarting because Chief replica(s) failed (Chief-0: exited with code 130)."
    )
    assert not result.is_true(C.RUNNING)
    assert C.RESTARTING in result.transitions


@pytest.mark.parametrize(
    ("ps", "workers", "counts", "ready", "phase"),
    [
        ("-", "--", {"PS": (0, 0, 0), "Worker": (0, 0, 0)}, "0/3", "Pending"),
        ("P", "PP", {"PS": (0, 0, 0), "Worker": (0, 0, 0)}, "0/3", "Pending"),
        ("R", "PR", {"PS": (1, 0, 0), "Worker": (1, 0, 0)}, "2/3", "Running"),
        ("R", "NS", {"PS": (1, 0, 0), "Worker": (1, 1, 0)}, "1/3", "Running"),
        ("R", "SR", {"PS": (0, 1, 0), "Worker": (0, 2, 0)}, "0/3", "Succeeded"),
        ("R", "FR", {"PS": (0, 0, 0), "Worker": (0, 0, 1)}, "0/3", "Failed"),
    ],
)
def test_the_counts_and_the_phase(ps: str, workers: str, counts: dict[str, Any], ready: str, phase: str) -> None:
    result = planned(started(make_job({"PS": 1, "Worker": 2})), *pods_by_letter(workers, PS=ps))
    actual = {key: (s.active, s.succeeded, s.failed) for key, s in result.status.replica_statuses.items()}
    assert (actual, result.status.ready, result.status.phase) == (counts, ready, phase)


def test_the_wording_is_the_go_operators() -> None:
    job = started(make_job({"Worker": 2}))
    created = job.status.conditions[0]
    assert (created.type, created.reason, created.message) == ("Created", "TFJobCreated", "TFJob mnist is created.")
    running = planned(job, make_pod("Worker-0"), make_pod("Worker-1")).condition(C.RUNNING)
    assert (running.reason, running.message) == ("TFJobRunning", "TFJob ns/mnist is running.")
    alone = planned(started(make_job({"Chief": 1, "PS": 1})), make_pod("Chief-0"), make_pod("PS-0"))
    assert alone.condition(C.RUNNING).message == "TFJob ns/mnist is running."
    done = planned(job, make_pod("Worker-0", "Succeeded"))
    succeeded = done.condition(C.SUCCEEDED)
    assert (succeeded.reason, succeeded.message) == ("TFJobSucceeded", "TFJob ns/mnist successfully completed.")
    assert [(event.reason, event.type) for event in done.events] == [("TFJobSucceeded", "Normal")]
    over = planned(job, make_pod("Worker-0"), make_pod("Worker-1", "Failed", exit_code=1))
    failed = over.condition(C.FAILED)
    assert failed.reason == "TFJobFailed"
    assert failed.message == (
        "TFJob ns/mnist has failed because 1 Worker replica(s) failed. Worker-1: exited with code 1"
    )
    expected = [("ExitedWithCode", "Normal"), ("TFJobFailed", "Warning")]
    assert [(event.reason, event.type) for event in over.events] == expected
    assert over.events[0].message == "Pod: ns.mnist-worker-1 exited with code 1"


def test_running_says_how_many_are_ready_and_at_most_a_few_causes_and_exits_are_told() -> None:
    job = started(make_job({"Worker": 3}, successPolicy="AllWorkers"))
    result = planned(job, make_pod("Worker-0"), make_pod("Worker-1", "Succeeded"), make_pod("Worker-2", "Pending"))
    running = result.condition(C.RUNNING)
    assert running.message == "TFJob ns/mnist is running. 1/3 replicas ready, 1 completed."
    job = started(make_job({"Worker": 9}))
    result = planned(job, *(make_pod(f"Worker-{i}", "Failed", exit_code=1) for i in range(9)))
    assert result.condition(C.FAILED).message.endswith("Worker-2: exited with code 1; and 6 more")
    assert result.reasons == ["ExitedWithCode"] * 6 + ["TFJobFailed"]
    before = TFJobStatus(replica_statuses={ReplicaType.WORKER: ReplicaStatus(failed_indexes="0")})
    job = make_job({"Worker": 2}, status=before, successPolicy="AllWorkers", maxFailedWorkers=1)
    result = planned(job, make_pod("Worker-1", "Failed", exit_code=1))
    assert result.condition(C.FAILED).message.endswith("2 Worker replica(s) failed. Worker-1: exited with code 1")


def test_counts_are_worth_a_write_and_indexes_that_started_are_not() -> None:
    old, active, begun = (
        TFJobStatus(replica_statuses={ReplicaType.WORKER: ReplicaStatus(**counts)})
        for counts in (dict[str, Any](), {"active": 1}, {"started_indexes": "0"})
    )
    assert is_worth_writing(old, active)
    assert not is_worth_writing(old, begun)


# Their order and their times.


def build(*steps: tuple[ConditionType, str]) -> Conditions:
    conditions = conditions_of((), NOW)
    for kind, status in steps:
        conditions = conditions.having(kind, status, JobReason.RUNNING, "m")
    return conditions


@pytest.mark.parametrize(
    ("steps", "last"),
    [
        ([(C.CREATED, "True"), (C.RUNNING, "False")], "Created"),
        ([(C.CREATED, "True"), (C.RUNNING, "True"), (C.READY, "True")], "Running"),
        ([(C.CREATED, "True"), (C.SUSPENDED, "True"), (C.SUSPENDED, "False")], "Created"),
        ([(C.CREATED, "True"), (C.RUNNING, "True"), (C.RUNNING, "False"), (C.SUCCEEDED, "True")], "Succeeded"),
        ([(C.CREATED, "True"), (C.RUNNING, "True"), (C.READY, "True"), (C.RUNNING, "False")], "Created"),
    ],
)
def test_the_last_one_is_true_and_known_to_the_go_operator(steps: list[tuple[C, str]], last: str) -> None:
    assert build(*steps).written_to(TFJobStatus()).conditions[-1].type == last


def test_a_new_message_moves_the_update_time_only() -> None:
    before = conditions_of(build((C.RUNNING, "True")).now, after(60))
    later = before.having(C.RUNNING, "True", JobReason.RUNNING, "other")
    assert later != before
    (running,) = later.written_to(TFJobStatus()).conditions
    assert (running.last_update_time, running.last_transition_time) == (after(60), NOW)
    assert later.became_true() == frozenset()
