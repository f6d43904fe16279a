from typing import Any

import msgspec
import pytest

from tfoperator.api.replicas import names
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.parts.elastic import ElasticPolicy
from tfoperator.api.v1.parts.run_policy import RunPolicy, SchedulingPolicy
from tfoperator.api.v1.status import JobCondition, TFJobStatus
from tfoperator.api.v1.types import TFJob, TFJobSpec
from tfoperator.controller.kueue.objects import Priority
from tfoperator.controller.observe.handlers import JobHandler, OwnedObjectHandler, PriorityHandler
from tfoperator.expectations import Expectations, expectation_key
from tfoperator.informers import Lister
from tfoperator.informers.store import Indexer
from tfoperator.kube.views.objects import ObjectMeta, OwnerReference, Pod
from tfoperator.kube.views.pod_status import PodStatus

replace = msgspec.structs.replace
LABELS = names.replica_labels("job", ReplicaType.WORKER, 0, is_master=False)
KEY = expectation_key("job-uid", "Worker", "pods")
CHOOSES = TFJobSpec(run_policy=RunPolicy(scheduling_policy=SchedulingPolicy(min_available=1)))


def owner(uid: str = "job-uid", kind: str = "TFJob", api_version: str = "kubeflow.org/v1") -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name="job", uid=uid, controller=True)


def pod(*, owners: tuple[OwnerReference, ...] = (owner(),), version: str = "1", **meta: Any) -> Pod:
    given = {"name": "job-worker-0", "namespace": "ns", "uid": "pod-uid", "labels": LABELS, **meta}
    return Pod(metadata=ObjectMeta(resource_version=version, owner_references=owners, **given))


class World:
    def __init__(self) -> None:
        self.keys: list[str] = []
        self.urgent: list[str] = []
        jobs: Indexer[TFJob] = Indexer()
        jobs.add(TFJob(metadata=ObjectMeta(name="job", namespace="ns", uid="job-uid")))
        self.expectations = Expectations()
        jobs_lister = Lister(jobs)
        self.handler = OwnedObjectHandler[Pod](
            "pods", jobs_lister, self.expectations, self.keys.append, self.urgent.append
        )


@pytest.fixture
def world() -> World:
    return World()


def test_a_new_pod_queues_its_job_and_meets_an_expectation_and_one_made_anew_across_a_gap_two(world: World) -> None:
    world.expectations.expect_creations(KEY, 1)
    world.handler.on_add(pod())
    assert world.keys == ["ns/job"]
    assert not world.expectations.outstanding(KEY.owner_uid)
    world.expectations.expect_deletions(KEY, ["pod-uid"])
    world.expectations.expect_creations(KEY, 1)
    world.handler.on_update(pod(), pod(uid="another", version="9"))
    assert not world.expectations.outstanding(KEY.owner_uid)


def test_a_pod_that_terminates_counts_as_deleted_and_its_deletion_meets_an_expectation_once(world: World) -> None:
    world.expectations.expect_deletions(KEY, ["pod-uid", "other", "seen first"])
    going = pod(version="2", deletion_timestamp="2026-01-01T00:00:00Z")
    world.handler.on_add(pod(uid="seen first", deletion_timestamp="2026-01-01T00:00:00Z"))
    world.handler.on_update(pod(), going)
    world.handler.on_delete(going)
    assert world.expectations.outstanding(KEY.owner_uid) == {KEY: frozenset({"other"})}
    assert world.keys == ["ns/job"] * 3


def test_a_pod_that_fails_is_urgent_once(world: World) -> None:
    running = replace(pod(), status=PodStatus(phase="Running"))
    failed = replace(pod(version="2"), status=PodStatus(phase="Failed"))
    world.handler.on_update(running, failed)
    assert (world.urgent, world.keys) == (["ns/job"], [])
    world.handler.on_update(failed, replace(failed, status=PodStatus(phase="Failed", reason="Evicted")))
    world.handler.on_update(pod(), replace(pod(version="2"), status=PodStatus(phase="Succeeded")))
    assert world.urgent == ["ns/job"]


def test_the_last_deletion_that_was_awaited_is_urgent_and_one_that_nobody_asked_for_is_not(world: World) -> None:
    world.expectations.expect_deletions(KEY, ["pod-uid", "other"])
    world.handler.on_delete(pod())
    assert (world.urgent, world.keys) == ([], ["ns/job"])
    world.handler.on_delete(pod(uid="other"))
    assert (world.urgent, world.keys) == (["ns/job"], ["ns/job"])
    world.handler.on_delete(pod(uid="unasked"))
    assert (world.urgent, world.keys) == (["ns/job"], ["ns/job"] * 2)


RUNS = PodStatus(phase="Running")


