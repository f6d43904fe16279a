from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.cluster import tfjob
from tests.support.controller_harness import Harness, namespaced
from tests.support.eventually import eventually
from tests.support.fake_api import Call, FakeApi, api_error
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.controller import gang_scheduler
from tfoperator.controller.pods.gang import COSCHEDULING_POD_GROUPS
from tfoperator.expectations import expectation_key
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import DEPLOYMENTS, PODS, SERVICES, Resource
from tfoperator.kube.views.objects import timestamp
from tfoperator.reconciler import Intervals, Reconciler

OURS = {"training.kubeflow.org/operator-name": "tfjob-controller"}


class Attentive(Reconciler):
    """Tells which versions of jobs its handler has got."""

    def __init__(self, *given: Any, **options: Any) -> None:
        self.heard: set[tuple[str, str]] = set()
        super().__init__(*given, **options)

    def on_add(self, obj: TFJob) -> None:
        super().on_add(obj)
        self.heard.add((obj.metadata.uid, obj.metadata.resource_version))

    def on_update(self, old: TFJob, new: TFJob) -> None:
        super().on_update(old, new)
        self.heard.add((new.metadata.uid, new.metadata.resource_version))


class World(Harness):
    """A controller that works, and a reconciler that a test drives."""

    def __init__(self, gang: Any = None, namespaces: tuple[str, ...] = ("",), *, kueue: bool = False) -> None:
        self.clock = FakeClock()
        super().__init__(api=FakeApi(self.clock.now), clock=self.clock, gang=gang, kueue=kueue)
        self.reconciler = self.make_reconciler(namespaces)

    def make_reconciler(self, namespaces: tuple[str, ...] = ("",)) -> Attentive:
        options = {"expectations": self.expectations, "namespaces": namespaces, "clock": self.clock}
        options["intervals"] = Intervals(15.0, 300.0)
        return Attentive(self.api, self.informers, self.controller, **options)

    def catch_up(self) -> None:
        """Wait for the reconciler, too, whose handler has a thread of its own."""
        super().catch_up()
        versions = {(job.metadata.uid, job.metadata.resource_version) for job in self.informers.jobs.lister.list()}
        eventually(lambda: versions <= self.reconciler.heard, what="the reconciler has heard of each job")

    def change_leader(self) -> None:
        """Use from now on the reconciler of another process, which has listed the job just now."""
        self.reconciler = self.make_reconciler()
        eventually(lambda: len(self.reconciler._schedule._jobs) == 2, what="the reconciler knows the job")

    def __enter__(self) -> World:
        super().__enter__()
        self.controller.start()
        return self

    def run_job(self, name: str = "job", *, restart_policy: str = "Never", spec: Any = None, **what: int) -> None:
        """Submit a job and bring it to Running, with the reconciler knowing of it."""
        before = len(self.reconciler._schedule._jobs)
        self.api.put(TFJOBS, namespaced(tfjob(name, restart_policy=restart_policy, spec=spec, **what)))
        pods = [f"{name}-{kind.lower()}-{index}" for kind, count in what.items() for index in range(count)]
        eventually(lambda: set(pods) <= set(self.api.names(PODS)), what="pods")
        container = {"name": "tensorflow", "ready": True, "state": {"running": {}}}
        for pod in pods:
            self.api.edit(PODS, "ns", pod, {"status": {"phase": "Running", "containerStatuses": [container]}})
        eventually(lambda: self.condition("Ready", name).get("status") == "True", what=f"{name} is ready")
        eventually(lambda: len(self.reconciler._schedule._jobs) == before + 1, what="the reconciler knows it")
        self.settle()

    def finish_job(self) -> None:
        """Bring a job with one worker to Succeeded."""
        self.run_job(Worker=1)
        self.api.edit(PODS, "ns", "job-worker-0", {"status": {"phase": "Succeeded"}})
        eventually(lambda: self.condition("Succeeded").get("status") == "True")
        self.settle()

    def enqueue_at_once(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """Make delayed syncs immediate, so that none slips past the next look; returns where the delays go."""
        delays: list[float] = []

        def enqueue(key: str, seconds: float) -> None:
            delays.append(seconds)
            self.controller.enqueue(key)

        monkeypatch.setattr(self.controller, "enqueue_after", enqueue)
        return delays

    @contextmanager
    def unwatched(self, plural: str) -> Iterator[None]:
        """The watch loses what happens to these objects."""
        self.api.mute(plural)
        yield
        self.api.unmute()

    def look(self, after: float = 15.0) -> int:
        """Let time pass and compare; returns how many jobs were."""
        self.clock.advance(after)
        return self.reconciler.reconcile()


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world


@pytest.mark.parametrize(
    ("resource", "name", "gang"),
    [
        (PODS, "job-worker-1", None),
        (SERVICES, "job-worker-1", None),
        (DEPLOYMENTS, "job-tensorboard", None),
        (COSCHEDULING_POD_GROUPS, "job", gang_scheduler("mine")),
    ],
)
def test_an_object_whose_end_the_watch_lost_is_made_anew(resource: Resource, name: str, gang: Any) -> None:
    with World(gang) as world:
        world.run_job(Worker=2, spec={"tensorBoard": {"logDir": "gs://bucket/logs"}})
        with world.unwatched(resource.plural):
            world.api.remove(resource, "ns", name)
        world.look()
        assert name not in world.api.names(resource)
        world.forget_calls()
        world.look()
        eventually(lambda: name in world.api.names(resource), what="it is made anew")
        assert world.api.count("watch", resource.plural) == 1


def test_long_lists_are_read_in_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfoperator.kube.watching.listing.PAGE_SIZE", 2)
    world.run_job(Worker=5)
    world.forget_calls()
    assert world.look() == 1
    assert world.calls("list").count(("list", "pods")) == 3
    assert world.reconciler._suspicions == {}


def test_a_pod_that_was_let_go_of_is_no_loss_unseen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run_job(Worker=1, restart_policy="OnFailure")
    world.api.mute("pods")
    world.api.edit(TFJOBS, "ns", "job", {"spec": {"runPolicy": {"suspend": True}}})
    eventually(lambda: world.condition("Suspended").get("status") == "True", what="the job is suspended")
    eventually(lambda: not world.api.names(PODS), what="the pod is let go of")
    world.api.unmute()
    # Until the cache is mended the job is synced with a pod of before its suspension.
    world.api.edit(TFJOBS, "ns", "job", {"spec": {"runPolicy": {"suspend": False}}})
    with monkeypatch.context() as late:
        late.setattr(world.informers.pods, "relist", lambda: None)
        world.look()
        world.look()
        eventually(lambda: not len(world.queue) and not world.queue.unfinished_work_seconds(), what="an idle queue")
    world.informers.pods.relist()
    eventually(lambda: world.api.names(PODS) == ["job-worker-0"], what="the pod is made anew")
    world.settle()
    assert world.status()["replicaStatuses"]["Worker"].get("restarts", 0) == 0


def test_a_status_change_that_the_watch_lost_is_noticed(world: World) -> None:
    world.run_job(Worker=1)
    with world.unwatched("pods"):
        world.api.edit(PODS, "ns", "job-worker-0", {"status": {"phase": "Succeeded"}})
    world.look()
    assert world.condition("Succeeded") == {}
    world.look()
    eventually(lambda: world.condition("Succeeded").get("status") == "True", what="the end is noticed")


def test_a_job_that_the_watch_lost_is_found_also_without_another(world: World) -> None:
    with world.unwatched("tfjobs"):
        world.api.put(TFJOBS, namespaced(tfjob("lost", Worker=1)))
    world.reconciler.start()

    def pod_exists() -> bool:
        world.clock.advance(5)  # there is no job whose resync would set the thread going
        return "lost-worker-0" in world.api.names(PODS)

    eventually(pod_exists, every=0.02, what="the lost job's pod")
    assert world.clock.monotonic() <= 600
    assert world.reconciler.stop(60)


def delete_job(world: World) -> None:
    """Delete the job, and all its objects as the garbage collector does."""
    world.api.remove(TFJOBS, "ns", "job")
    for resource in (PODS, SERVICES, DEPLOYMENTS):
        for name in world.api.names(resource):
            world.api.remove(resource, "ns", name)
    eventually(lambda: not world.informers.jobs.lister.list(), what="the cache shows that the job is gone")


def test_a_lost_event_of_a_job_that_was_then_deleted_is_repaired(world: World) -> None:
    world.run_job(Worker=1)
    with world.unwatched("pods"):
        world.api.remove(PODS, "ns", "job-worker-0")
    world.look()
    delete_job(world)
    for _ in range(2):
        world.look(after=300)
    eventually(lambda: not world.informers.pods.lister.list(), what="the cache shows that the pod is gone")


@pytest.mark.parametrize(("resource", "name"), [(PODS, "job-worker-0"), (DEPLOYMENTS, "job-tensorboard")])
def test_a_difference_of_a_job_that_was_then_deleted_is_compared_once_more(
    world: World, resource: Resource, name: str
) -> None:
    world.run_job(Worker=1, spec={"tensorBoard": {"logDir": "gs://bucket/logs"}})
    with world.unwatched(resource.plural):
        world.api.edit(resource, "ns", name, {"metadata": {"annotations": {"late": "yes"}}})
    world.look()
    delete_job(world)
    owned = (world.informers.pods, world.informers.services, world.informers.deployments)
    eventually(lambda: not any(cache.lister.list() for cache in owned), what="the caches show the end")
    for lists in (True, False):
        world.forget_calls()
        world.look(after=300)
        assert (("list", resource.plural) in world.calls()) is lists


def test_an_idle_hour_without_jobs_costs_a_list_of_them_in_five_minutes(world: World) -> None:
    world.forget_calls()
    for _ in range(240):
        world.look(after=15)
    assert 12 <= len(world.calls()) <= 12 + 4
    assert set(world.calls()) == {("list", "tfjobs")}


@pytest.mark.parametrize("closed", ["tfjobs", "pods"])
def test_a_namespace_that_may_not_be_read_keeps_no_other_from_being_compared(closed: str) -> None:
    with World(namespaces=("gone", "ns")) as world:
        world.api.put(TFJOBS, tfjob("stays", Worker=1) | {"metadata": {"name": "stays", "namespace": "gone"}})
        eventually(lambda: len(world.reconciler._schedule._jobs) == 2, what="the reconciler knows it")
        world.run_job(Worker=2)

        def deny(call: Call) -> None:
            if call.verb == "list" and (call.namespace, call.resource) == ("gone", closed):
                raise api_error(403, "Forbidden", "its role is gone")

        world.api.react(deny)
        with world.unwatched("pods"):
            world.api.remove(PODS, "ns", "job-worker-1")
        for _ in range(2):
            assert world.look() == 1
        eventually(lambda: "job-worker-1" in world.api.names(PODS), what="the loss is seen")
        assert world.api.count("watch", "tfjobs") == 1  # it knows and concludes nothing about the other namespace


@pytest.mark.parametrize(("namespaces", "listed", "code"), [(("gone", "ns"), "tfjobs", 403), (("",), "pods", 503)])
def test_where_nothing_can_be_read_the_jobs_stay_due(namespaces: tuple[str, ...], listed: str, code: int) -> None:
    with World(namespaces=namespaces) as world:
        world.run_job(Worker=1)
        world.api.fail("list", listed, api_error(code), times=len(namespaces))
        with pytest.raises(KubeError):
            world.look()
        assert world.reconciler.reconcile() == 1


def test_an_orphan_that_the_watch_lost_is_found_and_adopted(world: World) -> None:
    world.run_job(Worker=1)
    with world.unwatched("pods"):
        labels = {**OURS, "training.kubeflow.org/job-name": "job", "training.kubeflow.org/replica-type": "worker"}
        labels["training.kubeflow.org/replica-index"] = "0"
        world.api.put(PODS, {"metadata": {"name": "orphan", "namespace": "ns", "labels": labels}})
    world.look()
    world.look()
    eventually(lambda: world.api.objects(PODS)[-1]["metadata"].get("ownerReferences"), what="the orphan is adopted")


def test_an_unchanged_job_is_synced_at_the_longest_interval_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run_job(Worker=1)
    # The last events of a job are gathered for a moment, and the queue does not show the sync that follows.
    settled = world.controller.is_settled
    eventually(lambda: settled(world.informers.jobs.lister.find("ns/job")), what="a sync with nothing to do")
    synced: list[str] = []
    monkeypatch.setattr(world.controller, "enqueue", synced.append)
    monkeypatch.setattr(world.controller, "enqueue_after", lambda _key, _seconds: None)
    for interval in (15, 30, 60, 120, 240):
        assert synced == []
        assert world.look(after=interval) == 1
    assert len(synced) <= 1
    before = len(synced)
    # Without a write for its record, which syncs it, too.
    world.reconciler._schedule.ended(world.informers.jobs.lister.find("ns/job").metadata.uid)
    assert world.look(after=300) == 1
    assert len(synced) == before + 1


def test_reports_of_progress_do_not_shorten_the_interval(world: World) -> None:
    world.run_job(Worker=1)
    assert world.look(after=15) == 1
    looks = []
    for percentage in range(6):
        world.api.edit(TFJOBS, "ns", "job", {"status": {"progress": {"percentage": percentage}}})
        world.catch_up()
        looks.append(world.look(after=15))
    assert looks == [0, 1, 0, 0, 0, 1]


def test_a_job_whose_change_reached_no_worker_is_synced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run_job(Worker=1)
    monkeypatch.setattr(world.queue, "add_after", lambda *_, **__: None)
    monkeypatch.setattr(world.queue, "add", lambda *_, **__: None)
    world.api.edit(PODS, "ns", "job-worker-0", {"status": {"phase": "Succeeded"}})
    world.catch_up()
    monkeypatch.undo()
    world.look()
    eventually(lambda: world.condition("Succeeded").get("status") == "True", what="the end is noticed")


def test_a_wrong_job_is_synced_at_once_and_its_record_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its deadline is left to do, and is no reason to write the records of all such jobs at one time.
    world.run_job(Worker=1, spec={"runPolicy": {"activeDeadlineSeconds": 86400}})
    synced: list[str] = []
    later: list[str] = []
    monkeypatch.setattr(world.controller, "enqueue", synced.append)
    monkeypatch.setattr(world.controller, "enqueue_after", lambda key, _seconds: later.append(key))
    assert world.look(after=3600) == 1
    assert (synced, later) == ([], ["ns/job"]), "only the record is due"
    with world.unwatched("services"):
        world.api.remove(SERVICES, "ns", "job-worker-0")
    assert world.look(after=3600) == 1
    assert (synced, later) == (["ns/job"], ["ns/job"])


def test_a_difference_that_the_watch_makes_good_by_itself_causes_no_new_list(world: World) -> None:
    world.run_job(Worker=1)
    world.forget_calls()

    def change_amid_the_look(call: Call) -> None:
        if call.verb == "list" and call.resource == "services":
            world.api.edit(PODS, "ns", "job-worker-0", {"metadata": {"annotations": {"a": str(world.clock.now())}}})

    world.api.react(change_amid_the_look)
    for _ in range(3):
        world.look(after=300)
        world.catch_up()
    assert [call for call in world.api.calls if call.verb == "watch"] == []


def test_a_watch_that_is_late_but_goes_on_causes_no_new_list(world: World) -> None:
    world.run_job(Worker=2)
    (watch,) = [watch for resource, *_, watch in world.api._watches if resource == PODS]
    seen = len(world.api._history)
    with world.unwatched("pods"):
        for name in ("job-worker-0", "job-worker-0", "job-worker-0", "job-worker-1"):
            world.api.edit(PODS, "ns", name, {"metadata": {"annotations": {"at": str(len(world.api._history))}}})
    world.forget_calls()
    for version, _, kind, pod in world.api._history[seen:]:
        world.look()
        watch.push(kind, pod)
        eventually(lambda version=version: world.informers.pods.versions == [str(version)], what="the cache goes on")
    world.look()
    assert world.api.count("watch", "pods") == 0
    assert world.reconciler._suspicions == {}


def test_a_repair_brings_the_job_back_to_the_shortest_interval(world: World) -> None:
    world.run_job(Worker=1)
    for _ in range(6):
        world.look(after=300)
    assert world.look(after=15) == 0
    with world.unwatched("pods"):
        world.api.edit(PODS, "ns", "job-worker-0", {"metadata": {"annotations": {"lost": "yes"}}})
    assert world.look(after=300) == 1
    assert world.look(after=15) == 1


def test_an_expected_event_is_given_up_after_two_looks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run_job(Worker=1)
    uid = world.api.objects(TFJOBS)[0]["metadata"]["uid"]
    world.expectations.expect_creations(expectation_key(uid, "worker", "pods"), 1)
    world.look()
    assert world.expectations.outstanding(uid)
    synced: list[str] = []
    monkeypatch.setattr(world.controller, "enqueue", synced.append)
    world.look()
    assert not world.expectations.outstanding(uid)
    assert synced == ["ns/job"], "what it waited for may have to be made"


def test_the_time_is_recorded_at_first_and_every_five_minutes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run_job(Worker=1)
    delays = world.enqueue_at_once(monkeypatch)
    world.forget_calls()
    began = world.clock.now()
    for seconds in range(15, 3601, 15):
        world.look(after=15)
        world.settle()
        recorded = datetime.fromisoformat(world.status()["lastReconcileTime"])
        assert timedelta(0) <= world.clock.now() - recorded <= timedelta(seconds=min(seconds, 300))
    assert recorded > began + timedelta(minutes=55)
    # After 15, 225, 465, 765 ... 3465 seconds.
    assert world.calls("replace").count(("replace", "tfjobs")) == 13
    assert delays == [0.0] * len(delays)


def test_an_idle_hour_costs_the_lists_of_one_job_for_thirty(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    delays = world.enqueue_at_once(monkeypatch)
    for number in range(30):
        world.run_job(f"job-{number}", Worker=1)
        world.clock.advance(3.3)
    world.forget_calls()
    for _ in range(240):
        world.look(after=15)
        world.settle()
    # At most one look per 15 s while backing off, one per 5 minutes afterwards.
    assert world.calls("list").count(("list", "pods")) <= 12 + 20
    assert 30 * 12 <= world.calls("replace").count(("replace", "tfjobs")) <= 30 * 15
    # They would come spread over seconds, not all at once.
    assert max(delays) <= 7.5
    assert len({round(delay, 1) for delay in delays}) > 10
    assert world.calls("create", "delete", "get", "patch") == []


def test_a_finished_job_costs_no_writes(world: World) -> None:
    world.finish_job()
    world.forget_calls()
    for _ in range(20):
        world.look(after=300)
        world.settle()
    assert world.calls("patch", "replace") == []


def test_the_resync_sets_the_thread_going_once_it_is_started_and_stop_ends_it(world: World) -> None:
    world.run_job(Worker=1)
    world.forget_calls()
    job = world.informers.jobs.lister.find("ns/job")
    world.clock.advance(1000)
    world.reconciler.on_update(job, job)
    assert world.calls("list") == []
    world.reconciler.start()
    with pytest.raises(RuntimeError, match="this reconciler was already started once"):
        world.reconciler.start()

    def resynced() -> bool:
        world.clock.advance(5)
        return world.calls("list").count(("list", "pods")) >= 2

    eventually(resynced, every=0.02, what="two looks")
    assert world.reconciler.stop(60)


def test_jobs_that_fall_due_right_after_a_look_wait_for_the_next(world: World) -> None:
    world.run_job("first", Worker=1)
    world.run_job("second", Worker=1)
    schedule = world.reconciler._schedule
    world.reconciler.start()
    first, second = (world.informers.jobs.lister.find(f"ns/{name}") for name in ("first", "second"))
    schedule.compared(second.metadata.uid, world.clock.monotonic(), matched=True)
    # Or else the first look would order a record, and the second job would not be due once that is written.
    schedule.recorded(second.metadata.uid, world.clock.monotonic())
    world.forget_calls()
    world.clock.advance(15)
    world.reconciler.on_update(first, first)
    eventually(lambda: len(world.calls("list", "news")) == 3, what="one look")
    world.clock.wait_for_deadline(world.clock.monotonic() + 13.5)
    schedule.compared(second.metadata.uid, world.clock.monotonic() - 15, matched=False)
    world.reconciler.on_update(second, second)
    world.clock.advance(13)
    assert len(world.calls("list", "news")) == 3
    world.clock.advance(1)
    eventually(lambda: len(world.calls("list", "news")) == 6, what="the next look")
    assert world.reconciler.stop(60)


# A new leader.


def compared(world: World, ago: float, *, quiet: float, **status: Any) -> None:
    """Another process has compared the job so many seconds ago, when it had not changed for so long."""
    world.run_job(Worker=1)
    world.clock.advance(ago + quiet)
    moment = world.clock.now() - timedelta(seconds=ago)
    changed = timestamp(moment - timedelta(seconds=quiet))
    times = {"lastUpdateTime": changed, "lastTransitionTime": changed}
    conditions = [condition | times for condition in world.status()["conditions"]]
    recorded = {"lastReconcileTime": timestamp(moment), "startTime": changed, "conditions": conditions}
    world.api.edit(TFJOBS, "ns", "job", {"metadata": {"creationTimestamp": changed}, "status": recorded | status})
    world.settle()


def first_look(world: World) -> float:
    """After how many seconds a reconciler that begins now looks at the job, by steps of 5."""
    world.change_leader()
    began = world.clock.monotonic()
    while not world.look(after=5):
        assert world.clock.monotonic() - began <= 300
    return world.clock.monotonic() - began


@pytest.mark.parametrize(
    ("ago", "quiet", "first"),
    [
        (10, 3000, 290),  # at the longest interval
        (100, 3000, 200),
        (10, 105, 110),  # 15 s, 30 s and 60 s were over: the next interval is 120 s
        (5, 15, 25),
        (0, 0, 15),
        (280, 3000, 15),
        (299, 3000, 5),  # its record is nearly five minutes old
        (100_000, 3000, 5),  # nobody led for a day
    ],
)
def test_a_new_leader_goes_on_where_the_old_one_stood(world: World, ago: float, quiet: float, first: float) -> None:
    compared(world, ago, quiet=quiet)
    assert first_look(world) == pytest.approx(first, abs=5)
    job = world.informers.jobs.lister.find("ns/job")
    due = world.reconciler._schedule.due_at(job.metadata.uid)
    assert due is not None
    assert due - world.clock.monotonic() <= min(300, 2 * (quiet + 15)) + 5


def test_a_record_in_the_future_is_mended_by_the_next_comparison(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    compared(world, 10, quiet=3000, lastReconcileTime="2099-01-01T00:00:00Z")
    world.enqueue_at_once(monkeypatch)
    first_look(world)
    eventually(lambda: world.status()["lastReconcileTime"] < "2027", what="the record is mended")


def test_a_finished_job_counts_as_compared_when_it_is_listed(world: World) -> None:
    world.finish_job()
    world.clock.advance(100_000)
    assert first_look(world) == pytest.approx(300, abs=5)


def test_a_standby_that_has_waited_for_long_looks_soon_and_goes_on_with_the_old_interval(world: World) -> None:
    compared(world, 10, quiet=3000)
    first_look(world)
    world.clock.advance(1000)
    compared_by_the_leader = timestamp(world.clock.now())
    world.api.edit(TFJOBS, "ns", "job", {"status": {"lastReconcileTime": compared_by_the_leader}})
    world.settle()
    world.reconciler.start()
    job = world.informers.jobs.lister.find("ns/job")
    schedule, now = world.reconciler._schedule, world.clock.monotonic()
    assert schedule.due_at(job.metadata.uid) == now + 15
    schedule.compared(job.metadata.uid, now + 15, matched=True)
    assert (schedule.due_at(job.metadata.uid) or 0) > now + 45
    assert world.reconciler.stop(60)


def test_a_standby_that_begins_to_lead_takes_the_records_of_then(world: World) -> None:
    compared(world, 200, quiet=3000)
    world.change_leader()
    world.clock.advance(60)
    world.api.edit(TFJOBS, "ns", "job", {"status": {"lastReconcileTime": timestamp(world.clock.now())}})
    world.settle()
    world.reconciler.start()
    job = world.informers.jobs.lister.find("ns/job")
    assert world.reconciler._schedule.due_at(job.metadata.uid) == world.clock.monotonic() + 300
    assert world.reconciler.stop(60)
