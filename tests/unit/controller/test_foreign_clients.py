"""A running controller, whose jobs foreign clients read."""

from typing import Any

import pytest

from hack.faults.oracle.clients import RULES, by_newest
from tests.support.clock import FakeClock
from tests.support.controller_harness import Harness
from tfoperator.kube.protocol.resources import PODS

INITIALIZES = {"phase": "Pending", "initContainerStatuses": [{"name": "data", "state": {"running": {}}}]}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_a_worker_that_is_late_does_not_end_the_task_of_flyte(clock: FakeClock) -> None:
    """A worker has an init container of 5 s: it is ready, as the last replica, after the job has begun to run."""
    read: list[tuple[str, Any]] = []
    with Harness(clock=clock) as harness:
        harness.submit_and_sync(Chief=1, Worker=1)

        def look() -> None:
            clock.advance(5)
            harness.sync()
            read.append((by_newest(harness.status()), harness.condition("Ready").get("status")))

        look()
        harness.api.edit(PODS, "ns", "job-worker-0", {"status": INITIALIZES})
        harness.play_kubelet("job-chief-0", "Running")
        look()
        harness.play_kubelet("job-worker-0", "Running")
        look()
        harness.play_kubelet("job-chief-0", "Succeeded", exit_code=0)
        look()
        without_ours = {name: value for name, value in harness.status().items() if name != "operatorConditions"}
    assert read == [("Queued", None), ("Running", None), ("Running", "True"), ("Success", "False")]
    assert {rule(without_ours) == rule(harness.status()) for rule in RULES.values()} == {True}
