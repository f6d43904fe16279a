import pytest

from tests.support.clock import FakeClock
from tests.support.controller_harness import Harness
from tests.support.eventually import eventually
from tests.support.fake_api import FakeApi, api_error
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.controller import is_older
from tfoperator.controller.ledger import CacheLag, StaleCache
from tfoperator.expectations import Expectations
from tfoperator.kube.protocol.resources import PODS, SERVICES
from tfoperator.kube.views.objects import ObjectMeta


def cache_lag() -> CacheLag:
    """Return a lag that is never asked to verify anything."""
    return CacheLag(None, None, {}, expectations=Expectations(), clock=FakeClock())  # type: ignore[arg-type]


def job(version: str = "10", phase: str = "") -> TFJob:
    return TFJob(
        metadata=ObjectMeta(name="j", namespace="ns", uid="u", resource_version=version),
        status=TFJobStatus(phase=phase),
    )


@pytest.mark.parametrize(
    ("version", "other", "older"),
    [("9", "10", True), ("10", "9", False), ("7", "7", False), ("a", "b", None), ("a", "a", False), ("", "1", None)],
)
def test_versions_are_compared_as_numbers_where_they_are_numbers(version: str, other: str, older: bool | None) -> None:
    assert is_older(version, other) is older


OURS, THEIRS = "written by us", "shown by the cache"


@pytest.mark.parametrize(
    ("written", "looks"),
    [
        # A later write of another client counts, and all versions after it.
        (["12"], [("10", OURS), ("11", OURS), ("12", OURS), ("13", THEIRS), ("10", THEIRS)]),
        # A cache that goes back behind what it showed at the last write is believed.
        (["12"], [("9", THEIRS)]),
        # Versions that can't be compared are old if the cache showed them at the last write, and new once they change.
        (["b"], [("a", OURS), ("c", THEIRS)]),
        (["b", "c"], [("a", OURS)]),
    ],
)
def test_a_written_status_holds_until_the_cache_shows_it(written: list[str], looks: list[tuple[str, str]]) -> None:
    lag, shown = cache_lag(), "a" if written[0] == "b" else "10"
    for version in written:
        assert lag.look(job(shown))[0].status.phase in ("", OURS)
        lag.status_written(job(version, phase=OURS))
    for version, phase in looks:
        result = lag.look(job(version, phase=OURS if version in written else THEIRS))[0]
        assert (result.status.phase, result.metadata.resource_version) == (
            phase,
            written[-1] if phase is OURS else version,
        )


def test_writes_that_the_server_does_not_know_are_forgotten_and_so_are_those_of_a_job_that_was() -> None:
    lag = cache_lag()
    for forget in (lag.forget_writes, lambda: lag.forget("u")):
        lag.look(job("10"))
        lag.status_written(job("12", phase="Running"))
        forget()
        assert lag.look(job("10", phase="Pending"))[0].status.phase == "Pending"
    lag.forget("u")
    lag.status_written(job("12", phase="Running"))
    assert lag.look(job("10"))[0].status.phase == ""


def test_a_write_that_only_we_remember_does_not_hold_up_those_that_follow() -> None:
    """The backup that was restored has the job as the cache shows it, which the last write had not reached yet."""
    api = FakeApi()
    with Harness(api=api) as harness:
        harness.submit_and_sync(Worker=1)
        [before] = api.objects(TFJOBS)
        api.mute("tfjobs")

        def play(phase: str) -> None:
            api.edit(PODS, "ns", "job-worker-0", {"status": {"phase": phase}})
            lister = harness.informers.pods.lister
            eventually(lambda: lister.find("ns/job-worker-0").status.phase == phase, what=phase)
            harness.forget_calls()
            harness.controller.sync_tfjob("ns/job")

        play("Running")
        assert harness.condition("Running")["status"] == "True"
        api.set_back(TFJOBS, before)
        play("Succeeded")
        assert harness.calls() == [("replace", "tfjobs"), ("get", "tfjobs")]
        assert harness.queue.num_requeues("ns/job") == 1
        harness.controller.sync_tfjob("ns/job")
        assert harness.condition("Succeeded")["status"] == "True"


def test_a_pod_that_only_the_cache_misses_is_not_counted_as_lost(harness: Harness) -> None:
    harness.running(Worker=2, restart_policy="OnFailure")
    # The state that a new leader sees if its pod informer is behind its job informer.
    indexer = harness.informers.pods.informers[0].indexer
    pod = harness.informers.pods.lister.find("ns/job-worker-1")
    indexer.delete(pod.metadata.key)
    harness.forget_calls()
    with pytest.raises(StaleCache, match="job-worker-1"):
        harness.controller.sync_tfjob("ns/job")
    assert harness.calls("create", "patch") == []
    indexer.add(pod)


def test_pods_that_are_known_to_be_gone_are_not_asked_about_while_they_cannot_be_made(harness: Harness) -> None:
    harness.running(Worker=5, restart_policy="OnFailure")
    for index in range(1, 5):
        harness.api.remove(PODS, "ns", f"job-worker-{index}")
    harness.api.fail("create", "pods", api_error(403, "Forbidden", "exceeded quota"), times=3)
    asked = []
    for _ in range(4):
        harness.forget_calls()
        harness.sync()
        asked.append(harness.calls("get"))
    assert sorted(asked[0]) == [("get", "pods")] * 4 + [("get", "tfjobs")]
    assert asked[1:] == [[]] * 3
    assert len(harness.api.names(PODS)) == 5
    harness.run_all()
    assert harness.status()["restarts"] == 4
    # Those were made together: when they are lost again, all are asked about again.
    for index in range(1, 5):
        harness.api.remove(PODS, "ns", f"job-worker-{index}")
    harness.forget_calls()
    harness.sync()
    assert harness.calls("get").count(("get", "pods")) == 4


