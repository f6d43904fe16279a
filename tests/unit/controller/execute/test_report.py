from __future__ import annotations

import pytest

from tests.support.clock import FakeClock
from tests.support.controller_harness import Harness
from tests.support.fake_api import api_error
from tfoperator.api.v1.types import TFJOBS
from tfoperator.controller.execute.report import completion_events
from tfoperator.controller.plan.invalid import problems_text
from tfoperator.kube.errors import ConfigError
from tfoperator.kube.resources import PODS


@pytest.mark.parametrize(
    ("pods", "services", "reason", "message"),
    [
        (["a"], [], "SuccessfulCreatePod", "Created pod: a"),
        (["a"], ["a"], "SuccessfulCreatePod", "Created pod: a and 1 service"),
        (["a", "b"], ["a", "b"], "SuccessfulCreatePod", "Created 2 pods: a, b and 2 services"),
        ([], ["a", "b"], "SuccessfulCreateService", "Created 2 services: a, b"),
        (list("abcdefg"), [], "SuccessfulCreatePod", "Created 7 pods: a, b, c, d, e and 2 more"),
    ],
)
def test_one_event_tells_all_that_was_created(pods: list[str], services: list[str], reason: str, message: str) -> None:
    (event,) = completion_events("Create", {"pods": pods, "services": services})
    assert (event.type, event.reason, event.message) == ("Normal", reason, message)


def test_nothing_done_is_no_event() -> None:
    assert completion_events("Create", {}) == completion_events("Delete", {}) == ()


def test_problems_fit_on_one_line_of_a_condition() -> None:
    assert problems_text(["a: b\n  c", "d: e"]) == "a: b c; d: e"
    assert len(problems_text(["x" * 700, "y" * 700])) == 1000


def test_the_end_of_a_time_to_live_is_told_and_so_is_a_deletion_that_fails(clocked: Harness, clock: FakeClock) -> None:
    clocked.submit_and_sync(Worker=1, run_policy={"ttlSecondsAfterFinished": 60})
    clocked.play_kubelet("job-worker-0", "Succeeded", exit_code=0)
    clocked.sync()
    clock.advance(61)
    clocked.api.fail("delete", "tfjobs", api_error(403, "Forbidden", "not yours"))
    clocked.controller.sync_tfjob("ns/job")
    assert ("Warning", "FailedDeleteJob") in [(kind, reason) for kind, reason, _ in clocked.recorder.events]
    clocked.sync()
    assert ("Normal", "SuccessfulDeleteJob", "Deleted job: job") in clocked.recorder.events
    assert clocked.api.names(TFJOBS) == []
    *_, delete = [call for call in clocked.api.calls if (call.verb, call.resource) == ("delete", "tfjobs")]
    assert delete.body["uid"]
    assert delete.body["propagation"] == "Background"


def test_what_went_wrong_on_our_side_is_not_told_to_the_jobs_owner(harness: Harness) -> None:
    # A credential plugin's complaint may hold anything.
    harness.api.fail("create", "services", ConfigError("exec plugin failed: token hunter2 has expired"))
    harness.submit_and_sync(Worker=1)
    assert harness.api.names(PODS) == []
    assert harness.queue.num_requeues("ns/job") == 1
    assert not any("hunter2" in message for _, _, message in harness.recorder.events)
