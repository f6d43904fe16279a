from __future__ import annotations

import threading

import pytest

from tests.support.cluster import tfjob
from tests.support.controller_harness import Harness, namespaced
from tests.support.eventually import eventually
from tests.support.fake_api import Call
from tfoperator.api.v1.types import TFJOBS
from tfoperator.controller import ControllerOptions
from tfoperator.kube.resources import PODS


def test_workers_bring_every_job_to_its_end(harness: Harness) -> None:
    harness.controller.start()
    for number in range(20):
        harness.submit(f"job-{number}", Worker=2)
    eventually(lambda: len(harness.api.names(PODS)) == 40, what="40 pods")
    for pod in sorted(harness.api.names(PODS), reverse=True):  # the end of worker-0 is the job's, and deletes worker-1
        harness.api.edit(PODS, "ns", pod, {"status": {"phase": "Succeeded"}})

    def all_done() -> bool:
        return all(job.get("status", {}).get("phase") == "Succeeded" for job in harness.api.objects(TFJOBS))

    eventually(all_done, what="all jobs succeed")


def test_a_bug_in_one_sync_does_not_end_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    with Harness(options=ControllerOptions(threadiness=1)) as harness:
        real = harness.controller.sync_tfjob
        failures = ["ns/bad"]

        def sync(key: str) -> None:
            if key in failures:
                failures.remove(key)
                raise RuntimeError("a bug")
            real(key)

        monkeypatch.setattr(harness.controller, "sync_tfjob", sync)
        harness.controller.start()
        harness.submit("bad", Worker=1)
        harness.submit("good", Worker=1)
        eventually(lambda: harness.api.names(PODS) == ["bad-worker-0", "good-worker-0"], what="both jobs' pods")


def test_stopping_lets_a_running_sync_finish_and_starts_no_other() -> None:
    entered, release = threading.Event(), threading.Event()

    def hold(call: Call) -> None:
        if call.verb == "create" and call.resource == "services":
            entered.set()
            assert release.wait(60)

    harness = Harness(options=ControllerOptions(threadiness=1))
    with harness:
        harness.api.react(hold)
        harness.controller.start()
        harness.api.put(TFJOBS, namespaced(tfjob("first", Worker=1)))
        assert entered.wait(60)
        harness.api.put(TFJOBS, namespaced(tfjob("second", Worker=1)))
        eventually(lambda: len(harness.queue) == 1, what="the second job waits")
        result: list[bool] = []
        stopper = threading.Thread(target=lambda: result.append(harness.controller.stop(10)))
        stopper.start()
        eventually(lambda: harness.queue._shutting_down)
        release.set()
        stopper.join(60)
        assert result == [True]
        assert harness.api.names(PODS) == ["first-worker-0"]
