"""The event of a restart in place: sent once, with the exit code, and within bounds."""

from datetime import datetime
from typing import Any

import pytest

from tests.unit.controller.builders import NOW, ReadablePlan, after, make_job, make_pod, planned, started, with_status
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.values.actions import PlannedEvent
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
)

WAITS = ContainerState(waiting=ContainerStateWaiting("CrashLoopBackOff"))


def job_of(workers: int, policy: str = "OnFailure", **spec: Any) -> TFJob:
    return started(make_job({"Worker": {"replicas": workers, "restartPolicy": policy}}, **spec))


def ended(code: int, reason: str = "Error", at: datetime = NOW) -> ContainerState:
    return ContainerState(terminated=ContainerStateTerminated(code, reason, "", at))


def container(
    restarts: int, last: ContainerState | None, *, name: str = "tensorflow", state: ContainerState | None = None
) -> ContainerStatus:
    return ContainerStatus(name, state is None, restarts, state or ContainerState(), last)


def pod(index: int, restarts: int, last: ContainerState | None = None, **more: Any) -> Pod:
    """A worker's pod after so many restarts in place, by default with exit code 1."""
    last = last or (ended(1) if restarts else None)
    return make_pod(f"Worker-{index}", containers=(container(restarts, last),), restart_policy="OnFailure", **more)


def in_place_events(plan: ReadablePlan) -> list[PlannedEvent]:
    return [event for event in plan.events if event.reason == "RestartedInPlace"]


def messages(plan: ReadablePlan) -> list[str]:
    return [event.message for event in in_place_events(plan)]


@pytest.mark.parametrize("mode", ["Recreate", "InPlace"])
@pytest.mark.parametrize(
    ("restarts", "last", "text"),
    [
        (1, ended(1), "restart 1 in pod mnist-worker-1, last exit code 1."),
        (3, ended(3), "restarts 1 to 3 in pod mnist-worker-1, last exit code 3."),
        (1, ended(137), "restart 1 in pod mnist-worker-1, last exit code 137 (SIGKILL)."),
        (1, ended(137, "OOMKilled"), "restart 1 in pod mnist-worker-1, last exit code 137 (SIGKILL, OOMKilled)."),
        (1, ended(128 + 40), "restart 1 in pod mnist-worker-1, last exit code 168."),
        (1, ContainerState(), "restart 1 in pod mnist-worker-1."),
    ],
)
def test_a_restart_in_place_is_one_event_of_the_job(mode: str, restarts: int, last: ContainerState, text: str) -> None:
    job = job_of(2, runPolicy={"restartMode": mode})
    pods = (make_pod("Worker-0"), pod(1, restarts, last))
    first = planned(job, *pods)
    assert in_place_events(first) == [
        PlannedEvent("Warning", "RestartedInPlace", f"worker-1 is restarted in place: {text}"),
    ]
    assert "ExitedWithCode" not in first.reasons
    assert first.write_status, "the count is written, and the event goes with it"
    assert not first.changes_objects
    again = planned(with_status(job, first.status), *pods)
    assert not again.acts, "neither another look nor another process sends it again"
    more = planned(with_status(job, first.status), pods[0], pod(1, restarts + 1, last))
    assert messages(more) == [
        f"worker-1 is restarted in place: restart {restarts + 1} in pod mnist-worker-1" + end(text)
    ]


def end(text: str) -> str:
    """The rest of a message after the pod's name."""
    return text.partition("mnist-worker-1")[2]


def test_without_such_restarts_there_is_no_event() -> None:
    job = job_of(2)
    assert not in_place_events(planned(job, make_pod("Worker-0"), make_pod("Worker-1")))
    assert not in_place_events(planned(job, make_pod("Worker-0"), make_pod("Worker-1", "Failed", exit_code=1)))
    assert not in_place_events(planned(job, make_pod("Worker-0"))), "a pod that is gone is made again"


def test_a_pod_that_is_made_again_begins_anew() -> None:
    """Its earlier restarts are in its annotation, and only those in its own pod are restarts in place."""
    job = job_of(1)
    first = planned(job, pod(0, 2, restarts_before=4))
    assert messages(first) == [
        "worker-0 is restarted in place: restarts 1 to 2 in pod mnist-worker-0, last exit code 1.",
    ]
    assert first.status.restarts == 6
    containers = (container(3, ended(1), state=ended(137)),)
    lost = make_pod("Worker-0", "Failed", restarts_before=4, reason="Evicted", containers=containers)
    after_all = planned(with_status(job, first.status), lost)
    assert messages(after_all) == [
        "worker-0 is restarted in place: restart 3 in pod mnist-worker-0, last exit code 1.",
    ]
    assert after_all.status.restarts == 8, "the restart by recreation is counted, and is none in place"