def test_a_loss_is_looked_up_once_before_it_is_counted(harness: Harness) -> None:
    harness.running(Worker=2, restart_policy="OnFailure")
    harness.api.remove(PODS, "ns", "job-worker-1")
    harness.api.fail("create", "pods", api_error(403, "Forbidden", "exceeded quota"))
    harness.api.fail("create", "pods", api_error(504, "Timeout"))
    harness.forget_calls()
    harness.sync()
    assert ("get", "pods") in harness.calls()
    assert harness.status()["restarts"] == 1
    harness.sync()
    harness.forget_calls()
    harness.sync()
    assert harness.calls() == [("create", "pods")]
    assert len(harness.api.names(PODS)) == 2
    harness.run_all()
    harness.api.remove(PODS, "ns", "job-worker-1")
    harness.forget_calls()
    harness.sync()
    assert ("get", "pods") in harness.calls()
    assert harness.status()["restarts"] == 2


def test_a_new_leader_that_hears_late_of_a_finished_job_does_not_run_it_again() -> None:
    clock = FakeClock()
    with Harness(clock=clock) as old, Harness(api=old.api, clock=clock) as new:
        indexer = new.informers.jobs.informers[0].indexer
        old.submit(Worker=1, run_policy={"cleanPodPolicy": "All"})
        eventually(lambda: indexer.get("ns/job"), what="the job as it was at first")
        [first] = indexer.list()
        old.api.mute("tfjobs")  # to the new leader; the old one remembers what it writes
        indexer.delete("ns/job")
        clock.advance(5)
        for phase in ("Running", "Succeeded"):
            old.controller.sync_tfjob("ns/job")
            old.api.edit(PODS, "ns", "job-worker-0", {"status": {"phase": phase}})
            eventually(lambda p=phase: [pod.status.phase for pod in old.informers.pods.lister.list()] == [p])
        old.controller.sync_tfjob("ns/job")
        assert (old.status()["phase"], old.api.names(PODS)) == ("Succeeded", [])
        eventually(lambda: not new.informers.pods.lister.list(), what="the new leader sees that the pod is gone")
        new.controller.start()
        indexer.add(first)
        with pytest.raises(StaleCache, match="the job has changed"):
            new.controller.sync_tfjob("ns/job")
        assert old.api.names(PODS) == []


def test_a_new_leader_with_an_old_view_of_a_resumed_job_does_not_take_its_pods() -> None:
    with Harness() as new:
        new.submit_and_sync(Worker=2, run_policy={"suspend": True})
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


def test_a_new_leader_with_an_old_view_of_pods_does_not_record_that_they_have_started() -> None:
    """Their absence, when the cache shows it at last, would count as a restart."""
    with Harness() as old, Harness(api=old.api) as new:
        old.submit_and_sync(Worker=1, restart_policy="OnFailure")
        old.play_kubelet("job-worker-0", "Running")
        pods = new.informers.pods.lister
        eventually(lambda: [pod.status.phase for pod in pods.list()] == ["Running"], what="the new leader sees the pod")
        old.api.mute("pods")
        old.api.remove(PODS, "ns", "job-worker-0")
        new.controller.start()
        eventually(lambda: new.queue.num_requeues("ns/job") > 1, what="the new leader looks at the job")
        assert "startedIndexes" not in old.status()["replicaStatuses"]["Worker"]


def test_a_new_leader_waits_for_pods_from_before_a_restart_whose_replicas_the_job_no_longer_has(
    harness: Harness,
) -> None:
    """The previous leader has recorded the restart of a job that became smaller, and has not deleted all its pods."""
    harness.running(Worker=2, restart_policy="OnFailure", run_policy={"restartScope": "Job"})
    workers = {"Worker": {"replicas": 1}}
    harness.api.edit(TFJOBS, "ns", "job", {"spec": {"tfReplicaSpecs": workers}})
    harness.api.edit(TFJOBS, "ns", "job", {"status": {"jobRestarts": 1, "replicaStatuses": {"Worker": None}}})
    harness.api.remove(PODS, "ns", "job-worker-0")
    harness.catch_up()
    indexer, pods = harness.informers.pods.informers[0].indexer, harness.informers.pods.lister
    old = pods.find("ns/job-worker-1")
    indexer.delete("ns/job-worker-1")
    harness.controller._ledger.cache_lag.inherit(harness.informers.jobs.lister.list())
    with pytest.raises(StaleCache, match="job-worker-1"):
        harness.controller.sync_tfjob("ns/job")
    assert harness.api.names(PODS) == ["job-worker-1"]
    indexer.add(old)
    harness.forget_calls()
    harness.sync(times=4)
    assert harness.api.names(PODS) == ["job-worker-0"]
    assert harness.calls("list") == [("list", "pods")], "once"


def test_a_new_leader_asks_once_about_a_job_that_it_inherits_and_has_to_act_on(harness: Harness) -> None:
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
    assert [call.name for call in harness.api.calls if call.verb == "get"] == ["busy-worker-0", "busy"]
