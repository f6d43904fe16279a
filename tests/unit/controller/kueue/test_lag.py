"""Quota that was given back counts before the cache shows it."""

from typing import Any

import msgspec
import pytest

from tests.support.clock import FakeClock
from tests.support.fake_api import FakeApi
from tests.unit.controller.builders import make_job
from tfoperator.api.kueue.workloads import Workload
from tfoperator.controller.kueue.lag import GivenBack, WorkloadLag
from tfoperator.controller.kueue.writes import NextStatus, Verb, Write
from tfoperator.informers import CONTROLLER_UID_INDEX, index_by_controller_uid
from tfoperator.informers.store import Indexer, Lister

OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "mnist", "uid": "job-uid", "controller": True}
JOB = make_job({"Worker": 3})


def workload(version: str, uid: str = "w") -> Workload:
    meta = {"name": "w", "uid": uid, "resourceVersion": version, "ownerReferences": [OWNER]}
    spec: dict[str, Any] = {"podSets": [{"name": "worker", "count": 3}]}
    return msgspec.convert({"metadata": meta, "spec": spec}, Workload)


def gives_back(lag: WorkloadLag, stored: Workload, count: int) -> GivenBack | None:
    status = NextStatus(stored, FakeClock().now())
    status.reclaim({"worker": count}, reserved=True)
    (write,) = status.writes()
    return lag.note_given_back(JOB, write)


@pytest.mark.parametrize(
    ("shown", "counts"),
    [
        (workload("7"), True),
        (workload("6"), True),
        (workload("8"), False),
        (workload("10"), False),
        (workload("7", uid="another"), False),
        (workload("opaque"), False),
    ],
    ids=["the same version", "older", "newer", "much newer", "another Workload", "not comparable"],
)
def test_it_counts_from_before_the_write_until_the_cache_shows_a_later_version(shown: Workload, counts: bool) -> None:
    lag = WorkloadLag(FakeApi(), Lister(Indexer()), Lister(Indexer()), FakeClock())
    gives_back(lag, workload("7"), 2)
    assert lag.given_back(shown) == ({"worker": 2} if counts else {})
    if not counts:
        assert lag.given_back(workload("7")) == {}, "it is forgotten"


def test_a_later_write_to_the_same_version_does_not_take_back_what_may_have_been_written() -> None:
    lag = WorkloadLag(FakeApi(), Lister(Indexer()), Lister(Indexer()), FakeClock())
    gives_back(lag, workload("7"), 2)
    gives_back(lag, workload("7"), 1)
    assert lag.given_back(workload("7")) == {"worker": 2}
    lag.forget("job-uid")
    assert lag.given_back(workload("7")) == {}


def test_a_write_that_was_refused_gave_nothing_back() -> None:
    lag = WorkloadLag(FakeApi(), Lister(Indexer()), Lister(Indexer()), FakeClock())
    lag.refused(JOB, gives_back(lag, workload("7"), 1))
    assert lag.given_back(workload("7")) == {}
    gives_back(lag, workload("7"), 1)
    lag.refused(JOB, gives_back(lag, workload("7"), 2))
    assert lag.given_back(workload("7")) == {"worker": 1}


def owned(name: str, uid: str, **meta: Any) -> Workload:
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "ns", "uid": uid, "ownerReferences": [OWNER], **meta}}, Workload
    )


def test_of_two_workloads_that_this_process_has_deleted_neither_is_shown_and_a_new_one_is_awaited_by_its_name() -> None:
    first, second = owned("first", "1"), owned("second", "2")
    cache: Indexer[Workload] = Indexer(indexers={CONTROLLER_UID_INDEX: index_by_controller_uid})
    for owned_workload in (first, second):
        cache.add(owned_workload)
    lag = WorkloadLag(FakeApi(), Lister(cache), Lister(Indexer()), FakeClock())
    assert lag.shown(JOB) == [first, second]
    lag.written(JOB, Write(Verb.CREATE, "third"))
    assert lag.is_asked_for(JOB)
    for owned_workload in (first, second):
        lag.written(JOB, Write(Verb.DELETE, owned_workload.metadata.name, uid=owned_workload.metadata.uid))
    assert lag.shown(JOB) == []
    assert lag.is_asked_for(JOB), "the cache does not show the third yet"
    third = owned("third", "3")
    cache.add(third)
    assert lag.shown(JOB) == [third]
    assert not lag.is_asked_for(JOB)
