"""The parts of Kueue's objects that a cache keeps, and the effect on objects that are beyond its bounds."""

import json
from typing import Any

import msgspec
import pytest

from tests.support.fake_api import FakeApi
from tests.unit.controller.builders import NOW
from tests.unit.controller.kueue.test_decide import FLAVORS, Api, asked, queued
from tfoperator.api.kueue.queues import ADOPTED, POD_SETS_ANNOTATION, REPLACES_ANNOTATION
from tfoperator.api.kueue.workloads import WORKLOADS, Workload, decode_workload
from tfoperator.base.clock import SystemClock
from tfoperator.controller.kueue.cached import decode_flavor_for_cache, decode_workload_for_cache
from tfoperator.controller.kueue.decide import QueueFacts, decide
from tfoperator.controller.kueue.lag import WorkloadLag
from tfoperator.controller.kueue.left import key_of
from tfoperator.controller.kueue.objects import FLAVORS as FLAVOR_RESOURCE
from tfoperator.controller.kueue.objects import IN_USE, Flavor
from tfoperator.controller.kueue.requests import send
from tfoperator.controller.kueue.writes import MAX_FINALIZERS, unfinalized
from tfoperator.informers import Lister
from tfoperator.informers.store import Indexer

Json = dict[str, Any]
OWNER: Json = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "mnist", "uid": "u", "controller": True}
FOREIGN = OWNER | {"apiVersion": "batch/v1", "kind": "Job"}
FLOOD = [f"example.com/{number}" for number in range(300)]


def workload(owners: list[Json], mark: str = "", finalizers: list[str] | None = None, **more: Any) -> Json:
    metadata = {"name": "w", "namespace": "ns", "uid": "w-uid", "ownerReferences": owners}
    metadata |= {"annotations": {POD_SETS_ANNOTATION: mark, "a": "x"} if mark else {"a": "x"}}
    metadata |= {"finalizers": [IN_USE] if finalizers is None else finalizers, "resourceVersion": "7"}
    return {"metadata": metadata, **more}


def cached(stored: Json) -> Workload:
    return decode_workload_for_cache(json.dumps(stored).encode())


@pytest.mark.parametrize("mark", ["", ADOPTED, "0123456789abcdef"])
@pytest.mark.parametrize(
    "owners", [[], [OWNER], [FOREIGN], [OWNER | {"controller": False}], [FOREIGN | {"controller": False}, OWNER]]
)
def test_a_cache_says_of_the_same_workloads_that_they_concern_a_job(owners: list[Json], mark: str) -> None:
    stored = workload(owners, mark, spec={"queueName": "q"}, status={"clusterName": "c"})
    whole, kept = decode_workload(json.dumps(stored).encode()), cached(stored)
    assert key_of(kept) == key_of(whole)
    if whole.metadata.controller is not None:
        assert kept.metadata.controller == whole.metadata.controller
    if key_of(whole) or mark:
        assert (kept.spec, kept.status, kept.mark) == (whole.spec, whole.status, whole.mark)
        assert kept.metadata.finalizers == whole.metadata.finalizers
    else:
        assert (kept.spec, kept.status, kept.mark) == (Workload().spec, Workload().status, "")


def test_the_workload_that_another_replaces_is_kept_within_bounds() -> None:
    stored = workload([OWNER], "0123456789abcdef")
    stored["metadata"]["annotations"][REPLACES_ANNOTATION] = "ns/first"
    assert cached(stored).replaces == "ns/first"
    stored["metadata"]["annotations"][REPLACES_ANNOTATION] = "x" * 10_000
    assert len(cached(stored).replaces) == 317
    del stored["metadata"]["annotations"][POD_SETS_ANNOTATION]
    assert cached(stored).replaces == "", "nothing is kept of a Workload that the operator does not drive"


def test_the_decisions_about_an_honest_workload_are_those_by_the_whole_of_it() -> None:
    job = queued()
    api = asked(job)
    for admitted in (False, True):
        if admitted:
            api.admit()
        whole = api.workload
        kept = cached(api.stored or {})
        by = [decide(QueueFacts(job=job, workload=candidate, flavors=FLAVORS), NOW) for candidate in (whole, kept)]
        assert by[0].gate == by[1].gate
        assert by[0].writes == by[1].writes
        assert by[0].admitted == by[1].admitted


