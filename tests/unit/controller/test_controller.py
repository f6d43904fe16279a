from __future__ import annotations

import json
import threading

import pytest

from tests.support.clock import FakeClock
from tests.support.cluster import tfjob
from tests.support.controller_harness import Harness, namespaced
from tests.support.eventually import eventually
from tests.support.fake_api import Call, api_error
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.controller import ControllerOptions, ReconcileNote, StaleCache
from tfoperator.controller.handlers import expectation_key
from tfoperator.controller.metrics import NoControllerMetrics
from tfoperator.informers import ObjectNotFound
from tfoperator.kube.errors import Status, StatusCause, StatusDetails, TransportError, error_from_status
from tfoperator.kube.resources import PODS, SERVICES


def test_a_job_goes_from_created_over_running_to_succeeded() -> None:
    with Harness() as harness:
        harness.submit(PS=1, Worker=2)
        harness.sync()
        assert harness.api.names(PODS) == ["job-ps-0", "job-worker-0", "job-worker-1"] == harness.api.names(SERVICES)
        assert harness.condition("Created")["status"] == "True"
        for pod in harness.api.names(PODS):
            harness.play_kubelet(pod, "Running")
        harness.sync()
        assert harness.condition("Running")["status"] == "True"
        for pod in ("job-worker-0", "job-worker-1"):
            harness.play_kubelet(pod, "Succeeded", exit_code=0)
        harness.sync()
        assert harness.condition("Succeeded")["status"] == "True"


def test_a_sync_makes_no_read_call_and_no_write_but_those_of_its_plan() -> None:
    with Harness() as harness:
        harness.submit(PS=1, Worker=2)
        harness.forget_calls()
        harness.sync()
        assert sorted(harness.calls()) == [("create", "pods")] * 3 + [("create", "services")] * 3 + [
            ("patch", "tfjobs")
        ]
        harness.forget_calls()
        harness.sync()
        assert harness.calls() == []


def test_each_service_is_made_before_its_pod_and_one_event_tells_of_all() -> None:
    with Harness() as harness:
        harness.submit(Worker=5)
        harness.forget_calls()
        harness.sync()
        made = [(call.resource, call.name) for call in harness.api.calls if call.verb == "create"]
        assert len(made) == len(set(made)) == 10
        for index in range(5):
            assert made.index(("services", f"job-worker-{index}")) < made.index(("pods", f"job-worker-{index}"))
        assert harness.recorder.reasons == ["SuccessfulCreatePod"]


def test_a_sync_on_a_cache_that_lags_behind_its_own_creates_creates_nothing_again() -> None:
    with Harness() as harness:
        harness.submit(Worker=3)
        harness.api.mute("pods", "services")
        harness.controller.sync_tfjob("ns/job")
        harness.forget_calls()
        harness.controller.sync_tfjob("ns/job")
        assert harness.calls("create", "delete") == []


def test_unmet_expectations_of_one_replica_type_do_not_hold_up_another() -> None:
    with Harness() as harness:
        job = harness.submit(PS=1, Worker=2)
        uid = job["metadata"]["uid"]
        harness.expectations.expect_creations(expectation_key(uid, "PS", "pods"), 1)
        harness.controller.sync_tfjob("ns/job")
        assert harness.api.names(PODS) == ["job-worker-0", "job-worker-1"]
        assert len(harness.api.names(SERVICES)) == 3


def test_a_pod_that_only_the_cache_misses_is_not_counted_as_lost() -> None:
    with Harness() as harness:
        harness.submit(Worker=2, restart_policy="OnFailure")
        harness.sync()
        for pod in harness.api.names(PODS):
            harness.play_kubelet(pod, "Running")
        harness.sync()
        # What a new leader sees whose pod informer is behind its job informer.
        indexer = harness.informers.pods.informers[0].indexer
        pod = harness.informers.pods.lister.get("ns", "job-worker-1")
        indexer.delete(pod.metadata.key)
        harness.forget_calls()
        with pytest.raises(StaleCache, match="job-worker-1"):
            harness.controller.sync_tfjob("ns/job")
        assert harness.calls("create", "patch") == []
        indexer.add(pod)


