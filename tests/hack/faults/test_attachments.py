"""The oracle's judgement of TensorBoards, PodGroups and foreign objects."""

import copy
from typing import Any

import pytest

from tests.hack.faults.story import Story

ACTIVE = {"active": 1, "startedIndexes": "0"}
TENSORBOARD = {"logDir": "/logs", "image": "board:1"}
URL = {"url": "http://job-tensorboard.ns.svc"}


def deployment(image: str = "board:1", log_dir: str = "/logs") -> dict[str, Any]:
    container = {"name": "tensorboard", "image": image, "command": ["tensorboard", f"--logdir={log_dir}"]}
    return {"template": {"spec": {"containers": [container]}}}


def with_tensorboard() -> Story:
    """A running job whose TensorBoard runs, too."""
    story = Story("OnFailure", {"tensorBoard": TENSORBOARD}, Worker=1).running("worker-0")
    story.attach("Service", "s", type="ClusterIP").attach("Deployment", "d", **deployment())
    return with_status(story.report("d", availableReplicas=1), {**URL, "ready": True})


def with_status(story: Story, tensorboard: dict[str, Any] | None) -> Story:
    story.status("Running", "Ready", Worker=ACTIVE)
    return story if tensorboard is None else story.report("j", tensorBoard=tensorboard)


def ended(story: Story) -> list[str]:
    return [str(violation) for violation in story.end()]


def enrolled(story: Story, gang: str) -> Story:
    """The last pod was made as a member of the job's gang."""
    metadata = story.journal.entries[-1].obj["metadata"]
    if gang == "volcano":
        metadata["annotations"]["scheduling.k8s.io/group-name"] = "job"
    else:
        metadata["labels"]["scheduling.x-k8s.io/pod-group"] = "job"
    story.journal.entries[-1].obj["spec"] = {"schedulerName": gang}
    return story


def in_gang(gang: str = "coscheduler", policy: dict[str, Any] | None = None, *, members: int = 1) -> Story:
    """A running job with its PodGroup, which asks for so many pods."""
    story = Story("OnFailure", {"runPolicy": {"schedulingPolicy": policy or {}}}, Worker=1)
    story.journal.gang = gang
    story.attach("PodGroup", "g", **size(members))
    enrolled(story.report("g", phase="Inqueue").service("worker-0").pod("worker-0", "worker-0"), gang)
    return with_status(story.phase("worker-0", "Running"), None)


def size(members: int) -> dict[str, Any]:
    """Return the size in the spec of a PodGroup of so many of our pods."""
    return {"minMember": members, "minResources": {"cpu": f"{250 * members}m"}}


# TensorBoards.


@pytest.mark.parametrize(("uid", "what"), [("d", "deployment"), ("s", "service")])
def test_a_part_of_a_tensorboard_that_is_not_made_again_is_lost(uid: str, what: str) -> None:
    assert f"lost: job: its TensorBoard has no {what}" in ended(with_tensorboard().take(uid))


def test_a_suspended_job_gets_no_tensorboard_and_keeps_what_it_has() -> None:
    story = Story("OnFailure", {"tensorBoard": TENSORBOARD, "runPolicy": {"suspend": True}}, Worker=1)
    assert story.status("Suspended").end() == []
    assert "doubled" not in {violation.kind for violation in with_tensorboard().spec(runPolicy={"suspend": True}).end()}
    made = "wrong: job: service job-tensorboard was made for a job that was never to run"
    assert story.attach("Service", "s", type="ClusterIP").never() == [made]


def test_a_tensorboard_goes_only_when_nobody_asks_for_it_any_more_and_then_it_does() -> None:
    assert with_tensorboard().remove("d").never() == [
        "wrong: job: deployment job-tensorboard was deleted without a reason"
    ]
    left = with_status(with_tensorboard().spec(tensorBoard=None), None)
    assert ended(left) == [
        "stuck: job: service job-tensorboard is left, and the job has no TensorBoard",
        "stuck: job: deployment job-tensorboard is left, and the job has no TensorBoard",
    ]
    assert left.remove("d").remove("s").end() == []


