import json
import threading
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.support.clock import FakeClock
from tests.support.cluster import tfjob
from tests.support.controller_harness import Harness, namespaced
from tests.support.eventually import eventually
from tests.support.fake_api import Call, api_error
from tests.support.plan_options import controller_options, plan_options
from tfoperator.api.v1.types import TFJOBS, decode_tfjob
from tfoperator.base.clock import SystemClock
from tfoperator.controller import Comparison, ControllerMetrics
from tfoperator.kube.protocol.resources import PODS, SERVICES


def test_a_deleted_job_leaves_nothing_behind_in_memory(harness: Harness) -> None:
    job = harness.submit_and_sync(Worker=2)
    harness.queue.add_rate_limited("ns/job")
    for name in harness.api.names(PODS):
        harness.api.remove(PODS, "ns", name)
    harness.api.remove(TFJOBS, "ns", "job")
    eventually(lambda: len(harness.expectations._cache) == 0, what="expectations are forgotten")
    eventually(lambda: len(harness.controller._ledger.memory._entries) == 0, what="the memory is empty")
    eventually(lambda: harness.queue.num_requeues("ns/job") == 0, what="the backoff is forgotten")
    harness.controller.sync_tfjob("ns/job")
    assert not harness.expectations.outstanding(job["metadata"]["uid"])


def test_no_sync_writes_into_an_object_of_a_cache(harness: Harness) -> None:
    observed: list[tuple[Any, tuple[object, ...], bytes]] = []

    def look() -> None:
        for informer in (harness.informers.jobs, harness.informers.pods, harness.informers.services):
            for obj in informer.lister.list():
                observed.append((obj, msgspec.structs.astuple(obj), msgspec.json.encode(obj)))

    harness.submit(Worker=2, restart_policy="ExitCode")
    for exit_code in (None, 137):
        for _ in range(3):
            look()
            harness.sync()
        for pod in harness.api.names(PODS):
            harness.play_kubelet(pod, "Running" if exit_code is None else "Failed", exit_code=exit_code)
    for _ in range(3):
        look()
        harness.sync()
    assert len({id(obj) for obj, _, _ in observed}) > 8, "several versions of the job and of each pod"
    for obj, members, content in observed:
        assert all(now is before for now, before in zip(msgspec.structs.astuple(obj), members, strict=True))
        assert msgspec.json.encode(obj) == content


def test_a_job_deleted_while_it_is_synced_leaves_nothing_behind_either(harness: Harness) -> None:
    job = harness.submit(Worker=2)
    uid = job["metadata"]["uid"]

    def vanish(call: Call) -> None:
        if call.verb == "create" and call.resource == "pods" and harness.api.names(TFJOBS):
            harness.api.remove(TFJOBS, "ns", "job")
            eventually(lambda: not harness.informers.jobs.lister.list())
            eventually(lambda: len(harness.controller._ledger.memory._entries) == 0, what="the handler has run")

    harness.api.react(vanish)
    harness.controller.sync_tfjob("ns/job")
    assert harness.api.count("create", "pods") > 0
    assert len(harness.expectations._cache) == 0
    # And a job whose deletion comes between the look into the cache and everything else.
    looks = [decode_tfjob(json.dumps(job).encode())]
    harness.controller._jobs = SimpleNamespace(find=lambda key: looks.pop() if looks else None)
    harness.controller.sync_tfjob("ns/job")
    assert len(harness.controller._ledger.memory._entries) == 0
    assert not harness.expectations.outstanding(uid)
    assert len(harness.expectations._cache) == 0


def test_the_status_written_last_leaves_a_job_to_rest_until_something_else_changes(harness: Harness) -> None:
    harness.running(Worker=1)
    controller, written = harness.controller, harness.controller._ledger.cache_lag._written
    [job] = harness.informers.jobs.lister.list()
    controller.note_comparison(job.metadata.uid, Comparison(time=SystemClock().now(), write=True))
    harness.sync()
    [rested] = harness.informers.jobs.lister.list()
    assert rested.metadata.resource_version != job.metadata.resource_version
    assert [controller._has_seen(version) for version in (job, rested)] == [False, True]
    assert not written
    harness.api.edit(PODS, "ns", "job-worker-0", {"metadata": {"labels": {"a": "b"}}})
    harness.catch_up()
    assert not controller._has_seen(rested)


def test_who_edits_the_template_of_running_pods_is_told_once_that_they_keep_the_old_one(harness: Harness) -> None:
    harness.running(Worker=2, PS=1)

    def template(image: str) -> dict[str, Any]:
        return {"template": {"spec": {"containers": [{"name": "tensorflow", "image": image}]}}}

    harness.api.edit(TFJOBS, "ns", "job", {"spec": {"tfReplicaSpecs": {"PS": {"restartPolicy": "Never"}}}})
    harness.sync()
    assert harness.recorder.messages("TemplateChanged") == [], "no template was changed"
    for number, image in enumerate(("new", "newer"), 1):
        harness.api.edit(TFJOBS, "ns", "job", {"spec": {"tfReplicaSpecs": {"Worker": template(image)}}})
        harness.forget_calls()
        harness.sync(times=3)
        assert len(harness.recorder.messages("TemplateChanged")) == number
        assert set(harness.calls()) <= {("replace", "tfjobs")}, "it costs no call but that of the event"
    message = "The pod template of Worker has changed."
    assert harness.recorder.messages("TemplateChanged")[0].startswith(message)


