"""Jobs that wait for a flavor are synced when the flavor changes, and not only at the next resync."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.controller_harness import Harness
from tests.support.eventually import eventually
from tfoperator.api.kueue.queues import JOB_UID_LABEL
from tfoperator.api.kueue.workloads import WORKLOADS, Admission, Assignment, Workload, WorkloadCondition, WorkloadStatus
from tfoperator.controller.kueue.flavor_events import FlavorHandler
from tfoperator.controller.kueue.objects import FLAVORS, Flavor, FlavorSpec
from tfoperator.informers import Lister
from tfoperator.informers.store import Indexer
from tfoperator.kube.views.objects import ObjectMeta, OwnerReference

OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "job", "uid": "u", "controller": True}


@pytest.mark.parametrize(
    ("flavors", "finished", "keys"),
    [(("fast",), "False", ["ns/job"]), (("slow",), "False", []), ((), "False", []), (("fast",), "True", [])],
    ids=["names the flavor", "names another flavor", "has no quota", "finished"],
)
def test_a_change_of_a_flavor_queues_the_jobs_that_were_admitted_with_it(
    flavors: tuple[str, ...], finished: str, keys: list[str]
) -> None:
    workloads: Indexer[Workload] = Indexer()
    owner = OwnerReference(api_version="kubeflow.org/v1", kind="TFJob", name="job", uid="u", controller=True)
    assignments = tuple(Assignment(name=kind, flavors={"cpu": name}) for name in flavors for kind in ("ps", "worker"))
    status = WorkloadStatus(
        conditions=(WorkloadCondition("Finished", finished),),
        admission=Admission("queue", assignments) if assignments else None,
    )
    for name in ("first", "second"):
        meta = ObjectMeta(name=name, namespace="ns", uid=name, owner_references=(owner,))
        workloads.add(Workload(metadata=meta, status=status))
    queued: list[str] = []
    handler = FlavorHandler(Lister(workloads), queued.append)
    fast = Flavor(metadata=ObjectMeta(name="fast", resource_version="1"), spec=FlavorSpec({"disk": "ssd"}))
    later = replace(fast.metadata, resource_version="2")
    handler.on_add(fast)
    assert queued == keys
    handler.on_update(fast, replace(fast, metadata=later))
    handler.on_update(fast, fast)
    assert queued == keys, "the spec is unchanged"
    handler.on_update(fast, replace(fast, metadata=later, spec=FlavorSpec({"disk": "hdd"})))
    handler.on_delete(fast)
    assert queued == keys * 3
    large = replace(fast, spec=FlavorSpec(), is_whole=False)
    handler.on_update(large, replace(large, metadata=later))
    assert queued == keys * 4, "the cache does not show what has changed"


def test_a_flavor_that_is_corrected_or_made_queues_its_job() -> None:
    def flavor(disk: str) -> dict[str, Any]:
        return {"metadata": {"name": "fast"}, "spec": {"nodeLabels": {"disk": disk}}}

    assignment = {"name": "worker", "flavors": {"cpu": "fast"}, "count": 1}
    admission = {"clusterQueue": "queue", "podSetAssignments": [assignment]}
    meta = {"name": "w", "namespace": "ns", "labels": {JOB_UID_LABEL: "u"}, "ownerReferences": [OWNER]}
    queued: list[str] = []
    with Harness(kueue=True) as harness:
        caches = harness.informers.kueue
        harness.api.put(WORKLOADS, {"metadata": meta, "status": {"admission": admission}})
        eventually(lambda: caches.workloads.lister.find("ns/w"), within=10)
        caches.queue_jobs(queued.append)
        eventually(lambda: queued == ["ns/job"], within=10)
        harness.api.put(FLAVORS, flavor("hdd"))
        eventually(lambda: queued == ["ns/job"] * 2, within=10)
        harness.api.edit(FLAVORS, "", "fast", flavor("ssd"))
        eventually(lambda: queued == ["ns/job"] * 3, within=10)
        harness.api.remove(FLAVORS, "", "fast")
        eventually(lambda: queued == ["ns/job"] * 4, within=10)