def test_a_tensorboard_that_nobody_asked_for_or_under_a_second_name_is_told() -> None:
    story = Story().attach("Deployment", "d", **deployment())
    assert story.never() == ["wrong: job: deployment job-tensorboard was made, and nobody asked for it"]
    story = with_tensorboard().attach("Service", "t", "job-tensorboard-2")
    assert story.never() == [
        "wrong: job: service job-tensorboard-2 has nothing to do with the job",
        "doubled: job: it has both service job-tensorboard and service job-tensorboard-2",
    ]


@pytest.mark.parametrize("change", [{"image": "board:2"}, {"logDir": "/other"}, {"serviceType": "NodePort"}])
def test_a_change_that_does_not_arrive_is_wrong_nor_an_image_that_is_no_more_named(change: dict[str, str]) -> None:
    story = with_status(with_tensorboard().spec(tensorBoard=TENSORBOARD | change), {**URL, "ready": True})
    assert {violation.kind for violation in story.end()} == {"wrong"}
    unnamed = with_status(with_tensorboard().spec(tensorBoard={"logDir": "/logs"}), {**URL, "ready": True})
    assert ended(unnamed) == ["wrong: job: its TensorBoard runs board:1 and should run None"]


@pytest.mark.parametrize("status", [None, URL, {"url": "http://elsewhere", "ready": True}])
def test_a_status_that_tells_of_another_tensorboard_is_wrong(status: dict[str, Any] | None) -> None:
    wrong = f"wrong: job: its status shows {status!r} as its TensorBoard, and {URL | {'ready': True}!r} is right"
    assert ended(with_status(with_tensorboard(), status)) == [wrong]


def test_the_pod_of_a_tensorboard_is_none_of_the_operators_business() -> None:
    def board_pod(story: Story) -> Story:
        story.attach("Pod", "p", "job-tensorboard-0", owner="d")
        return with_status(story, {**URL, "ready": True})

    assert board_pod(with_tensorboard()).end() == []
    assert board_pod(with_tensorboard()).take("p").end() == []
    gone = "wrong: job: pod job-tensorboard-0 of its TensorBoard was deleted"
    assert board_pod(with_tensorboard()).remove("p").never() == [gone]
    assert board_pod(with_tensorboard()).spec(tensorBoard=None).remove("d").remove("p").never() == []


# Gangs.


def test_a_pod_group_that_is_not_made_again_is_lost_and_goes_for_a_reason_alone() -> None:
    assert ended(in_gang().take("g")) == ["lost: job: it has no PodGroup"]
    assert in_gang().remove("g").never() == ["wrong: job: podgroup job was deleted without a reason"]
    assert in_gang().spec(runPolicy={"suspend": True}).remove("g").never() == []


def test_a_pod_group_of_a_job_that_is_over_or_suspended_is_stuck() -> None:
    story = in_gang().phase("worker-0", "Succeeded", 0)
    story.status("-Running", "Succeeded", Worker={"succeeded": 1, "completedIndexes": "0"})
    assert "stuck: job: podgroup job is left of a job that has Succeeded" in ended(story)
    suspended = "stuck: job: podgroup job is left of a job that is suspended"
    assert suspended in ended(in_gang().spec(runPolicy={"suspend": True}))


@pytest.mark.parametrize(("workers", "policy", "members"), [(2, {}, 1), (1, {}, 0), (3, {"minAvailable": 2}, 3)])
def test_a_gang_of_another_size_than_asked_for_is_wrong(workers: int, policy: dict[str, Any], members: int) -> None:
    story = in_gang().spec(replicas={"Worker": 3}).respec("g", minMember=3)
    story.spec(replicas={"Worker": workers}, runPolicy={"schedulingPolicy": policy}).respec("g", minMember=members)
    assert any("wrong: job: podgroup job asks for" in violation for violation in ended(story))