def test_finalizers_of_others_stay_however_many_a_cache_keeps() -> None:
    api = FakeApi()
    stored = workload([OWNER], "0123", [*FLOOD, IN_USE])
    api.put(WORKLOADS, stored)
    [live] = api.objects(WORKLOADS)
    kept = cached(live)
    assert len(kept.metadata.finalizers) == MAX_FINALIZERS + 1
    [write] = unfinalized(kept)
    assert send(api, "ns", write)
    [left] = api.objects(WORKLOADS)
    assert left["metadata"]["finalizers"] == FLOOD
    assert api.count("get", "workloads") == 0, "the operator has no right to get a Workload"
    few = cached(workload([OWNER], "0123", [*FLOOD[: MAX_FINALIZERS - 1], IN_USE]))
    [write] = unfinalized(few)
    assert not write.reads_finalizers, "an honest one costs no further request"
    assert write.body["metadata"]["finalizers"] == FLOOD[: MAX_FINALIZERS - 1]


def _with_status(api: Api, **changes: Any) -> Workload:
    stored = json.loads(json.dumps(api.stored))
    stored["status"] |= changes
    return cached(stored)


def test_an_admission_beyond_the_bounds_lets_no_pod_be_made() -> None:
    job = queued()
    api = asked(job)
    api.admit()
    flood = {f"r-{number}": "fast" for number in range(5_000)}
    assignments = [
        assignment | {"flavors": flood} for assignment in (api.stored or {})["status"]["admission"]["podSetAssignments"]
    ]
    admission = {"clusterQueue": "all", "podSetAssignments": assignments}
    kept = _with_status(api, admission=admission)
    decision = decide(QueueFacts(job=job, workload=kept, flavors=FLAVORS), NOW)
    assert decision.gate is not None
    assert not decision.gate.admitted
    assert "an admission with more than 16384 bytes" in decision.gate.message
    assert decision.admitted is None
    assert kept.is_true("QuotaReserved"), "it has its quota, and says so"


def test_places_of_a_thousand_pods_are_no_reason_to_refuse_an_admission() -> None:
    job = queued()
    api = asked(job)
    api.admit()
    places = {"levels": ["host"], "slices": [{"valuesPerLevel": [{"universal": f"node-{n}"}]} for n in range(3_000)]}
    assignments = (api.stored or {})["status"]["admission"]["podSetAssignments"]
    assignments = [assignment | {"topologyAssignment": places} for assignment in assignments]
    kept = _with_status(api, admission={"clusterQueue": "all", "podSetAssignments": assignments})
    decision = decide(QueueFacts(job=job, workload=kept, flavors=FLAVORS), NOW)
    assert decision.gate is not None
    assert decision.gate.admitted
    assert len(msgspec.json.encode(kept)) < 3_000


def test_long_messages_of_kueue_are_cut_and_everything_else_stays() -> None:
    api = asked(queued())
    api.admit()
    before = cached(api.stored or {})
    conditions = [condition | {"message": "m" * 32_000} for condition in (api.stored or {})["status"]["conditions"]]
    kept = _with_status(api, conditions=conditions)
    assert [condition.type for condition in kept.status.conditions] == [
        condition.type for condition in before.status.conditions
    ]
    assert {len(condition.message) for condition in kept.status.conditions} == {1024}
    assert (kept.spec, kept.status.admission) == (before.spec, before.status.admission)


def test_a_flavor_beyond_the_bounds_is_read_when_it_is_needed() -> None:
    api = FakeApi()
    labels = {f"example.com/{number}": "v" * 60 for number in range(300)}
    api.put(FLAVOR_RESOURCE, {"metadata": {"name": "large"}, "spec": {"nodeLabels": labels}})
    store: Indexer[Flavor] = Indexer({})
    [live] = api.objects(FLAVOR_RESOURCE)
    kept = decode_flavor_for_cache(json.dumps(live).encode())
    assert not kept.is_whole
    store.replace([kept])
    lag = WorkloadLag(api, Lister(), Lister(store), SystemClock())
    status = {"admission": {"podSetAssignments": [{"name": "worker", "flavors": {"cpu": "large"}}]}}
    flavors = lag.flavors([cached(workload([OWNER], "0123", status=status))])
    assert flavors["large"].spec.node_labels == labels