def test_a_pod_that_is_gone_while_another_is_still_awaited_is_not_judged_yet() -> None:
    with Harness() as harness:
        job = harness.submit(Worker=2, restart_policy="OnFailure")
        harness.sync()
        for pod in harness.api.names(PODS):
            harness.play_kubelet(pod, "Running")
        harness.sync()
        harness.expectations.expect_creations(expectation_key(job["metadata"]["uid"], "Worker", "pods"), 1)
        harness.api.remove(PODS, "ns", "job-worker-1")
        eventually(lambda: len(harness.informers.pods.lister.list()) == 1)
        harness.forget_calls()
        harness.controller.sync_tfjob("ns/job")
        assert harness.calls() == []


def test_a_status_can_be_written_again_before_the_cache_shows_the_last_one() -> None:
    with Harness() as harness:
        harness.submit(Worker=1)
        harness.sync()
        harness.api.mute("tfjobs")
        for phase in ("Running", "Succeeded"):
            harness.api.edit(PODS, "ns", "job-worker-0", {"status": {"phase": phase}})
            eventually(lambda p=phase: harness.informers.pods.lister.get("ns", "job-worker-0").status.phase == p)
            harness.controller.sync_tfjob("ns/job")
            assert harness.status()["phase"] == phase
        assert harness.queue.num_requeues("ns/job") == 0


def test_a_pod_that_vanished_is_made_again_and_counted_as_a_restart() -> None:
    with Harness() as harness:
        harness.submit(Worker=2, restart_policy="OnFailure")
        harness.sync()
        for pod in harness.api.names(PODS):
            harness.play_kubelet(pod, "Running")
        harness.sync()
        harness.api.remove(PODS, "ns", "job-worker-1")
        harness.catch_up()
        harness.sync()
        assert len(harness.api.names(PODS)) == 2
        harness.sync()
        assert harness.status()["replicaStatuses"]["Worker"]["restarts"] == 1


def test_a_stale_job_in_the_cache_does_not_take_back_a_restart_count() -> None:
    with Harness() as harness:
        harness.submit(Worker=2, restart_policy="OnFailure")
        harness.sync()
        harness.play_kubelet("job-worker-1", "Failed", exit_code=1)
        harness.api.mute("tfjobs")

        def synced() -> bool:
            harness.controller.sync_tfjob("ns/job")
            return harness.status()["replicaStatuses"]["Worker"].get("restarts") == 1

        eventually(synced, what="the restart is counted")
        for _ in range(3):
            harness.controller.sync_tfjob("ns/job")
        assert harness.status()["replicaStatuses"]["Worker"]["restarts"] == 1


@pytest.mark.parametrize(
    ("away", "back"),
    [
        ({"runPolicy": {"suspend": True}}, {"runPolicy": {"suspend": False}}),
        ({"tfReplicaSpecs": {"Worker": {"replicas": 0}}}, {"tfReplicaSpecs": {"Worker": {"replicas": 2}}}),
    ],
)
def test_a_pod_that_is_let_go_of_is_no_loss_although_its_end_is_seen_after_a_change_of_mind(
    away: dict[str, object], back: dict[str, object]
) -> None:
    with Harness() as harness:
        harness.submit(PS=1, Worker=2, restart_policy="OnFailure")
        harness.sync()
        for pod in harness.api.names(PODS):
            harness.play_kubelet(pod, "Running")
        harness.sync()
        harness.api.mute("pods")
        for spec in (away, back):
            harness.api.edit(TFJOBS, "ns", "job", {"spec": spec})
            version = harness.api.objects(TFJOBS)[0]["metadata"]["resourceVersion"]
            eventually(lambda v=version: harness.informers.jobs.lister.list()[0].metadata.resource_version == v)
            harness.controller.sync_tfjob("ns/job")
        harness.api.unmute()
        harness.informers.pods.relist()
        harness.catch_up()
        for _ in range(3):
            harness.sync()
        assert len(harness.api.names(PODS)) == 3
        assert harness.status()["replicaStatuses"]["Worker"].get("restarts", 0) == 0
        assert "Restarting" not in {one["type"] for one in harness.status()["conditions"]}


