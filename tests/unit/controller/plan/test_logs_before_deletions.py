"""Logs are kept before pods are deleted, and worker threads do not wait for that."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.support.clock import FakeClock
from tests.support.controller_harness import Harness
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.kube.views.objects import Pod


class Archive:
    """A `LogArchive` that holds up the logs that the test names."""

    timeout = 30.0

    def __init__(self) -> None:
        self.held: set[str] = set()  # pod names
        self.asked: list[list[str]] = []
        self.done: list[Callable[[], object]] = []

    def unkept(self, pods: Sequence[Pod]) -> frozenset[str]:
        return frozenset(pod.metadata.uid for pod in pods if pod.metadata.name in self.held)

    def keep(self, job: TFJob, pods: Sequence[Pod], done: Callable[[], object]) -> None:
        del job
        self.asked.append(sorted(pod.metadata.name for pod in pods))
        self.done.append(done)


@pytest.fixture
def archive() -> Archive:
    return Archive()


@pytest.fixture
def harness(archive: Archive, clock: FakeClock) -> Iterator[Harness]:
    with Harness(archive=archive, clock=clock) as made:
        yield made


def deleted(harness: Harness) -> list[str]:
    return [call.name for call in harness.api.calls if (call.verb, call.resource) == ("delete", "pods")]


def test_a_pod_stays_until_its_logs_are_kept_and_the_restart_is_counted_once(
    harness: Harness, archive: Archive, clock: FakeClock
) -> None:
    archive.held = {"job-worker-0"}
    harness.submit_and_sync(restart_policy="ExitCode", Worker=1)
    harness.play_kubelet("job-worker-0", "Failed", exit_code=137)
    harness.sync()
    clock.advance(2)  # the delay of the restart
    harness.sync(times=3)
    assert deleted(harness) == []
    assert harness.status()["restarts"] == 1
    assert archive.asked == [["job-worker-0"]] * 3
    harness.queue.forget("ns/job")
    while len(harness.queue):
        harness.queue.done(harness.queue.get())
    archive.done[-1]()
    assert harness.queue.get() == "ns/job", "it is looked at again when the archive calls"
    harness.queue.done("ns/job")
    archive.held = set()
    harness.sync()
    assert deleted(harness) == ["job-worker-0"]
    assert harness.status()["restarts"] == 1


def test_pods_whose_logs_are_kept_do_not_wait_for_others(harness: Harness, archive: Archive) -> None:
    archive.held = {"job-worker-1"}
    harness.submit_and_sync(run_policy={"cleanPodPolicy": "All"}, Worker=3)
    for index in (1, 2):
        harness.play_kubelet(f"job-worker-{index}", "Running")
    harness.play_kubelet("job-worker-0", "Succeeded", exit_code=0)
    harness.sync(times=2)
    assert sorted(deleted(harness)) == ["job-worker-0", "job-worker-2"]
    archive.held = set()
    harness.sync()
    assert sorted(deleted(harness)) == ["job-worker-0", "job-worker-1", "job-worker-2"]


def test_a_job_stays_until_the_logs_of_its_pods_are_kept(harness: Harness, archive: Archive, clock: FakeClock) -> None:
    harness.submit_and_sync(run_policy={"cleanPodPolicy": "None", "ttlSecondsAfterFinished": 5}, Worker=1)
    harness.play_kubelet("job-worker-0", "Succeeded", exit_code=0)
    harness.sync()
    assert archive.asked == []
    archive.held = {"job-worker-0"}
    clock.advance(6)
    harness.sync()
    assert archive.asked == [["job-worker-0"]]
    assert harness.api.objects(TFJOBS)
    archive.held = set()
    harness.controller.sync_tfjob("ns/job")
    assert not harness.api.objects(TFJOBS)