def test_a_gang_may_be_smaller_by_the_replicas_that_have_completed() -> None:
    story = in_gang().spec(replicas={"Worker": 2}, successPolicy="AllWorkers").service("worker-1")
    enrolled(story.pod("worker-1", "worker-1"), "coscheduler").phase("worker-1", "Running")
    story.phase("worker-1", "Succeeded", 0)
    story.status(
        "Running", "Ready", Worker={**ACTIVE, "startedIndexes": "0-1", "succeeded": 1, "completedIndexes": "1"}
    )
    assert story.end() == []
    assert story.respec("g", **size(2)).end() == []


def test_a_gang_that_asks_for_more_than_the_job_ever_did_or_for_other_resources_is_told() -> None:
    wrong = "wrong: job: podgroup job asks for 2 pods, the job for 1 at most"
    assert in_gang(members=2).never() == [wrong] * 2
    story = in_gang().respec("g", minResources={"cpu": "1"})
    assert ended(story) == ["wrong: job: podgroup job asks for 1 pods with cpu 1, and each asks for 250m"]
    wrong = "wrong: job: podgroup job has minResources {'cpu': '250m'} and should have {'cpu': '2'}"
    assert ended(in_gang("coscheduler", {"minResources": {"cpu": "2"}})) == [wrong]


def test_a_pod_before_its_pod_group_or_its_admission_or_outside_of_it_is_told() -> None:
    story = Story()
    story.journal.gang = "coscheduler"
    early = enrolled(copy.deepcopy(story).pod("worker-0", "p"), "coscheduler")
    assert early.never() == ["wrong: job: pod job-worker-0 was made before there was a PodGroup"]
    story.attach("PodGroup", "g", minMember=1).pod("worker-0", "p")
    story.journal.entries[-1].obj["spec"] = {}
    assert story.never() == ["wrong: job: pod job-worker-0 is in the gang None of scheduler None"]
    story = Story()
    story.journal.gang = "volcano"
    story.attach("PodGroup", "g", status={"phase": "Pending"}, minMember=1)
    early = enrolled(story.pod("worker-0", "p"), "volcano")
    assert early.never() == ["wrong: job: pod job-worker-0 was made before Volcano had admitted a PodGroup"]


def test_what_a_job_leaves_behind_belongs_to_nobody_and_what_somebody_else_manages_has_nothing() -> None:
    story = with_tensorboard()
    story.journal.jobs_deleted_by_plan.add("j")
    left = ended(story.remove("j"))
    assert {f"stuck: -: {kind} job-tensorboard belongs to no job" for kind in ("deployment", "service")} <= set(left)
    story = Story("OnFailure", {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}})
    made = "wrong: job: podgroup job was made although somebody else manages the job"
    assert story.attach("PodGroup", "g", minMember=1).never() == [made]


# Foreign objects.


def test_a_foreign_object_that_is_changed_or_deleted_is_wrong() -> None:
    told_of = "wrong: -: deployment job-tensorboard is somebody else's, and was {}"
    changed = in_gang().attach("Deployment", "x", owner="").respec("x", replicas=1)
    assert changed.never() == [told_of.format("modified")]
    assert in_gang().attach("Deployment", "x", owner="").remove("x").never() == [told_of.format("deleted")]


def test_an_orphan_is_adopted_or_waits_for_another_job_of_its_name() -> None:
    def orphaned() -> Story:
        story = in_gang()
        story.journal.orphaned.add("g")
        return story.disown("g")

    assert ended(orphaned()) == ["stuck: -: podgroup job belongs to no job"]
    assert orphaned().disown("g", owner="j").end() == []
    assert orphaned().spec(runPolicy={"suspend": True}).remove("g").never() == []
    gone = orphaned()
    gone.journal.jobs_deleted_by_plan.add("j")
    assert gone.remove("j").remove("worker-0").remove("service-worker-0").end() == []