def test_a_new_leader_with_an_old_view_of_a_job_does_not_write_over_what_it_has_not_seen() -> None:
    with Harness() as harness:
        harness.submit(Worker=2, restart_policy="OnFailure")
        harness.sync()
        harness.api.mute("tfjobs")
        # What its predecessor wrote last.
        written = {"phase": "Restarting", "replicaStatuses": {"Worker": {"restarts": 3, "restartCounts": {"0": 3}}}}
        harness.api.edit(TFJOBS, "ns", "job", {"status": written})
        harness.api.edit(PODS, "ns", "job-worker-0", {"status": {"phase": "Failed"}})
        eventually(lambda: harness.informers.pods.lister.get("ns", "job-worker-0").status.phase == "Failed")
        before = harness.status()
        harness.controller.sync_tfjob("ns/job")
        assert harness.api.count("patch", "tfjobs") == 2, "it did not try"
        assert harness.status() == before
        assert harness.queue.num_requeues("ns/job") == 1
        # Until the cache follows.
        harness.api.unmute()
        harness.api.edit(TFJOBS, "ns", "job", {"metadata": {"labels": {"x": "y"}}})
        harness.catch_up()
        harness.sync()
        assert harness.status()["replicaStatuses"]["Worker"]["restartCounts"] == {"0": 3}


def test_a_new_leader_with_an_old_view_of_a_finished_job_does_not_run_it_again() -> None:
    with Harness() as old, Harness(api=old.api) as new:
        old.submit(Worker=1, restart_policy="OnFailure", run_policy={"cleanPodPolicy": "All"})
        old.sync()
        old.play_kubelet("job-worker-0", "Running")
        old.sync()
        new.catch_up()
        old.api.mute("tfjobs")
        old.api.edit(PODS, "ns", "job-worker-0", {"status": {"phase": "Succeeded"}})
        eventually(lambda: old.informers.pods.lister.get("ns", "job-worker-0").status.phase == "Succeeded")
        old.controller.sync_tfjob("ns/job")
        assert old.status()["phase"] == "Succeeded"
        eventually(lambda: not new.informers.pods.lister.list(), what="the new leader sees that the pod is gone")
        with pytest.raises(StaleCache, match="the job has changed"):
            new.controller.sync_tfjob("ns/job")
        assert old.api.names(PODS) == []
        assert old.status()["phase"] == "Succeeded"


def test_a_new_leader_with_an_old_view_of_a_resumed_job_does_not_take_its_pods() -> None:
    with Harness() as new:
        new.submit(Worker=2, run_policy={"suspend": True})
        new.sync()
        new.api.mute("tfjobs")
        new.api.edit(TFJOBS, "ns", "job", {"spec": {"runPolicy": {"suspend": False}}})
        with Harness(api=new.api) as old:
            old.controller.sync_tfjob("ns/job")
        pods = new.api.names(PODS)
        assert pods == ["job-worker-0", "job-worker-1"]
        eventually(lambda: len(new.informers.pods.lister.list()) == 2, what="the new leader sees the pods")
        new.controller.start()
        eventually(lambda: new.queue.num_requeues("ns/job") > 1, what="the new leader looks at the job")
        assert new.api.names(PODS) == pods
        # Once the cache follows it goes on as usual.
        new.api.unmute()
        new.api.edit(TFJOBS, "ns", "job", {"spec": {"runPolicy": {"suspend": True}}})
        eventually(lambda: not new.api.names(PODS), what="the job is suspended again")


def test_a_new_leader_asks_once_about_a_job_that_it_inherits_and_has_to_act_on() -> None:
    with Harness() as harness:
        for name in ("idle", "busy"):
            harness.submit(name, Worker=1)
        harness.sync("idle")
        harness.forget_calls()
        harness.controller.start()
        eventually(lambda: len(harness.api.names(PODS)) == 2, what="both jobs' pods")
        harness.api.remove(SERVICES, "ns", "busy-worker-0")
        eventually(lambda: len(harness.api.names(SERVICES)) == 2, what="the service is made again")
        harness.submit("later", Worker=1)
        eventually(lambda: len(harness.api.names(PODS)) == 3, what="the later job's pod")
        assert [call.name for call in harness.api.calls if call.verb == "get"] == ["busy"]


