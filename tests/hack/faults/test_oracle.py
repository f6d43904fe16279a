import copy
from datetime import datetime, timedelta

import msgspec
import pytest

from tests.hack.faults.story import Story

ACTIVE = {"active": 1, "startedIndexes": "0"}
DONE = {"succeeded": 1, "completedIndexes": "0"}


def healthy(policy: str = "OnFailure", **spec: object) -> Story:
    return Story(policy, spec, Worker=1).running("worker-0").status("Running", "Ready", Worker=ACTIVE)


def restarted() -> Story:
    """A job whose worker failed once and runs again."""
    counted = {"restartCounts": {"0": 1}}
    story = healthy().phase("worker-0", "Failed", 137).status("-Running", "Restarting", Worker={**counted, "failed": 1})
    story.remove("worker-0").pod("worker-0", "second", 1, phase="Running")
    return story.status("Running", "Ready", Worker={**ACTIVE, **counted})


@pytest.mark.parametrize(("code", "verdict"), [(0, "Succeeded"), (3, "Failed")])
def test_a_sidecar_is_stopped_when_its_program_has_ended_and_not_before(code: int, verdict: str) -> None:
    assert healthy("Never").stop("worker-0").never()
    story = healthy("Never").program_ends("worker-0", code)
    story.status("-Running", verdict, Worker=DONE if code == 0 else {"failed": 1})
    left = "stuck: job: pod job-worker-0 has ended but for its sidecar, which runs on"
    assert {str(violation) for violation in story.end()} == {left}
    assert story.stop("worker-0").sidecar_ends("worker-0").end() == []


# Lost.


def test_a_missing_pod_or_service_and_a_restart_that_is_not_counted_are_lost() -> None:
    story = healthy().spec(replicas={"Worker": 2}).service("worker-1").status("Running", Worker=ACTIVE)
    assert [str(violation) for violation in story.end()] == ["lost: job: Worker-1 has no pod"]
    assert "lost: job: Worker-0 has no service" in map(str, healthy().take("service-worker-0").end())
    story = healthy().take("worker-0").pod("worker-0", "second", phase="Running")
    assert "lost: job: Worker-0 counts 0 restarts, there were at least 1" in map(str, story.end())


def test_a_count_that_is_taken_back_and_a_completion_that_is_forgotten_are_lost() -> None:
    story = restarted().status("Running", "Ready", Worker=ACTIVE)
    assert story.never() == ["lost: job: Worker-0 had 1 restarts, now 0"]
    story = healthy(successPolicy="AllWorkers").spec(replicas={"Worker": 2}).phase("worker-0", "Succeeded", 0)
    story.status("-Running", Worker=DONE).status("-Running", Worker={})
    assert story.never() == ["lost: job: Worker-0 is not completed any more"]


def test_a_job_that_goes_unasked_is_lost_and_one_that_was_discarded_is_not() -> None:
    assert healthy().remove("j").never() == ["lost: job: the job was deleted, and nobody asked for it"]
    story = healthy()
    story.journal.jobs_deleted_by_plan.add("j")
    assert story.remove("j").remove("worker-0").remove("service-worker-0").end() == []


@pytest.mark.parametrize("suspended", [False, True])
def test_a_loss_of_which_only_a_lost_pod_told_may_coincide_with_a_suspension(suspended: bool) -> None:
    story = healthy().take("worker-0").pod("worker-0", "second", 1).take("second")
    if suspended:
        story.spec(runPolicy={"suspend": True}).spec(runPolicy={"suspend": False})
    story.pod("worker-0", "third", phase="Running").status("Running", "Ready", Worker=ACTIVE)
    lost = "lost: job: Worker-0 counts 0 restarts, there were at least 1"
    assert [str(violation) for violation in story.end()] == ([] if suspended else [lost])


# Disruptions, apart from failures.


def taken(**counts: object) -> Story:
    """Return a job whose worker was taken from it and runs again; `counts` are members of its status about that."""
    story = healthy().take("worker-0").pod("worker-0", "second", 1, phase="Running")
    return story.status("Running", "Ready", Worker={**ACTIVE, "restartCounts": {"0": 1}, **counts})


