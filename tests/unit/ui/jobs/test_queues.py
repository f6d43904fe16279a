"""Queues of Kueue on the page."""

import queue as queues_of_threads
from typing import Any

import msgspec

from tests.support.clock import FakeClock
from tests.support.fake_api import FakeApi
from tests.support.kueue_objects import no_quota, workload
from tests.support.stage import Stage, condition
from tests.unit.controller.builders import NOW
from tfoperator.api.fields.limits import MANAGED_BY_MULTIKUEUE
from tfoperator.api.kueue.queues import QUEUE_LABEL
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.api.v1.types import TFJob, decode_tfjob
from tfoperator.sdk import JobQueue, QueueState
from tfoperator.ui.jobs.queues import PERIOD, Queues
from tfoperator.ui.jobs.views import job_detail, job_row, replica_rows

WAITING = JobQueue("research", QueueState.WAITING, "2 more needed")


def raw(name: str = "mnist", queue: str = "research", **parts: Any) -> dict[str, Any]:
    made = Stage().job(name, **parts)
    made["metadata"]["uid"] = f"uid-of-{name}"
    made["metadata"]["labels"] = {QUEUE_LABEL: queue} if queue else {}
    return made


def seen(**parts: Any) -> TFJob:
    return decode_tfjob(msgspec.json.encode(raw(**parts)))


def test_a_job_that_waits_in_a_queue_says_why() -> None:
    suspended = seen(status={"conditions": [condition("Suspended", "it is suspended")]})
    assert job_row(suspended, WAITING)["message"] == "Queue research: Waiting: 2 more needed"
    assert job_row(suspended)["message"] == "it is suspended"
    assert job_detail(suspended, WAITING)["queueState"] == "research: Waiting: 2 more needed"
    running = seen(status={"conditions": [condition("Running", "it runs")]})
    assert job_row(running, JobQueue("research", QueueState.ADMITTED))["message"] == "it runs"


def test_a_job_of_multikueue_does_not_wait_for_an_operator() -> None:
    made = raw(queue="")
    made["spec"]["runPolicy"] = {"managedBy": MANAGED_BY_MULTIKUEUE}
    remote = decode_tfjob(msgspec.json.encode(made))
    assert "on a cluster that MultiKueue selects" in job_row(remote)["message"]
    queue = JobQueue("", QueueState.ADMITTED, multikueue=True, cluster="far")
    assert "on cluster far" in job_row(remote, queue)["message"]
    made["status"] = {"conditions": [condition("Running", "it runs")]}
    runs = decode_tfjob(msgspec.json.encode(made))
    assert job_row(runs, queue)["message"] == "it runs (on cluster far)"
    assert (job_row(runs, queue)["ready"], job_row(runs, queue)["restarts"]) == ("-", None)
    assert {row["state"] for row in replica_rows(runs, [], {}, [], NOW)} == {"Elsewhere"}


def test_pages_hear_of_a_queue_when_it_changes_and_nobody_is_asked_without_one(clock: FakeClock) -> None:
    api, changed = FakeApi(), queues_of_threads.SimpleQueue[str]()
    jobs: list[TFJob] = [seen(queue="")]
    queues = Queues(api, lambda: jobs, changed.put, clock=clock)
    queues.start()
    queues.start()
    try:
        clock.wait_for_waiters(1)
        assert api.calls == []
        made = raw("queued")
        jobs.append(decode_tfjob(msgspec.json.encode(made)))
        body = workload(made, no_quota())
        api.put(WORKLOADS, {**body, "metadata": {**body["metadata"], "namespace": "default"}})
        clock.advance(PERIOD)
        assert changed.get(timeout=10) == "default/queued"
        queue = queues.get(made["metadata"]["uid"])
        assert (queue.state, queue.message) == (QueueState.WAITING, no_quota()["message"])
        assert queues.get(jobs[0].metadata.uid) is None
    finally:
        queues.stop()
    assert changed.empty()