def test_a_refused_pod_makes_the_job_fail_with_the_servers_words_instead_of_a_loop() -> None:
    with Harness() as harness:
        cause = StatusCause(field="spec.containers[0].resources", message="must be less than or equal to cpu limit")
        refusal = error_from_status(
            Status(code=422, reason="Invalid", message="Pod is invalid", details=StatusDetails(causes=(cause,)))
        )
        harness.api.fail("create", "pods", refusal, times=1000)
        harness.submit(Worker=4)
        harness.controller.sync_tfjob("ns/job")
        assert harness.api.count("create", "pods") == 1
        harness.sync()
        message = harness.condition("Failed")["message"]
        assert "spec.tfReplicaSpecs[Worker].template" in message
        assert "must be less than or equal to cpu limit" in message
        assert harness.api.count("create", "pods") == 1


def test_an_invalid_job_gets_a_condition_and_makes_nothing() -> None:
    with Harness() as harness:
        harness.submit(Worker=-1)
        harness.sync()
        assert "spec.tfReplicaSpecs[Worker].replicas" in harness.condition("Failed")["message"]
        assert harness.api.names(PODS) == []


@pytest.mark.parametrize("manager", ["kueue.x-k8s.io/multikueue"])
def test_a_job_that_somebody_else_manages_is_left_alone(manager: str) -> None:
    with Harness() as harness:
        harness.submit(Worker=1, run_policy={"managedBy": manager})
        harness.forget_calls()
        harness.sync()
        assert harness.calls() == []