def test_what_was_taken_has_to_count_as_that_and_a_failure_must_not() -> None:
    assert taken(disruptionCounts={"0": 1}).end() == []
    assert [str(violation) for violation in taken().end()] == ["wrong: job: it counts 1 failures, there were at most 0"]
    failed = restarted().status(
        "Running", "Ready", Worker={**ACTIVE, "restartCounts": {"0": 1}, "disruptionCounts": {"0": 1}}
    )
    assert failed.never() == ["wrong: job: Worker-0 counts 1 disruptions, there were at most 0"]
    forgotten = taken(disruptionCounts={"0": 1}).status("Running", Worker={**ACTIVE, "restartCounts": {"0": 1}})
    assert forgotten.never() == ["lost: job: Worker-0 had 1 disruptions, now 0"]
    odd = (
        taken(disruptionCounts={"0": 1})
        .take("second")
        .status("Running", Worker={"restartCounts": {"0": 1}, "disruptionCounts": {"0": 2}})
    )
    assert odd.never() == ["wrong: job: Worker-0 counts 2 disruptions of 1 restarts"]


def test_a_limit_on_failures_does_not_see_what_was_taken() -> None:
    for story in (healthy(), healthy().phase("worker-0", "Running")):
        story.spec(runPolicy={"backoffLimit": 0}).take("worker-0").status("-Running", "Failed", Worker={})
        assert "wrong: job: it has Failed without a reason: " in story.never()
    evicted = healthy().spec(runPolicy={"backoffLimit": 0}).phase("worker-0", "Failed", reason="Evicted")
    assert "wrong: job: it has Failed without a reason: " in evicted.status("-Running", "Failed", Worker={}).never()
    failed = healthy().spec(runPolicy={"backoffLimit": 0}).phase("worker-0", "Failed", 1)
    assert failed.status("-Running", "Failed", Worker={"failed": 1}).never() == []


# Doubled.


def test_a_pod_that_claims_too_many_restarts_and_two_of_one_replica_are_doubled() -> None:
    story = healthy().take("worker-0").pod("worker-0", "second", 2)
    assert story.never() == ["doubled: job: pod job-worker-0 is restart 2, there were at most 1 losses"]
    story = healthy().pod("worker-0", "other")
    story.journal.entries[-1].obj["metadata"]["name"] = "job-worker-0-x"
    assert story.never() == ["doubled: job: Worker-0 has two pods: job-worker-0 and job-worker-0-x"]


def test_a_completed_replica_that_runs_again_and_a_pod_for_a_finished_job_are_doubled() -> None:
    story = two_workers("OnFailure", successPolicy="AllWorkers").phase("worker-0", "Succeeded", 0)
    story.status("Running", Worker={**DONE, "active": 1}).take("worker-0").pod("worker-0", "again")
    assert story.never() == ["doubled: job: Worker-0 had completed, and runs again"]
    late = "doubled: job: pod job-worker-1 was made although the job has Succeeded"
    assert succeeded().pod("worker-1", "late").never() == [late]


def two_workers(policy: str = "Never", **spec: object) -> Story:
    return Story(policy, spec, Worker=2).running("worker-0", "worker-1")


def succeeded(**run_policy: object) -> Story:
    story = healthy().spec(runPolicy=run_policy).phase("worker-0", "Succeeded", 0)
    return story.status("-Running", "Succeeded", Worker=DONE)


# Stuck.


def test_what_does_not_go_is_stuck_and_so_are_objects_of_a_job_that_is_gone() -> None:
    terminating = healthy().terminate("worker-0")
    terminating.journal.deleted_by_plan.add("worker-0")
    for story in (terminating, healthy().spec(replicas={"Worker": 0}), healthy().spec(runPolicy={"suspend": True})):
        assert "stuck" in {violation.kind for violation in story.end()}
    story = healthy()
    story.journal.jobs_deleted_by_plan.add("j")
    assert "stuck: -: pod job-worker-0 belongs to no job" in map(str, story.remove("j").end())


