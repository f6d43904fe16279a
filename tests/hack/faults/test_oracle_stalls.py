"""The oracle's judgement of jobs with a deadline for their progress."""

from typing import Any

from tests.hack.faults.story import Story

ACTIVE = {"active": 2, "startedIndexes": "0-1"}
REPORTED = {"step": 10, "lastUpdatedTime": "2026-01-01T00:00:00Z"}


def healthy(on_stall: str = "Restart", **run_policy: Any) -> Story:
    policy = {"progressDeadlineSeconds": 60, "onStall": on_stall, **run_policy}
    story = Story("OnFailure", {"runPolicy": policy}, Worker=2)
    return story.running("worker-0", "worker-1").status("Running", "Ready", Worker=ACTIVE)


def restarted(story: Story, *conditions: str) -> Story:
    """Worker 1 runs, is counted as restarted and deleted; another pod takes its place."""
    counted = {**ACTIVE, "restartCounts": {"1": 1}}
    story.status(*conditions, Worker=counted).remove("worker-1")
    story.pod("worker-1", "again", 1, phase="Running")
    return story.status("-Stalled", "Running", "Ready", Worker=counted)


def failed(story: Story, ended: str) -> list[str]:
    """Judge a job that fails at that time, because it has made no progress since 00:00:00."""
    condition = {"type": "Failed", "status": "True", "reason": "ProgressDeadlineExceeded", "message": "no progress"}
    completion = f"2026-01-01T{ended}Z"
    return story.report("j", progress=REPORTED, completionTime=completion, conditions=[condition]).never()


def test_a_restart_of_what_has_not_is_wrong_and_so_are_two_for_one_stall() -> None:
    violations = restarted(healthy(), "Running").never()
    assert "doubled: job: Worker-1 counts 1 restarts, there were at most 0" in violations
    assert "wrong: job: pod job-worker-1 (Running) was deleted without a reason" in violations
    twice = healthy().status("Running", "Stalled", Worker={**ACTIVE, "restartCounts": {"1": 2}})
    assert twice.never() == ["doubled: job: Worker-1 counts 2 restarts, there were at most 1"]


def test_a_job_fails_for_its_stall_in_time_if_it_is_to_and_is_not_left_stalled_when_it_reports_again() -> None:
    assert failed(healthy("Fail"), "00:01:00") == []
    unasked = ["wrong: job: it has Failed without a reason: no progress"]
    assert failed(healthy("Fail"), "00:00:59") == unasked
    assert failed(healthy("Restart"), "00:01:00") == unasked
    [violation] = healthy().status("Running", "Ready", "Stalled", Worker=ACTIVE).end()
    assert "Stalled" in str(violation)
