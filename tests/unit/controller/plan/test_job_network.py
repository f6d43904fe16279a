"""`spec.network: PerJob`: one headless service for all replicas, and host names in it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.unit.controller.builders import (
    NOW,
    TEMPLATE,
    ReadablePlan,
    job_service,
    make_job,
    make_pod,
    plan_for,
    planned,
    with_status,
)
from tfoperator.api.v1.types import ConditionType, Network, TFJob
from tfoperator.controller import UNIQUE_NAMES, PlanOptions
from tfoperator.controller.plan.actions import DeleteReason, PhaseName
from tfoperator.controller.plan.observed import Observed, Unseen
from tfoperator.controller.pods.gang import gang_scheduler
from tfoperator.kube.objects import Pod

SHAPE = {"Chief": 1, "PS": 1, "Worker": 2}
REPLICAS = ["Chief-0", "PS-0", "Worker-0", "Worker-1"]
BY_DEFAULT = PlanOptions(network=Network.PER_JOB)
SERVICE = (job_service(),)


def per_job(replicas: dict[str, Any] | None = None, **spec: Any) -> TFJob:
    return make_job(SHAPE if replicas is None else replicas, network="PerJob", **spec)


def begun(job: TFJob) -> TFJob:
    """The job as it is after its first sync."""
    return with_status(job, planned(job, services=()).status)


def pods_of(*replicas: str, phase: str = "Running", **how: Any) -> list[Pod]:
    return [make_pod(replica, phase, subdomain="mnist", **how) for replica in replicas]


def specs(result: ReadablePlan) -> dict[str, dict[str, Any]]:
    return {create.name: create.body["spec"] for create in result.creations("pods")}


def cluster(pod_spec: dict[str, Any]) -> dict[str, list[str]]:
    config = next(one["value"] for one in pod_spec["containers"][0]["env"] if one["name"] == "TF_CONFIG")
    return dict(json.loads(config)["cluster"])


def test_a_new_job_gets_one_service_before_its_pods() -> None:
    result = planned(per_job(), services=())
    assert [phase.name for phase in result.phases] == [PhaseName.NETWORK, PhaseName.REPLICAS]
    assert result.created_pods == REPLICAS
    [service] = result.creations("services")
    assert service.body["metadata"]["name"] == "mnist"
    assert service.body["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {
            "training.kubeflow.org/operator-name": "tfjob-controller",
            "training.kubeflow.org/job-name": "mnist",
        },
        "ports": [{"name": "tfjob-port", "port": 2222, "targetPort": "tfjob-port"}],
    }
    [owner] = service.body["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == ("job-uid", True)
    for create in result.creations("pods"):
        assert service.body["spec"]["selector"].items() <= create.body["metadata"]["labels"].items()
        assert create.body["spec"]["hostname"] == create.name
        assert create.body["spec"]["subdomain"] == "mnist"
    assert result.status.network == "PerJob"


def test_the_cluster_names_hosts_in_the_service_with_the_ports_of_each_type() -> None:
    port = [{"name": "tfjob-port", "containerPort": 5000}]
    worker = {
        "replicas": 2,
        "template": {"spec": {"containers": [{**TEMPLATE["spec"]["containers"][0], "ports": port}]}},
    }
    job = per_job({"PS": 1, "Worker": worker}, clusterArguments=True)
    pods = specs(planned(job, services=(), options=PlanOptions(cluster_domain="cluster.local")))
    for pod_spec in pods.values():
        assert cluster(pod_spec) == {
            "ps": ["mnist-ps-0.mnist.ns.svc.cluster.local:2222"],
            "worker": [f"mnist-worker-{i}.mnist.ns.svc.cluster.local:5000" for i in (0, 1)],
        }
    assert "--ps_hosts=mnist-ps-0.mnist.ns.svc.cluster.local:2222" in pods["mnist-worker-0"]["containers"][0]["args"]
    short = specs(planned(job, services=()))["mnist-ps-0"]
    assert cluster(short)["ps"] == ["mnist-ps-0.mnist.ns.svc:2222"]


def test_unique_names_reach_the_service_the_hosts_and_the_cluster() -> None:
    result = planned(per_job({"Worker": 2}), services=(), options=PlanOptions(naming=UNIQUE_NAMES))
    assert [one.name for one in result.creations("services")] == ["mnist-job-uid"]
    pods = specs(result)
    assert pods["mnist-worker-1-job-uid"]["hostname"] == "mnist-worker-1-job-uid"
    assert pods["mnist-worker-1-job-uid"]["subdomain"] == "mnist-job-uid"
    assert cluster(pods["mnist-worker-1-job-uid"])["worker"][0] == "mnist-worker-0-job-uid.mnist-job-uid.ns.svc:2222"


@pytest.mark.parametrize("network", [None, "", "PerReplica"])
def test_nothing_of_it_is_to_be_seen_in_other_jobs(network: str | None) -> None:
    plain = planned(make_job(SHAPE), services=())
    result = planned(make_job(SHAPE, network=network), services=())
    assert result == plain
    assert b"subdomain" not in msgspec.json.encode(result.phases)
    assert b"network" not in msgspec.json.encode(result.status)
    assert len(plain.creations("services")) == 4


def test_a_service_that_was_deleted_is_made_again_and_alone() -> None:
    job = begun(per_job())
    result = planned(job, *pods_of(*REPLICAS), services=())
    assert [one.name for one in result.creations("services")] == ["mnist"]
    assert not result.creations("pods")
    going = planned(job, *pods_of(*REPLICAS), services=(job_service(deleted=NOW),))
    assert not going.creations("services"), "its name is taken until it is gone"


def test_suspension_takes_the_service_and_resumption_makes_it_again() -> None:
    job = begun(per_job())
    suspended = with_status(per_job(runPolicy={"suspend": True}), job.status)
    result = planned(suspended, *pods_of(*REPLICAS), services=SERVICE)
    assert len(result.deleted_pods) == 4
    assert [(one.name, one.reason) for one in result.deletions("services")] == [("mnist", DeleteReason.SUSPEND)]
    resumed = planned(with_status(job, result.status), services=())
    assert [one.name for one in resumed.creations("services")] == ["mnist"]
    assert len(resumed.created_pods) == 4


def test_a_job_that_is_suspended_before_its_first_status_keeps_what_its_objects_show() -> None:
    job = make_job(SHAPE, runPolicy={"suspend": True})
    assert planned(job, *pods_of("Worker-0"), services=SERVICE).status.network == "PerJob"
    assert planned(job, services=SERVICE).status.network == "PerJob"
    first = planned(job, make_pod("Worker-0"), services=(), options=BY_DEFAULT)
    assert first.status.network == ""
    assert first.write_status_first, "once they are deleted nothing else tells"
    resumed = planned(make_job(SHAPE, status=first.status), services=(), options=BY_DEFAULT)
    assert [one.name for one in resumed.creations("services")] == [f"mnist-{one.lower()}" for one in REPLICAS]
    assert resumed.status.network == ""


def test_a_suspended_job_whose_objects_come_to_the_cache_after_its_first_status_keeps_what_they_show() -> None:
    job = make_job(SHAPE, runPolicy={"suspend": True})
    cases = ((make_pod("Worker-0"), BY_DEFAULT, ""), (pods_of("Worker-0")[0], PlanOptions(), "PerJob"))
    for seen, options, expected in cases:
        blind = planned(job, services=(), options=options).status
        assert blind.start_time is None
        late = planned(with_status(job, blind), seen, services=(), options=options)
        assert late.write_status_first
        assert (late.status.network, late.status.start_time) == (expected, NOW)


@pytest.mark.parametrize("suspended", [False, True])
def test_a_job_keeps_what_it_was_started_with_when_the_default_changes(suspended: bool) -> None:
    here = planned(make_job(SHAPE), services=(), options=BY_DEFAULT).status
    there = planned(make_job(SHAPE), services=()).status
    if suspended:
        # All of its objects are gone.
        policy = {"suspend": True}
        here = planned(make_job(SHAPE, status=here, runPolicy=policy), services=(), options=PlanOptions()).status
        there = planned(make_job(SHAPE, status=there, runPolicy=policy), services=(), options=BY_DEFAULT).status
    assert "mnist" in [s.name for s in planned(make_job(SHAPE, status=here), services=()).creations("services")]
    result = planned(make_job(SHAPE, status=there), services=(), options=BY_DEFAULT)
    assert [s.name for s in result.creations("services")] == [f"mnist-{one.lower()}" for one in REPLICAS]


def test_what_an_older_crd_drops_is_not_written_again_and_again() -> None:
    job = begun(per_job())
    at_rest = planned(job, *pods_of(*REPLICAS), services=SERVICE).status
    dropped = msgspec.structs.replace(at_rest, network="")
    result = planned(make_job(SHAPE, status=dropped), *pods_of(*REPLICAS), services=SERVICE)
    assert not result.acts


@pytest.mark.parametrize(
    ("policy", "left", "service_goes"),
    [
        ("All", ["Worker-0"], True),
        ("Running", ["Worker-0"], False),  # a finished pod is left, and with it the service that it belongs to
        ("Running", [], True),
        ("None", ["Worker-0"], False),
        ("", ["Worker-0"], False),
    ],
)
def test_clean_up_deletes_the_service_with_the_last_pod(policy: str, left: list[str], service_goes: bool) -> None:
    job = begun(per_job({"Chief": 1, "Worker": 1}, runPolicy={"cleanPodPolicy": policy}))
    ended = planned(job, *pods_of("Chief-0", phase="Succeeded"), services=SERVICE).status
    assert ended.conditions[-1].type == ConditionType.SUCCEEDED
    pods = [*pods_of(*left, phase="Succeeded"), *pods_of("Chief-0", phase="Running")]
    result = planned(with_status(job, ended), *pods, services=SERVICE)
    assert bool(result.deletions("services")) is service_goes


def test_pods_wait_for_a_service_that_is_not_seen_yet() -> None:
    """Its creation may have failed while that of a TensorBoard's service is still to be seen."""
    seen = Observed(begun(per_job()), unseen=Unseen(awaited=frozenset({("", "services")})))
    assert not plan_for(seen).changes_objects
    there = Observed(seen.job, services=SERVICE, unseen=seen.unseen)
    assert plan_for(there).created_pods == REPLICAS