def test_a_job_that_should_have_ended_is_stuck() -> None:
    done = healthy().phase("worker-0", "Succeeded", 0).status("-Running", Worker={"completedIndexes": "0"})
    assert "stuck: job: it should have Succeeded" in map(str, done.end())
    failed = healthy("ExitCode").phase("worker-0", "Failed", 1)
    exhausted = restarted().spec(runPolicy={"backoffLimit": 0})
    leaderless = two_workers(maxFailedWorkers=1).phase("worker-0", "Failed", 1)
    leaderless.status("Running", Worker={**ACTIVE, "failed": 1, "failedIndexes": "0"})
    for story in (failed, exhausted, leaderless):
        assert "stuck: job: it should have Failed" in map(str, story.end())
    assert [violation.kind for violation in healthy().end(finished=True)] == ["stuck"], "everything has succeeded"


def test_a_job_past_its_time_to_live_is_stuck_also_if_a_wrong_clock_has_ended_it() -> None:
    story = succeeded(ttlSecondsAfterFinished=0)
    assert [str(violation) for violation in story.end()] == [
        "stuck: job: its time to live is over, and it is still there"
    ]
    story = succeeded(ttlSecondsAfterFinished=10)
    ended = datetime.fromisoformat(story.journal.entries[-1].obj["status"]["completionTime"])
    story.journal.clock_stepped, story.journal.now = True, ended + timedelta(seconds=9)
    assert story.end() == []
    story.journal.now = ended + timedelta(seconds=10)
    assert [violation.kind for violation in story.end()] == ["stuck"]


def test_pods_that_a_finished_job_should_have_cleaned_up_are_stuck() -> None:
    story = Story("OnFailure", {"runPolicy": {"cleanPodPolicy": "Running"}}, Worker=1, PS=1)
    story.running("worker-0", "ps-0").phase("worker-0", "Succeeded", 0)
    story.status("-Running", "Succeeded", Worker={"succeeded": 1, "completedIndexes": "0"})
    assert [violation.kind for violation in story.end()] == ["stuck"]
    assert story.remove("ps-0").remove("service-ps-0").end() == []


def ended(verdict: str, policy: str = "") -> Story:
    """A job that has ended while others of it ran."""
    story = Story("Never", {"runPolicy": {"cleanPodPolicy": policy}}, Worker=3, PS=1)
    story.running("worker-0", "worker-1", "ps-0").service("worker-2").pod("worker-2", "worker-2")
    failed = verdict == "Failed"
    story.phase("worker-0", verdict, int(failed))
    done = {"failed": 1, "failedIndexes": "0"} if failed else {"succeeded": 1, "completedIndexes": "0"}
    return story.status("-Running", verdict, Worker=done, PS={})


def test_a_failed_job_without_a_policy_stops_what_runs() -> None:
    story = ended("Failed")
    assert [violation.kind for violation in story.end()] == ["stuck", "stuck", "stuck"]
    story.stop("worker-1").stop("ps-0").remove("worker-2")
    assert [violation.kind for violation in story.end()] == ["stuck", "stuck"], "their kubelet has not ended them"
    story.phase("worker-1", "Failed", 143).phase("ps-0", "Unknown")
    assert story.end() == [], "nobody can end what a lost node has"


def test_the_parameter_servers_of_a_succeeded_job_are_stopped_when_nobody_else_runs() -> None:
    story = ended("Succeeded").remove("worker-2")
    assert story.end() == []
    story.phase("worker-1", "Succeeded", 0)
    assert [violation.kind for violation in story.end()] == ["stuck"]
    assert story.stop("ps-0").phase("ps-0", "Failed", 143).end() == []


def test_under_an_explicit_none_a_limit_stops_what_runs() -> None:
    story = ended("Failed", "None")
    story.journal.entries[-1].obj["status"]["conditions"][-1]["message"] = "it has reached the specified backoff limit"
    assert [violation.kind for violation in story.end()] == ["stuck", "stuck", "stuck"]
    story.stop("worker-1").phase("worker-1", "Failed", 143).stop("ps-0").phase("ps-0", "Failed", 143)
    assert story.remove("worker-2").end() == []