def test_a_template_that_is_edited_while_no_pod_runs_needs_no_word(harness: Harness) -> None:
    harness.submit_and_sync(Worker=1, run_policy={"suspend": True})
    spec = {
        "tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}}}
    }
    harness.api.edit(TFJOBS, "ns", "job", {"spec": spec | {"runPolicy": {"suspend": False}}})
    harness.sync(times=3)
    assert "SuccessfulCreatePod" in harness.recorder.reasons
    assert "TemplateChanged" not in harness.recorder.reasons


def test_a_standby_keeps_no_keys_and_looks_at_every_job_once_it_leads(harness: Harness) -> None:
    for number in range(3):
        harness.submit(f"job-{number}", Worker=1)
    harness.api.remove(TFJOBS, "ns", "job-0")
    harness.catch_up()
    assert len(harness.queue) == 0
    harness.controller.start()
    eventually(lambda: harness.api.names(PODS) == ["job-1-worker-0", "job-2-worker-0"], what="all pods")


def test_a_standby_counts_no_deleted_jobs() -> None:
    counted: list[str] = []
    metrics = ControllerMetrics()
    metrics.job_deleted = counted.append  # type: ignore[method-assign]
    with Harness(metrics=metrics) as harness:
        for namespace in ("earlier", "later"):
            harness.api.put(TFJOBS, {"metadata": {"name": "job", "namespace": namespace}, "spec": {}})
        harness.catch_up()
        harness.controller.sync_tfjob("earlier/job")
        harness.api.remove(TFJOBS, "earlier", "job")
        eventually(lambda: len(harness.controller._ledger.memory._entries) == 0, what="the handler has run")
        harness.controller.start()
        harness.api.remove(TFJOBS, "later", "job")
        eventually(lambda: "later" in counted, what="a deletion is counted")
        assert counted == ["later"]


def test_a_comparisons_time_rides_on_another_write_and_survives_a_conflict(clocked: Harness, clock: FakeClock) -> None:
    uid = clocked.submit_and_sync(Worker=1)["metadata"]["uid"]
    clocked.controller.note_comparison(uid, Comparison(time=clock.now(), write=False))
    assert clocked.calls_of_sync() == []
    clocked.play_kubelet("job-worker-0", "Running")
    clocked.sync()
    assert clocked.calls() == [("replace", "tfjobs")]
    assert clocked.status()["lastReconcileTime"] == "2026-01-01T00:00:00Z"
    clock.advance(60)
    clocked.controller.note_comparison(uid, Comparison(time=clock.now(), write=True))
    clocked.api.fail("replace", "tfjobs", api_error(409, "Conflict"))
    clocked.sync()
    assert clocked.status()["lastReconcileTime"] == "2026-01-01T00:00:00Z"
    clocked.sync()
    assert clocked.status()["lastReconcileTime"] == "2026-01-01T00:01:00Z"


def test_a_crash_half_way_through_fifty_creates_ends_with_exactly_fifty() -> None:
    with Harness() as first:
        first.submit(Worker=50)

        def die(call: Call) -> None:
            if call.verb == "create" and call.resource == "pods" and first.api.count("create", "pods") > 20:
                raise KeyboardInterrupt

        first.api.react(die)
        with pytest.raises(KeyboardInterrupt):
            first.controller.sync_tfjob("ns/job")
        made = first.api.names(PODS)
        assert 0 < len(made) < 50
        first.api.behave()
    with Harness(api=first.api) as second:
        second.forget_calls()
        second.sync()
        assert second.api.names(PODS) == sorted(f"job-worker-{index}" for index in range(50))
        assert len(second.api.names(SERVICES)) == 50
        assert second.api.count("create", "pods") == 50 - len(made)


def test_news_of_many_pods_become_one_status_write() -> None:
    with Harness(options=controller_options(batch_period=0.2)) as harness:
        harness.controller.start()
        harness.submit(Worker=30)
        eventually(lambda: harness.condition("Created").get("status") == "True")
        harness.forget_calls()
        for pod in harness.api.names(PODS):
            container = {"name": "tensorflow", "ready": True, "state": {"running": {}}}
            harness.api.edit(PODS, "ns", pod, {"status": {"phase": "Running", "containerStatuses": [container]}})
        eventually(lambda: harness.condition("Ready").get("status") == "True")
        assert harness.api.count("replace", "tfjobs") <= 3


def test_a_killed_replica_does_not_wait_for_news_of_others() -> None:
    # The batch period here never ends: urgent work must be done before its end.
    never = controller_options(batch_period=3600, urgent_batch_period=0.001, plan=plan_options(restart_delay_base=0))
    with Harness(options=never) as harness:
        harness.controller.start()
        harness.submit(restart_policy="OnFailure", Worker=1)
        eventually(lambda: harness.api.names(PODS) == ["job-worker-0"])
        uid = harness.api.objects(PODS)[0]["metadata"]["uid"]
        harness.play_kubelet("job-worker-0", "Failed", exit_code=137)
        eventually(lambda: [pod["metadata"]["uid"] for pod in harness.api.objects(PODS)] not in ([], [uid]))


# Threads.


def test_a_bug_in_one_sync_does_not_end_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    with Harness(options=controller_options(threadiness=1)) as harness:
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

    harness = Harness(options=controller_options(threadiness=1))
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
