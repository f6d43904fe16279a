"""PodGroups beyond the bounds of a cache: the operator brings them to what the job wants, or leaves them alone."""

import json
from typing import Any

import msgspec
import pytest

from tests.unit.controller.builders import make_job
from tfoperator.api.replicas.names import job_labels
from tfoperator.api.v1.parts.run_policy import SchedulingPolicy
from tfoperator.controller.pods.bodies import owner_reference
from tfoperator.controller.pods.gang import GangScheduler, gang_scheduler
from tfoperator.controller.pods.pod_groups import MAX_ANNOTATIONS, MAX_RESOURCES, decode_pod_group, is_kept
from tfoperator.kube import apply_merge_patch

VOLCANO, COSCHEDULING = gang_scheduler("volcano"), gang_scheduler("mine")
JOB = make_job({"Worker": 2})
NOTES = {"volcano.sh/preemptable": "true", "example.com/note": "x" * 1024}
SMALL: dict[str, str | int] = {"cpu": "2", "memory": "1Gi"}
MANY: dict[str, str | int] = {f"example.com/r-{number}": 1 for number in range(MAX_RESOURCES + 1)}
LONG_NAME = "q" * 5_000
FLOOD = {f"example.com/{number}": "v" for number in range(5_000)}

Json = dict[str, Any]


class Stored:
    """A PodGroup as the API server has it, and the operator that compares it with what its job wants."""

    def __init__(
        self, gang: GangScheduler, resources: dict[str, str | int], notes: dict[str, str], queue: str = "research"
    ) -> None:
        self.gang = gang
        self.want(resources, notes, queue)
        body = gang.body(JOB, owner_reference(JOB), self.spec, notes)
        self.object: Json = json.loads(msgspec.json.encode(body))

    def want(self, resources: dict[str, str | int] | None, notes: dict[str, str], queue: str = "research") -> None:
        """Let the job want this from now on."""
        self.spec = self.gang.spec(SchedulingPolicy(queue=queue), 2, resources)
        self.notes = notes

    def edit(self, **changes: Json) -> None:
        """Have another client change members of metadata or spec."""
        self.object = apply_merge_patch(self.object, changes)

    def settle(self) -> int:
        """Let the operator write until it rests; return how often. It may never need more than two writes."""
        for writes in range(4):
            cached = decode_pod_group(json.dumps(self.object).encode())
            change = self.gang.change(JOB, cached, self.spec, self.notes)
            if not change:
                return writes
            self.object = apply_merge_patch(self.object, json.loads(msgspec.json.encode(change)))
        raise AssertionError("it writes the PodGroup again and again")


@pytest.mark.parametrize("gang", [VOLCANO, COSCHEDULING])
@pytest.mark.parametrize("resources", [{}, SMALL, MANY])
def test_what_the_operator_has_made_itself_is_never_written_again(gang: GangScheduler, resources: Json) -> None:
    many_notes = {f"example.com/of-the-job-{number}": "x" * 1024 for number in range(64)}
    for notes in ({}, NOTES, many_notes):
        assert Stored(gang, resources, notes).settle() == 0
    assert Stored(VOLCANO, resources, {}, queue=LONG_NAME).settle() == 0


@pytest.mark.parametrize(
    ("annotations", "follows"), [(FLOOD, False), (dict.fromkeys(list(FLOOD)[: MAX_ANNOTATIONS - 8], "v"), True)]
)
def test_annotations_that_a_job_wants_later_are_set_beside_those_of_others_but_not_beside_a_flood(
    annotations: dict[str, str], follows: bool
) -> None:
    stored = Stored(VOLCANO, SMALL, {})
    stored.edit(metadata={"annotations": annotations})
    assert stored.settle() == 0
    stored.want(SMALL, NOTES)
    assert stored.settle() == (1 if follows else 0)
    assert (stored.object["metadata"]["annotations"].items() >= NOTES.items()) is follows
    stored.want(SMALL, NOTES | {"volcano.sh/preemptable": "false"})
    assert stored.settle() == (1 if follows else 0)
    assert stored.object["metadata"]["annotations"].items() >= annotations.items(), "those of others stay"


@pytest.mark.parametrize("changed", [{"example.com/note": "y"}, {"example.com/note": None}])
def test_an_annotation_of_the_job_that_somebody_changes_comes_back(changed: Json) -> None:
    stored = Stored(VOLCANO, SMALL, NOTES)
    stored.edit(metadata={"annotations": changed})
    assert stored.settle() == 1
    assert stored.object["metadata"]["annotations"] == NOTES


@pytest.mark.parametrize("gang", [VOLCANO, COSCHEDULING])
def test_resources_that_are_too_many_are_replaced_by_those_of_the_job(gang: GangScheduler) -> None:
    stored = Stored(gang, SMALL, {})
    stored.edit(spec={"minResources": dict.fromkeys(FLOOD, "1")})
    assert stored.settle() == 2
    assert stored.object["spec"]["minResources"] == SMALL
    stored.edit(spec={"minResources": {"cpu": "7"}})
    assert stored.settle() == 1
    assert stored.object["spec"]["minResources"] == SMALL


def test_a_job_that_wants_too_many_resources_itself_has_them_and_nothing_is_written_again() -> None:
    assert not is_kept(MANY)
    stored = Stored(VOLCANO, MANY, {})
    assert stored.settle() == 0
    assert stored.object["spec"]["minResources"] == MANY
    stored.edit(spec={"minResources": {"example.com/r-0": 9}})
    assert stored.settle() == 0, "the cache has neither the one nor the other"
    stored.want(SMALL, {})
    assert stored.settle() == 2
    assert stored.object["spec"]["minResources"] == SMALL
    stored.want(None, {})
    assert stored.settle() == 0, "at rest a PodGroup keeps what it has"


def test_a_queue_with_a_name_that_no_queue_has_is_replaced() -> None:
    stored = Stored(VOLCANO, SMALL, {})
    stored.edit(spec={"queue": LONG_NAME})
    assert stored.settle() == 1
    assert stored.object["spec"]["queue"] == "research"


def test_labels_of_the_job_come_back_beside_any_number_of_others() -> None:
    stored = Stored(VOLCANO, SMALL, {})
    stored.edit(metadata={"labels": FLOOD | dict.fromkeys(job_labels("mnist"))})
    assert stored.settle() == 1
    assert stored.object["metadata"]["labels"].items() >= job_labels("mnist").items()


def test_of_a_status_the_reason_for_waiting_is_kept() -> None:
    others = [{"type": f"t-{number}", "status": "True", "message": "m" * 100} for number in range(500)]
    reason = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "0/3 nodes"}
    stored = Stored(VOLCANO, SMALL, {})
    stored.object["status"] = {"phase": "Pending", "conditions": [*others, reason]}
    status = decode_pod_group(json.dumps(stored.object).encode()).status
    assert (status.phase, [condition.message for condition in status.conditions]) == ("Pending", ["0/3 nodes"])
