from datetime import UTC, datetime

import pytest

from tfoperator.cli.views.run.summary import summary
from tfoperator.local.run.results import JobResult, ReplicaResult, RunOutcome, RunResult
from tfoperator.report.facts import FinalState, JobFacts, ReplicaFacts, RunFacts
from tfoperator.report.report import make_report

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def facts_of(replica: ReplicaResult) -> ReplicaFacts:
    runs = (RunFacts(exit_code=replica.exit_code, tail=replica.last_lines, log=replica.logs[-1]),)
    return ReplicaFacts(name=replica.name, state=replica.state, restarts=replica.restarts, runs=runs)


def result(outcome: RunOutcome, condition: str = "", message: str = "", *replicas: ReplicaResult) -> str:
    about = {"namespace": "ns", "name": "digits", "outcome": condition or str(outcome), "message": message}
    facts = JobFacts(**about, replicas=tuple(map(facts_of, replicas)))
    job = JobResult("ns", "digits", condition, "R", message, replicas, report=make_report(facts))
    return "\n".join(summary(RunResult(outcome, 12.34, "runs/x", (job,), BEGAN)))


CHIEF = ReplicaResult("chief-0", "digits-chief-0", FinalState.SUCCEEDED, 0, 0, ("runs/x/c.log",))


def failed(code: int, restarts: int = 0, *lines: str) -> ReplicaResult:
    return ReplicaResult("worker-1", "digits-worker-1", FinalState.FAILED, restarts, code, ("a.log", "b.log"), lines)


def test_a_success_is_short_a_failure_names_the_replica_and_its_last_words_and_a_run_without_a_job_says_so() -> None:
    text = result(RunOutcome.SUCCEEDED, "Succeeded", "done", CHIEF)
    assert "TFJob digits succeeded after 12.3 s" in text
    assert "chief-0" in text
    assert "runs/x" in text
    assert "Next" not in text
    text = result(RunOutcome.FAILED, "Failed", "1 Worker replica(s) failed.", CHIEF, failed(1, 0, "Traceback", "boom"))
    assert "TFJob digits FAILED after 12.3 s: 1 Worker replica(s) failed." in text
    assert "worker-1 failed with exit code 1." in text
    assert "  | Traceback\n  | boom" in text
    assert "b.log" in text
    assert "restartPolicy" in text
    assert "--timeout" in result(RunOutcome.TIMED_OUT)
    assert "interrupted" in result(RunOutcome.INTERRUPTED)
    assert "no job was created: Interrupted" in "\n".join(
        summary(RunResult(RunOutcome.INTERRUPTED, 1.0, "runs/x", (), BEGAN))
    )
    job = JobResult("ns", "digits", "Succeeded", "R", "done", (CHIEF,), log_dir="runs/my x/logs")
    text = "\n".join(summary(RunResult(RunOutcome.SUCCEEDED, 1.0, "runs/x", (job,), BEGAN)))
    assert "tensorboard --logdir 'runs/my x/logs'" in text


def test_the_summary_has_the_cost_of_each_change_of_the_number_of_workers() -> None:
    change = "4 to 3 at 2026-01-01 00:01:00: 21 s without training"
    facts = JobFacts(namespace="ns", name="digits", outcome="Succeeded", usage="training 90%", resized=(change,))
    job = JobResult("ns", "digits", "Succeeded", "R", "done", (CHIEF,), report=make_report(facts))
    text = "\n".join(summary(RunResult(RunOutcome.SUCCEEDED, 1.0, "runs/x", (job,), BEGAN)))
    assert f"\n\nTime: training 90%\nChanges of the number of workers:\n  {change}\n\n" in text


MODULE = "ModuleNotFoundError: No module named 'tensorflow'"


@pytest.mark.parametrize(
    ("replica", "words"),
    [
        (failed(126), ["must exist on this machine"]),
        (failed(127), ["must exist on this machine", "--runtime docker"]),
        (failed(137, 2), ["exit code 137 (killed) after 2 restarts.", "memory ran out"]),
        (failed(139), ["exit code 139 (SIGSEGV).", "It has written no log.", "PYTHONFAULTHANDLER"]),
        (failed(1, 0, "boom"), ["correct the error in the log"]),
        (failed(1, 0, MODULE), ["the interpreter that runs tfoperator"]),
        (CHIEF, ["conditions and events"]),
    ],
)
def test_exit_codes_are_explained_and_what_to_do_next_depends_on_them(replica: ReplicaResult, words: list[str]) -> None:
    text = result(RunOutcome.FAILED, "Failed", "m", replica)
    assert [word for word in words if word not in text] == []