def test_a_job_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    with Harness() as harness:
        harness.submit(Worker=1)
        harness.api.edit(TFJOBS, "ns", "job", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
        harness.catch_up()
        harness.forget_calls()
        harness.sync()
        assert harness.calls() == []


def test_a_deleted_job_leaves_nothing_behind_in_memory() -> None:
    with Harness() as harness:
        job = harness.submit(Worker=2)
        harness.sync()
        harness.queue.add_rate_limited("ns/job")
        for name in harness.api.names(PODS):
            harness.api.remove(PODS, "ns", name)
        harness.api.remove(TFJOBS, "ns", "job")
        eventually(lambda: len(harness.expectations) == 0, what="expectations are forgotten")
        eventually(lambda: len(harness.controller._memory) == 0, what="the memory is empty")
        eventually(lambda: harness.queue.num_requeues("ns/job") == 0, what="the backoff is forgotten")
        harness.controller.sync_tfjob("ns/job")
        assert harness.expectations.owner_satisfied(job["metadata"]["uid"])


def test_a_job_deleted_while_it_is_synced_leaves_nothing_behind_either() -> None:
    with Harness() as harness:
        job = harness.submit(Worker=2)
        uid = job["metadata"]["uid"]

        def vanish(call: Call) -> None:
            if call.verb == "create" and call.resource == "pods" and harness.api.names(TFJOBS):
                harness.api.remove(TFJOBS, "ns", "job")
                eventually(lambda: not harness.informers.jobs.lister.list())
                eventually(lambda: len(harness.controller._memory) == 0, what="the handler has run")

        harness.api.react(vanish)
        harness.controller.sync_tfjob("ns/job")
        assert harness.api.count("create", "pods") > 0
        assert len(harness.expectations) == 0
        # And one whose deletion comes between the look into the cache and everything else.
        cached = decode_tfjob(json.dumps(job).encode())
        harness.controller._jobs = OneLook(cached)  # type: ignore[assignment]
        harness.controller.sync_tfjob("ns/job")
        assert len(harness.controller._memory) == 0
        assert harness.expectations.owner_satisfied(uid)
        assert len(harness.expectations) == 0


class OneLook:
    """A lister whose object is gone when it is looked for again."""

    def __init__(self, job: TFJob) -> None:
        self._jobs = [job]

    def get(self, namespace: str, name: str) -> TFJob:
        if not self._jobs:
            raise ObjectNotFound("tfjobs", namespace, name)
        return self._jobs.pop()


def test_a_time_to_live_of_zero_does_not_make_a_refused_write_a_tight_loop() -> None:
    clock = FakeClock()
    with Harness(clock=clock) as harness:
        harness.submit(Worker=1, run_policy={"ttlSecondsAfterFinished": 0})
        harness.sync()
        harness.play_kubelet("job-worker-0", "Succeeded", exit_code=0)
        delays: list[float] = []
        harness.queue.add_after = lambda key, seconds: delays.append(seconds)  # type: ignore[method-assign]
        harness.api.fail("patch", "tfjobs", api_error(500))
        harness.controller.sync_tfjob("ns/job")
        assert delays
        assert min(delays) > 0


def test_a_standby_keeps_no_keys_and_looks_at_every_job_once_it_leads() -> None:
    with Harness() as harness:
        for number in range(3):
            harness.submit(f"job-{number}", Worker=1)
        harness.api.remove(TFJOBS, "ns", "job-0")
        harness.catch_up()
        assert len(harness.queue) == 0
        harness.controller.start()
        eventually(lambda: harness.api.names(PODS) == ["job-1-worker-0", "job-2-worker-0"], what="all pods")


def test_a_standby_counts_no_deleted_jobs() -> None:
    counted: list[str] = []
    metrics = NoControllerMetrics()
    metrics.job_deleted = counted.append  # type: ignore[method-assign]
    with Harness(metrics=metrics) as harness:
        for namespace in ("earlier", "later"):
            harness.api.put(TFJOBS, {"metadata": {"name": "job", "namespace": namespace}, "spec": {}})
        harness.catch_up()
        harness.controller.sync_tfjob("earlier/job")
        harness.api.remove(TFJOBS, "earlier", "job")
        eventually(lambda: len(harness.controller._memory) == 0, what="the handler has run")
        harness.controller.start()
        harness.api.remove(TFJOBS, "later", "job")
        eventually(lambda: "later" in counted, what="a deletion is counted")
        assert counted == ["later"]


def test_a_job_made_anew_under_its_old_name_does_not_inherit_the_old_pods() -> None:
    with Harness() as harness:
        harness.submit(Worker=1)
        harness.sync()
        old = harness.api.objects(PODS)[0]["metadata"]["uid"]
        harness.api.remove(TFJOBS, "ns", "job")
        harness.submit(Worker=1)
        harness.controller.sync_tfjob("ns/job")
        assert [pod["metadata"]["uid"] for pod in harness.api.objects(PODS)] == [old]
        # The garbage collector comes.
        harness.api.remove(PODS, "ns", "job-worker-0")
        harness.api.remove(SERVICES, "ns", "job-worker-0")
        harness.catch_up()
        harness.sync()
        [pod] = harness.api.objects(PODS)
        assert pod["metadata"]["uid"] != old


def test_the_time_of_a_comparison_rides_on_another_status_write() -> None:
    clock = FakeClock()
    with Harness(clock=clock) as harness:
        job = harness.submit(Worker=1)
        harness.sync()
        uid = job["metadata"]["uid"]
        harness.controller.note_reconciled(uid, ReconcileNote(time=clock.now(), write=False))
        harness.forget_calls()
        harness.sync()
        assert harness.calls() == []
        harness.play_kubelet("job-worker-0", "Running")
        harness.sync()
        assert harness.calls() == [("patch", "tfjobs")]
        assert harness.status()["lastReconcileTime"] == "2026-01-01T00:00:00Z"


def test_the_time_of_a_comparison_is_written_by_itself_once_when_asked_for() -> None:
    clock = FakeClock()
    with Harness(clock=clock) as harness:
        job = harness.submit(Worker=1)
        harness.sync()
        harness.controller.note_reconciled(job["metadata"]["uid"], ReconcileNote(time=clock.now(), write=True))
        harness.forget_calls()
        harness.sync()
        harness.sync()
        assert harness.calls() == [("patch", "tfjobs")]


def test_the_time_of_a_comparison_survives_a_conflict() -> None:
    clock = FakeClock()
    with Harness(clock=clock) as harness:
        job = harness.submit(Worker=1)
        harness.sync()
        harness.controller.note_reconciled(job["metadata"]["uid"], ReconcileNote(time=clock.now(), write=True))
        harness.api.fail("patch", "tfjobs", api_error(409, "Conflict"))
        harness.sync()
        assert "lastReconcileTime" not in harness.status()
        harness.sync()
        assert harness.status()["lastReconcileTime"] == "2026-01-01T00:00:00Z"


def test_a_job_past_its_time_to_live_is_deleted() -> None:
    clock = FakeClock()
    with Harness(clock=clock) as harness:
        harness.submit(Worker=1, run_policy={"ttlSecondsAfterFinished": 60})
        harness.sync()
        harness.play_kubelet("job-worker-0", "Succeeded", exit_code=0)
        harness.sync()
        clock.advance(61)
        harness.sync()
        assert harness.api.names(TFJOBS) == []
        [delete] = [call for call in harness.api.calls if call.verb == "delete" and call.resource == "tfjobs"]
        assert delete.body["uid"]
        assert delete.body["propagation"] == "Background"


# With workers.


def test_workers_bring_every_job_to_its_end() -> None:
    with Harness() as harness:
        harness.controller.start()
        for number in range(20):
            harness.submit(f"job-{number}", Worker=2)
        eventually(lambda: len(harness.api.names(PODS)) == 40, what="40 pods")
        for pod in harness.api.names(PODS):
            harness.api.edit(PODS, "ns", pod, {"status": {"phase": "Succeeded"}})

        def all_done() -> bool:
            return all(job.get("status", {}).get("phase") == "Succeeded" for job in harness.api.objects(TFJOBS))

        eventually(all_done, what="all jobs succeed")


def test_a_failed_sync_is_tried_again_until_it_works() -> None:
    with Harness() as harness:
        harness.api.fail("create", "services", TransportError("connection reset"), times=3)
        harness.api.fail("create", "pods", api_error(500), times=2)
        harness.controller.start()
        harness.submit(Worker=2)
        eventually(lambda: len(harness.api.names(PODS)) == 2, what="2 pods")
        eventually(lambda: harness.queue.num_requeues("ns/job") == 0, what="success forgets the failures")


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


def test_a_terminating_namespace_is_not_fought_against() -> None:
    details = StatusDetails(causes=(StatusCause(reason="NamespaceTerminating", message="is being terminated"),))
    ending = error_from_status(Status(code=403, reason="Forbidden", message="being terminated", details=details))
    with Harness() as harness:
        harness.api.fail("create", "services", ending, times=1000)
        harness.submit(Worker=3)
        harness.controller.sync_tfjob("ns/job")
        assert harness.api.count("create", "services") == 1
        assert harness.queue.num_requeues("ns/job") == 0
        assert harness.recorder.events == []


def test_a_wish_for_patience_is_granted() -> None:
    clock = FakeClock()
    with Harness(clock=clock) as harness:
        busy = error_from_status(Status(code=429, reason="TooManyRequests"), retry_after=7.0)
        harness.api.fail("create", "services", busy)
        delays: list[tuple[str, float]] = []
        harness.queue.add_after = lambda key, seconds: delays.append((key, seconds))  # type: ignore[method-assign]
        harness.submit(Worker=1)
        harness.controller.sync_tfjob("ns/job")
        assert ("ns/job", 7.0) in delays


def test_stopping_lets_a_running_sync_finish_and_starts_no_other() -> None:
    entered, release = threading.Event(), threading.Event()

    def hold(call: Call) -> None:
        if call.verb == "create" and call.resource == "services":
            entered.set()
            assert release.wait(10)

    harness = Harness(options=ControllerOptions(threadiness=1))
    with harness:
        harness.api.react(hold)
        harness.controller.start()
        harness.api.put(TFJOBS, namespaced(tfjob("first", Worker=1)))
        assert entered.wait(10)
        harness.api.put(TFJOBS, namespaced(tfjob("second", Worker=1)))
        eventually(lambda: len(harness.queue) == 1, what="the second job waits")
        result: list[bool] = []
        stopper = threading.Thread(target=lambda: result.append(harness.controller.stop(10)))
        stopper.start()
        eventually(lambda: harness.queue.shutting_down)
        release.set()
        stopper.join(10)
        assert result == [True]
        assert harness.api.names(PODS) == ["first-worker-0"]


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
        second.catch_up()
        second.sync()
        assert second.api.names(PODS) == sorted(f"job-worker-{index}" for index in range(50))
        assert len(second.api.names(SERVICES)) == 50
        assert second.api.count("create", "pods") == 50 - len(made)


def test_news_of_many_pods_become_one_status_write() -> None:
    with Harness(options=ControllerOptions(batch_period=0.2)) as harness:
        harness.controller.start()
        harness.submit(Worker=30)
        eventually(lambda: harness.condition("Created").get("status") == "True")
        harness.forget_calls()
        for pod in harness.api.names(PODS):
            container = {"name": "tensorflow", "ready": True, "state": {"running": {}}}
            harness.api.edit(PODS, "ns", pod, {"status": {"phase": "Running", "containerStatuses": [container]}})
        eventually(lambda: harness.condition("Ready").get("status") == "True")
        assert harness.api.count("patch", "tfjobs") <= 3
