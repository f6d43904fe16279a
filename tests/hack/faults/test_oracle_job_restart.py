"""The oracle's judgement of jobs whose replicas restart together."""

from tests.hack.faults.story import Story

ACTIVE = {"active": 2, "startedIndexes": "0-1"}


def healthy(policy: str = "OnFailure", **run_policy: object) -> Story:
    story = Story(policy, {"runPolicy": {"restartScope": "Job", **run_policy}}, Worker=2)
    return story.running("worker-0", "worker-1").status("Running", "Ready", Worker=ACTIVE)


def restarting(policy: str = "OnFailure", **run_policy: object) -> Story:
    """Worker 1 failed, which is counted, and the operator stops worker 0."""
    story = healthy(policy, **run_policy).phase("worker-1", "Failed", 137)
    return story.status("-Running", "Restarting", job_restarts=1, Worker={}).remove("worker-0")


def again(story: Story) -> Story:
    for name in ("worker-0", "worker-1"):
        story.pod(name, f"{name}-again", number=1, phase="Running")
    return story.status("Running", "Ready", job_restarts=1, Worker=ACTIVE)


def test_a_pod_beside_an_old_one_is_doubled_and_an_old_one_that_runs_on_is_stuck() -> None:
    story = restarting().pod("worker-0", "early", number=1)
    text = "pod job-worker-0 of restart 1 was made beside job-worker-1 of restart 0"
    assert story.never() == [f"doubled: job: {text}"]
    story = healthy().phase("worker-1", "Failed", 137).status("Restarting", job_restarts=1, Worker={})
    story.remove("worker-1").pod("worker-1", "x", number=0, phase="Running")
    assert "pod job-worker-0 is of restart 0 of all, not 1" in " ".join(map(str, story.end()))


def test_a_restart_that_no_loss_accounts_for_is_doubled() -> None:
    counted = healthy().status("Running", "Ready", job_restarts=1, Worker=ACTIVE)
    assert counted.never() == ["doubled: job: it counts 1 restarts of all replicas, there were at most 0"]
    twice = restarting().status("-Running", "Restarting", job_restarts=2, Worker={})
    assert twice.never() == ["doubled: job: it counts 2 restarts of all replicas, there were at most 1"]
    alone = restarting().status("-Running", job_restarts=1, Worker={"restartCounts": {"1": 1}})
    assert alone.never() == ["doubled: job: Worker-1 counts 1 restarts, there were at most 0"]
    made = restarting().remove("worker-1").pod("worker-0", "x", number=2)
    assert made.never() == ["doubled: job: pod job-worker-0 is of restart 2, which nothing has caused"]


def test_a_restart_that_is_not_counted_is_lost() -> None:
    story = healthy().phase("worker-1", "Failed", 137).remove("worker-1").pod("worker-1", "x", phase="Running")
    assert "it counts 0 restarts of all replicas, there were at least 1" in " ".join(map(str, story.end()))
    assert restarting().status(Worker={}).never() == ["lost: job: all its replicas had restarted 1 times, now 0"]


def test_the_limit_counts_a_restart_of_all_once() -> None:
    reached = healthy(backoffLimit=0).phase("worker-0", "Failed", 137).phase("worker-1", "Failed", 137)
    assert reached.status("Failed", Worker={}).never() == []
    early = healthy(backoffLimit=1).phase("worker-0", "Failed", 137).phase("worker-1", "Failed", 137)
    assert early.status("Failed", Worker={}).never() == ["wrong: job: it has Failed without a reason: "]


def test_a_completed_replica_runs_again_only_with_the_others() -> None:
    done = {"succeeded": 1, "completedIndexes": "0"}
    story = Story("OnFailure", {"successPolicy": "AllWorkers", "runPolicy": {"restartScope": "Job"}}, Worker=2)
    story.running("worker-0", "worker-1").phase("worker-0", "Succeeded", 0).status("Running", Worker=done)
    story.phase("worker-1", "Failed", 137).status("Restarting", job_restarts=1, Worker={})
    assert again(story.remove("worker-0").remove("worker-1")).end() == []