@pytest.mark.parametrize(("policy", "most"), [("", 0), ("None", 3), ("Running", 3)])
def test_what_ran_at_a_failure_may_be_active_where_a_policy_is_set(policy: str, most: int) -> None:
    def complaints(active: int) -> list[str]:
        story = ended("Failed", policy)
        story.journal.entries[-1].obj["status"]["replicaStatuses"]["Worker"]["active"] = active
        return [violation.text for violation in story.end() if violation.kind == "wrong"]

    assert complaints(most) == []
    assert complaints(most + 1) == [f"it has Failed, and {most + 1} Worker are active"]


# Wrong.


def test_nobody_may_be_stopped_but_by_the_end_of_a_job_without_a_policy() -> None:
    text = "wrong: job: pod job-worker-1 (Running) was stopped without a reason"
    assert ended("Failed", "None").stop("worker-1").never() == [text]
    assert ended("Failed", "Running").stop("worker-1").never() == [text]
    assert len(healthy().stop("worker-0").never()) == 1
    assert len(ended("Succeeded").stop("worker-1").never()) == 1
    assert ended("Succeeded").stop("worker-2").never() == []


@pytest.mark.parametrize("verdict", ["Succeeded", "Failed"])
def test_a_verdict_without_a_reason_is_wrong(verdict: str) -> None:
    [violation] = healthy().status("-Running", verdict, Worker={}).never()
    assert violation.startswith(f"wrong: job: it has {verdict} without a reason")


def test_a_verdict_that_changes_is_wrong_and_so_are_both() -> None:
    story = healthy("ExitCode").phase("worker-0", "Failed", 1).status("-Running", "Failed", Worker={"failed": 1})
    assert "wrong: job: it had Failed, and now has not" in story.status("Running", Worker=ACTIVE).never()
    story = healthy("Never").phase("worker-0", "Failed", 1).status("Succeeded", "Failed", Worker={})
    assert "wrong: job: it has both succeeded and failed" in story.never()


def test_a_completion_or_a_failure_that_never_was_is_wrong() -> None:
    story = healthy(successPolicy="AllWorkers").status("Running", Worker={**ACTIVE, "completedIndexes": "0"})
    assert story.never() == ["wrong: job: Worker-0 counts as completed, but never was"]
    story = two_workers(enableDynamicWorker=True).status("Running", Worker={**ACTIVE, "failedIndexes": "1"})
    assert story.never() == ["wrong: job: Worker-1 counts as failed for good, but never was"]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({"phase": "Pending"}, "phase"),
        ({"ready": "0/1"}, "ready"),
        ({"restarts": 3}, "restarts"),
        ({"observedGeneration": 7}, "observedGeneration"),
        ({"completionTime": "2026-01-01T00:00:00Z"}, "completionTime"),
        ({"startTime": None}, "startTime"),
        ({"conditions": [{"type": "Created", "status": "True"}]}, "Running"),
        ({"replicaStatuses": {"Worker": {"active": 2, "ready": 1}}}, "active Worker"),
    ],
)
def test_a_status_that_says_something_else_is_wrong(status: dict[str, object], text: str) -> None:
    story = healthy()
    story.journal.entries[-1].obj["status"].update(status)
    violations = story.end()
    assert [violation.kind for violation in violations if text in violation.text] == ["wrong"]


def test_a_job_that_somebody_else_manages_must_stay_untouched() -> None:
    other = {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}
    assert Story("OnFailure", other).end() == []
    assert "pod job-worker-0 was made although somebody else manages the job" in "".join(
        Story("OnFailure", other).pod("worker-0", "p").never()
    )


def test_what_happens_in_a_gap_of_the_journal_is_not_judged() -> None:
    story = healthy().remove("worker-0")
    version = story.journal.entries[-1].version
    story.journal.gaps.append((version - 1, version))
    assert story.never() == []
    story.journal.gaps[:] = [(version, version + 1)]
    assert story.never() != []


def test_objects_that_the_journal_shows_before_their_job_are_the_jobs() -> None:
    story = healthy()
    entries = story.journal.entries
    late = entries.pop(0)
    entries.insert(3, msgspec.structs.replace(late, version=entries[2].version))
    story.journal.gaps.append((late.version - 1, entries[2].version))
    assert story.end() == []


# Rare cases.