@pytest.mark.parametrize(
    ("new", "keys"),
    [(pod(), []), (pod(version="2"), []), (replace(pod(version="2"), status=RUNS), ["ns/job"])],
    ids=["a resync", "what nobody reads", "a phase"],
)
def test_a_change_queues_the_job_if_somebody_reads_it(world: World, new: Pod, keys: list[str]) -> None:
    world.handler.on_update(pod(), new)
    assert world.keys == keys


@pytest.mark.parametrize(
    ("meta", "keys"),
    [
        ({"owners": (owner(uid="another"),)}, []),
        ({"owners": (owner(kind="PyTorchJob"),)}, []),
        ({"owners": (owner(api_version="example.org/v1"),)}, []),
        ({"owners": ()}, ["ns/job"]),
        ({"owners": (), "labels": {}}, []),
        ({"owners": (), "labels": {names.LABEL_JOB_NAME: "job"}}, []),
    ],
)
def test_an_orphan_queues_the_job_that_may_adopt_it_and_what_belongs_to_others_nobody(
    world: World, meta: dict[str, Any], keys: list[str]
) -> None:
    world.handler.on_add(pod(**meta))
    assert world.keys == keys


def test_a_change_of_owner_queues_the_former_one_and_the_end_of_anothers_who_waits_for_its_name(world: World) -> None:
    theirs = pod(owners=(owner(uid="another"),), version="2")
    world.handler.on_update(pod(), theirs)
    assert world.keys == ["ns/job"]
    world.handler.on_delete(theirs)
    assert world.keys == ["ns/job"] * 2


def test_jobs_are_queued_when_new_or_changed_but_not_on_a_resync_and_only_a_change_of_status_can_wait() -> None:
    keys: list[str] = []
    gone: list[str] = []
    handler = JobHandler(keys.append, keys.append, lambda job: gone.append(job.metadata.uid), lambda _: False)
    first = TFJob(metadata=ObjectMeta(name="job", namespace="ns", uid="a", resource_version="1"))
    changed = replace(first, metadata=replace(first.metadata, resource_version="2"))
    successor = replace(first, metadata=replace(first.metadata, uid="b", resource_version="3"))
    handler.on_add(first)
    handler.on_update(first, first)
    handler.on_update(first, changed)
    assert (keys, gone) == (["ns/job"] * 2, [])
    handler.on_update(changed, successor)
    assert (keys, gone) == (["ns/job"] * 3, ["a"])
    handler.on_delete(successor)
    assert gone == ["a", "b"]
    now: list[str] = []
    soon: list[str] = []
    handler = JobHandler(now.append, soon.append, lambda _: None, lambda job: job.metadata.resource_version == "4")
    meta = ObjectMeta(name="job", namespace="ns", uid="a", resource_version="1", generation=1)
    first = TFJob(metadata=meta)
    handler.on_update(first, replace(first, metadata=replace(meta, resource_version="2")))
    handler.on_update(first, replace(first, metadata=replace(meta, resource_version="4")))
    assert (now, soon) == ([], ["ns/job"])
    handler.on_update(first, replace(first, metadata=replace(meta, resource_version="4", generation=2)))
    assert (now, soon) == (["ns/job"], ["ns/job"])


@pytest.mark.parametrize(
    ("spec", "conditions", "keys"),
    [
        (TFJobSpec(), (), []),
        (TFJobSpec(run_policy=RunPolicy(scheduling_policy=SchedulingPolicy(queue="q"))), (), []),
        (CHOOSES, (), ["ns/job"]),
        (CHOOSES, (JobCondition(type=ConditionType.SUCCEEDED, status="True"),), []),
        (TFJobSpec(elastic_policy=ElasticPolicy(min_replicas=1)), (), ["ns/job"]),
    ],
    ids=["all of its pods", "the same, with a queue", "some of its pods", "ended", "elastic"],
)
def test_a_change_of_priorities_queues_the_jobs_whose_smallest_gang_is_chosen_by_them(
    spec: TFJobSpec, conditions: tuple[JobCondition, ...], keys: list[str]
) -> None:
    jobs: Indexer[TFJob] = Indexer()
    meta = ObjectMeta(name="job", namespace="ns", uid="job-uid")
    jobs.add(TFJob(metadata=meta, spec=spec, status=TFJobStatus(conditions=conditions)))
    queued: list[str] = []
    handler = PriorityHandler(Lister(jobs), queued.append)
    urgent = Priority(metadata=ObjectMeta(name="urgent", resource_version="1"), value=7)
    handler.on_add(urgent)
    handler.on_update(urgent, replace(urgent, metadata=replace(urgent.metadata, resource_version="2")))
    assert queued == keys
    handler.on_update(urgent, replace(urgent, global_default=True))
    handler.on_update(urgent, replace(urgent, value=8))
    handler.on_delete(urgent)
    assert queued == keys * 4
