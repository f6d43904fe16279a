"""`spec.network: PerJob`: one headless service for all replicas, and host names in it."""

from typing import Any

import msgspec
import pytest

from tests.support.plan_options import plan_options
from tests.unit.controller.builders import (
    TEMPLATE,
    ReadablePlan,
    job_service,
    make_job,
    make_pod,
    plan_for,
    planned,
    with_status,
)
from tfoperator.api.v1.choices import Network
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.values.actions import PhaseName
from tfoperator.controller.plan.values.observed import Observed, Unseen
from tfoperator.controller.pods.gang import gang_scheduler
from tfoperator.kube.views.objects import Pod

SHAPE = {"Chief": 1, "PS": 1, "Worker": 2}
REPLICAS = ["Chief-0", "PS-0", "Worker-0", "Worker-1"]
BY_DEFAULT = plan_options(network=Network.PER_JOB)
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
    """Its creation may have failed while the creation of a TensorBoard's service is still to be seen."""
    observed = Observed(begun(per_job()), unseen=Unseen(awaited=frozenset({("", "services")})))
    assert not plan_for(observed).changes_objects
    there = Observed(observed.job, services=SERVICE, unseen=observed.unseen)
    assert plan_for(there).created_pods == REPLICAS


def test_a_gang_has_its_group_and_its_service_before_its_pods() -> None:
    result = planned(per_job(), services=(), options=plan_options(gang=gang_scheduler("mine")))
    names = [phase.name for phase in result.phases]
    assert names == [PhaseName.POD_GROUP, PhaseName.NETWORK, PhaseName.REPLICAS]
    assert result.phases[-1].needs == {PhaseName.POD_GROUP, PhaseName.NETWORK}


def test_the_first_pods_of_a_type_warn_of_a_tf_config_that_is_overwritten() -> None:
    [container] = TEMPLATE["spec"]["containers"]
    template = {"spec": {"containers": [{**container, "env": [{"name": "TF_CONFIG", "value": "mine"}]}]}}
    job = make_job({"Worker": {"replicas": 2, "template": template}})
    result = planned(job, services=(), options=BY_DEFAULT)
    [event] = [event for event in result.events if event.reason == "SetPodTemplateTFConfig"]
    assert "pod template of Worker" in event.message
    ran = with_status(job, planned(job, *pods_of("Worker-0", "Worker-1"), options=BY_DEFAULT).status)
    again = planned(ran, options=BY_DEFAULT)
    assert again.created_pods == ["Worker-0", "Worker-1"]
    assert not [event for event in again.events if event.reason == "SetPodTemplateTFConfig"]
    alone = planned(make_job({"Worker": {"template": template}}), services=(), options=BY_DEFAULT)
    assert specs(alone)["mnist-worker-0"]["containers"][0]["env"] == [{"name": "TF_CONFIG", "value": "mine"}]
    assert not alone.events


def test_it_says_whose_host_names_are_replaced() -> None:
    template = {"spec": {**TEMPLATE["spec"], "hostname": "mine", "subdomain": "theirs"}}
    result = planned(per_job({"Worker": {"template": template}}), services=())
    assert specs(result)["mnist-worker-0"]["hostname"] == "mnist-worker-0"
    [event] = [event for event in result.events if event.reason == "SetPodTemplateHostname"]
    assert "Worker" in event.message
    untouched = planned(make_job({"Worker": {"template": template}}), services=(), options=BY_DEFAULT)
    assert specs(untouched)["mnist-worker-0"]["hostname"] == "mine"
    assert not untouched.events
