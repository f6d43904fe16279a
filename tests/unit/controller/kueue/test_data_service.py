"""The data service of a job in a queue: one pod set for dispatcher and data workers, which get what was admitted."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.unit.controller.builders import make_job, plan_for, services_of
from tests.unit.controller.plan.objects.test_data_service import DISPATCHER, FIRST, member_pod
from tfoperator.api.kueue.workloads import Workload, decode_workload
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.kueue.decide import keeping_gate
from tfoperator.controller.kueue.objects import Flavor
from tfoperator.controller.kueue.pod_sets import PlacementError, admitted_job, placements, pod_sets, workload_body
from tfoperator.controller.kueue.reclaiming import _pod_set_of
from tfoperator.controller.plan.values.observed import Observed

CONTAINER = {
    "name": "tensorflow",
    "image": "train:1",
    "command": ["train"],
    "resources": {"limits": {"cpu": 4, "nvidia.com/gpu": 1}},
}


def job(**pod: Any) -> TFJob:
    template = {"spec": {"containers": [CONTAINER], **pod}}
    return make_job({"Worker": {"replicas": 2, "template": template}}, dataService={"workers": 3})


def admitted(of: TFJob, *, workers: str = "gpus", service: str = "cpus", count: int = 4) -> Workload:
    body = workload_body(of, pod_sets(of, ""))
    assignments = [
        {"name": "worker", "flavors": {"cpu": workers}, "count": 2},
        {"name": "data-service", "flavors": {"cpu": service}, "count": count},
    ]
    body["status"] = {"admission": {"clusterQueue": "all", "podSetAssignments": assignments}}
    return decode_workload(json.dumps(body).encode())


def flavors() -> dict[str, Flavor]:
    def flavor(name: str) -> Flavor:
        spec = {"metadata": {"name": name}, "spec": {"nodeLabels": {"kind": name}}}
        return msgspec.convert(spec, Flavor)

    return {name: flavor(name) for name in ("gpus", "cpus")}


def test_the_queue_counts_dispatcher_and_data_workers_without_the_replicas_devices() -> None:
    worker, service = pod_sets(job(), "")
    assert (worker["name"], worker["count"]) == ("worker", 2)
    assert (service["name"], service["count"]) == ("data-service", 4)
    (container,) = service["template"]["spec"]["containers"]
    assert container["resources"] == {"limits": {"cpu": 4}}


def test_each_pod_set_gets_its_own_flavor() -> None:
    given = job()
    copy = admitted_job(given, placements(admitted(given), flavors()), "")
    service = copy.spec.data_service
    assert service is not None
    spec = msgspec.json.decode(service.template)["spec"]
    assert spec["nodeSelector"] == {"kind": "cpus"}
    assert service.workers == 3
    assert "command" not in spec["containers"][0]
    worker = copy.spec.tf_replica_specs["Worker"]
    assert worker is not None
    assert msgspec.json.decode(worker.template)["spec"]["nodeSelector"] == {"kind": "gpus"}


def test_a_node_selector_of_the_replica_that_the_flavor_contradicts_is_named() -> None:
    given = job(nodeSelector={"kind": "gpus"})
    with pytest.raises(PlacementError, match="node selector kind would need both the value gpus and the value cpus"):
        admitted_job(given, placements(admitted(given), flavors()), "")


def test_the_pods_of_an_ended_job_keep_the_quota_of_their_own_pod_set() -> None:
    assert [_pod_set_of(member_pod(member)) for member in (DISPATCHER, FIRST)] == ["data-service", "data-service"]


def test_a_job_that_only_keeps_its_pods_gets_no_pod_of_its_data_service() -> None:
    queued = job()
    plan = plan_for(Observed(queued, services=services_of(queued), gate=keeping_gate(queued, None)))
    assert list(plan.creations("pods")) == []
