from __future__ import annotations

from tests.support.controller_harness import Harness
from tests.support.eventually import eventually
from tfoperator.expectations import expectation_key
from tfoperator.kube.resources import PODS, SERVICES


def test_a_sync_on_a_cache_that_lags_behind_its_own_creates_creates_nothing_again(harness: Harness) -> None:
    harness.submit(Worker=3)
    harness.api.mute("pods", "services")
    harness.controller.sync_tfjob("ns/job")
    harness.forget_calls()
    harness.controller.sync_tfjob("ns/job")
    assert harness.calls("create", "delete") == []


def test_unmet_expectations_of_one_replica_type_do_not_hold_up_another(harness: Harness) -> None:
    job = harness.submit(PS=1, Worker=2)
    uid = job["metadata"]["uid"]
    harness.expectations.expect_creations(expectation_key(uid, "PS", "pods"), 1)
    harness.controller.sync_tfjob("ns/job")
    assert harness.api.names(PODS) == ["job-worker-0", "job-worker-1"]
    assert len(harness.api.names(SERVICES)) == 3


def test_a_pod_that_is_gone_while_another_is_still_awaited_is_not_judged_yet(harness: Harness) -> None:
    job = harness.submit_and_sync(Worker=2, restart_policy="OnFailure")
    harness.run_all()
    harness.expectations.expect_creations(expectation_key(job["metadata"]["uid"], "Worker", "pods"), 1)
    harness.api.remove(PODS, "ns", "job-worker-1")
    eventually(lambda: len(harness.informers.pods.lister.list()) == 1)
    harness.forget_calls()
    harness.controller.sync_tfjob("ns/job")
    assert harness.calls() == []
