from __future__ import annotations

from tests.support.controller_harness import Harness
from tfoperator.kube.errors import ConfigError
from tfoperator.kube.resources import PODS


def test_what_went_wrong_on_our_side_is_not_told_to_the_jobs_owner(harness: Harness) -> None:
    # A credential plugin's complaint may hold anything.
    harness.api.fail("create", "services", ConfigError("exec plugin failed: token hunter2 has expired"))
    harness.submit_and_sync(Worker=1)
    assert harness.api.names(PODS) == []
    assert harness.queue.num_requeues("ns/job") == 1
    assert not any("hunter2" in message for _, _, message in harness.recorder.events)