@pytest.mark.parametrize(
    ("containers", "init_containers", "ending"),
    [
        ((container(0, None),), (container(2, ended(4), name="fetch"),), "last exit code 4 of container fetch."),
        # It has failed at first, and the program later.
        ((container(1, ended(1, at=after(9))),), (container(1, ended(4), name="fetch"),), "last exit code 1."),
        ((container(1, ended(1)),), (container(1, ended(4, at=after(9)), name="proxy"),), "code 4 of container proxy."),
        # The restarts of a plain sidecar are no restarts of the replica.
        ((container(0, None), container(7, ended(4), name="proxy")), (), None),
    ],
)
def test_the_container_that_was_restarted_is_named(
    containers: tuple[ContainerStatus, ...], init_containers: tuple[ContainerStatus, ...], ending: str | None
) -> None:
    worker = make_pod("Worker-0", containers=containers, init_containers=init_containers, restart_policy="OnFailure")
    texts = messages(planned(job_of(1), worker))
    assert (texts == []) if ending is None else texts[0].endswith(ending), texts


def test_a_program_that_ended_well_and_is_started_again_is_no_warning() -> None:
    first = planned(job_of(1, "Always"), pod(0, 1, ended(0, "Completed")))
    assert in_place_events(first) == [
        PlannedEvent(
            "Normal",
            "RestartedInPlace",
            "worker-0 is restarted in place: restart 1 in pod mnist-worker-0, last exit code 0.",
        )
    ]


def test_a_crash_loop_is_reported_at_growing_distances() -> None:
    job, at = job_of(1), []
    for restarts in range(1, 1001):
        plan = planned(job, pod(0, restarts))
        if messages(plan):
            at.append(restarts)
        job = with_status(job, plan.status)
    assert at == [*range(1, 11), 20, 50, 100, 200, 500, 1000]
    last = messages(planned(with_status(job_of(1), planned(job_of(1), pod(0, 999)).status), pod(0, 1000)))
    assert last == [
        "worker-0 is restarted in place: restart 1000 in pod mnist-worker-0, last exit code 1. The job's pods now "
        "have 1000 restarts in place; the operator will send the next event at 2000 restarts."
    ]


def test_restarts_that_were_missed_are_one_event() -> None:
    job = with_status(job_of(1), planned(job_of(1), pod(0, 47)).status)
    assert not in_place_events(planned(job, pod(0, 49)))
    [text] = messages(planned(job, pod(0, 53)))
    assert "restarts 48 to 53 in pod" in text
    assert text.endswith("restarts in place; the operator will send the next event at 100 restarts.")


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_a_thousand_workers_that_restart_are_few_events(at_once: int) -> None:
    """However few of them are seen at a time: each number of restarts so far was seen in some plan."""
    workers = 1000
    job, events = job_of(workers), list[str]()
    pods = [make_pod(f"Worker-{index}") for index in range(workers)]
    # One by one as long as each is reported, and then so many that the test is quick.
    step, done = at_once, 0
    while done < workers:
        for index in range(done, min(done + step, workers)):
            pods[index] = pod(index, 1)
        done, step = done + step, step if done < 30 else 97
        plan = planned(job, *pods)
        events += messages(plan)
        job = with_status(job, plan.status)
    assert job.status.restarts == workers
    assert 1 <= len(events) <= 16
    assert all(message.count("worker-") <= 4 for message in events)
    assert events[-1].endswith("restarts in place; the operator will send the next event at 2000 restarts.")
    if at_once == workers:
        assert events == [
            "1000 replicas are restarted in place: worker-0 (restart 1, last exit code 1), worker-1 (restart 1, last "
            "exit code 1), worker-2 (restart 1, last exit code 1) and 997 more. The job's pods now have 1000 "
            "restarts in place; the operator will send the next event at 2000 restarts."
        ]


def test_the_first_restart_of_a_replica_is_reported_beside_a_crash_loop() -> None:
    before = planned(job_of(2), pod(0, 300), make_pod("Worker-1"))
    job = with_status(job_of(2), before.status)
    first = planned(job, pod(0, 301), pod(1, 1))
    assert messages(first)[0].startswith("2 replicas are restarted in place: worker-1 (restart 1, last exit code 1), ")
    assert not in_place_events(planned(with_status(job, first.status), pod(0, 301), pod(1, 2)))


def test_the_restart_that_ends_a_job_is_none() -> None:
    job = job_of(1, runPolicy={"backoffLimit": 1})
    waits = make_pod("Worker-0", containers=(container(1, ended(1), state=WAITS),), restart_policy="OnFailure")
    plan = planned(job, waits)
    assert plan.reasons == ["RestartedInPlace", "TFJobFailed"], "one restart is counted, and no other one follows"
    assert plan.is_true(ConditionType.FAILED)
    assert "restart 1 in pod" in messages(plan)[0]


def test_a_restart_that_a_suspension_or_a_success_shows_first_is_reported() -> None:
    job = job_of(1)
    held = make_job({"Worker": {"replicas": 1, "restartPolicy": "OnFailure"}}, runPolicy={"suspend": True})
    suspended = planned(with_status(held, job.status), pod(0, 1))
    assert suspended.reasons == ["RestartedInPlace", "TFJobSuspended"]
    assert suspended.status.restarts == 1
    over = make_pod("Worker-0", "Succeeded", containers=(container(2, ended(1), state=ended(0)),))
    assert planned(job, over).reasons == ["RestartedInPlace", "TFJobSucceeded"]
    assert messages(planned(job, over))[0].endswith("restarts 1 to 2 in pod mnist-worker-0, last exit code 1.")