def test_a_dynamic_worker_may_stay_failed() -> None:
    story = two_workers(enableDynamicWorker=True).phase("worker-1", "Failed", 1)
    story.status("Running", Worker={**ACTIVE, "failed": 1, "failedIndexes": "1"})
    assert story.end() == []
    assert story.take("worker-1").end() == []
    assert story.pod("worker-1", "again").never() == ["doubled: job: Worker-1 had failed for good, and runs again"]


def three_workers(**spec: object) -> Story:
    """Three workers under Never, of which the last has failed."""
    names = ("worker-0", "worker-1", "worker-2")
    story = Story("Never", spec, Worker=3).running(*names).phase("worker-2", "Failed", 1)
    counts = {"active": 2, "failed": 1, "failedIndexes": "2", "startedIndexes": "0-2"}
    return story.status("Running", Worker=counts)


@pytest.mark.parametrize(
    ("spec", "due"),
    [
        ({"maxFailedWorkers": 1}, False),
        ({"maxFailedWorkers": "34%"}, False),
        ({"maxFailedWorkers": "33%"}, True),  # of three, rounded down
        ({"maxFailedWorkers": 0}, True),
        ({"maxFailedWorkers": 0, "enableDynamicWorker": True}, True),
        ({"maxFailedWorkers": 2, "minSucceededWorkers": "100%"}, True),
        ({"maxFailedWorkers": 2, "minSucceededWorkers": "50%"}, False),
    ],
)
def test_a_job_fails_for_as_many_workers_as_it_says_and_not_for_fewer(spec: dict[str, object], due: bool) -> None:
    violations = list(map(str, three_workers(**spec).end()))
    assert violations == (["stuck: job: it should have Failed"] if due else [])
    failed = three_workers(**spec).status("-Running", "Failed", Worker={"failed": 1, "failedIndexes": "2"})
    unasked = [] if due else [" job: it has Failed without a reason: "]
    assert [violation.partition(":")[2] for violation in failed.never()] == unasked


def test_enough_workers_are_a_success_whatever_the_chief_does() -> None:
    story = Story("OnFailure", {"minSucceededWorkers": "50%"}, Chief=1, Worker=3)
    story.running("chief-0", "worker-0", "worker-1", "worker-2").phase("worker-1", "Succeeded", 0)
    counts = {"active": 2, "succeeded": 1, "completedIndexes": "1"}
    story.status("Running", "Ready", Chief=ACTIVE, Worker=counts)
    assert story.end() == []
    story.phase("worker-2", "Succeeded", 0)
    story.status("Running", "Ready", Chief=ACTIVE, Worker={"active": 1, "succeeded": 2, "completedIndexes": "1-2"})
    assert list(map(str, story.end())) == ["stuck: job: it should have Succeeded"]


def test_under_all_workers_those_that_may_fail_are_not_waited_for() -> None:
    story = three_workers(maxFailedWorkers=1, successPolicy="AllWorkers")
    story.phase("worker-0", "Succeeded", 0).phase("worker-1", "Succeeded", 0)
    counts = {"succeeded": 2, "failed": 1, "completedIndexes": "0-1", "failedIndexes": "2"}
    assert "stuck: job: it should have Succeeded" in map(str, story.status("-Running", Worker=counts).end())
    assert story.status("-Running", "Succeeded", Worker=counts).end() == []


def test_restarts_in_place_count() -> None:
    story = healthy().phase("worker-0", "Running", restarts=2)
    assert "wrong" in story.kinds()
    assert story.status("Running", "Ready", Worker={**ACTIVE, "restartCounts": {"0": 2}}).end() == []


def test_a_resumed_job_gets_pods_when_its_status_says_so_and_not_before() -> None:
    asleep = healthy().spec(runPolicy={"suspend": True}).status("-Running", "-Ready", "Suspended", Worker={})
    resumed = asleep.remove("worker-0").spec(runPolicy={"suspend": False})
    early = copy.deepcopy(resumed).pod("worker-0", "again")
    text = "pod job-worker-0 was made before the status said that the job is resumed"
    assert early.never() == [f"wrong: job: {text}"]
    assert resumed.status("-Suspended", Worker={}).pod("worker-0", "again").never() == []