def test_a_gang_has_its_group_and_its_service_before_its_pods() -> None:
    result = planned(per_job(), services=(), options=PlanOptions(gang=gang_scheduler("mine")))
    names = [phase.name for phase in result.phases]
    assert names == [PhaseName.POD_GROUP, PhaseName.NETWORK, PhaseName.REPLICAS]
    assert result.phases[-1].needs == {PhaseName.POD_GROUP, PhaseName.NETWORK}


def test_it_says_whose_host_names_are_replaced() -> None:
    template = {"spec": {**TEMPLATE["spec"], "hostname": "mine", "subdomain": "theirs"}}
    result = planned(per_job({"Worker": {"template": template}}), services=())
    assert specs(result)["mnist-worker-0"]["hostname"] == "mnist-worker-0"
    [event] = [event for event in result.events if event.reason == "SetPodTemplateHostname"]
    assert "Worker" in event.message
    untouched = planned(make_job({"Worker": {"template": template}}), services=(), options=BY_DEFAULT)
    assert specs(untouched)["mnist-worker-0"]["hostname"] == "mine"
    assert not untouched.events


def test_the_longest_names_fit() -> None:
    """63 characters: a host name, a service and a pod may have so many."""
    name = "m" * 54
    result = planned(make_job({"Worker": 1}, name=name, network="PerJob"), services=())
    [pod] = result.creations("pods")
    assert len(pod.body["spec"]["hostname"]) == 63
    assert len(result.creations("services")[0].name) == 54
    unique = planned(
        make_job({"Worker": 1}, name="m" * 47, network="PerJob"), services=(), options=PlanOptions(naming=UNIQUE_NAMES)
    )
    assert "is too long" in unique.condition(ConditionType.FAILED).message
