from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.unit.controller.builders import (
    ReadablePlan,
    make_job,
    make_pod,
    make_service,
    planned,
    services_of,
    terminated,
)
from tfoperator.api.v1.types import ConditionType, TFJob
from tfoperator.controller import PLAIN_NAMES, UNIQUE_NAMES
from tfoperator.controller.plan.observed import PlanOptions
from tfoperator.kube.objects import Service

UID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
PIECE = "1b4e28ba"
UNIQUE = PlanOptions(naming=UNIQUE_NAMES, restart_delay_base=0)
PEER = PlanOptions(naming=PLAIN_NAMES, restart_delay_base=0)


def job_of(replicas: dict[str, Any], **how: Any) -> TFJob:
    job = make_job(replicas, **how)
    return msgspec.structs.replace(job, metadata=msgspec.structs.replace(job.metadata, uid=UID))


def hosts(result: ReadablePlan) -> set[str]:
    """The hosts that the TF_CONFIG of the first new pod names."""
    env = result.creations("pods")[0].body["spec"]["containers"][0]["env"]
    config = json.loads(next(variable["value"] for variable in env if variable["name"] == "TF_CONFIG"))
    return {host.split(".")[0] for listed in config["cluster"].values() for host in listed}


def unique_services(job: TFJob) -> tuple[Service, ...]:
    return tuple(
        make_service(f"{key}-{index}", name=f"mnist-{key.lower()}-{index}-{PIECE}")
        for key, spec in job.spec.tf_replica_specs.items()
        if spec is not None
        for index in range(spec.replicas or 0)
    )


def test_pods_services_and_hosts_end_in_a_piece_of_the_uid() -> None:
    result = planned(job_of({"PS": 1, "Worker": 2}), services=(), options=UNIQUE)
    expected = {f"mnist-ps-0-{PIECE}", f"mnist-worker-0-{PIECE}", f"mnist-worker-1-{PIECE}"}
    assert {create.name for create in result.creations("pods")} == expected
    assert {create.name for create in result.creations("services")} == expected
    assert {create.body["metadata"]["name"] for create in result.creations("pods")} == expected
    assert hosts(result) == expected


@pytest.mark.parametrize(
    ("options", "services", "suffix"), [(UNIQUE, services_of, ""), (PEER, unique_services, f"-{PIECE}")]
)
def test_a_job_keeps_its_names_when_the_option_changes(options: PlanOptions, services: Any, suffix: str) -> None:
    job = job_of({"PS": 1, "Worker": 2})
    pods = (make_pod("PS-0", name=f"mnist-ps-0{suffix}"), make_pod("Worker-0", name=f"mnist-worker-0{suffix}"))
    result = planned(job, *pods, services=services(job), options=options)
    assert [create.name for create in result.creations("pods")] == [f"mnist-worker-1{suffix}"]
    assert hosts(result) == {f"mnist-{one}{suffix}" for one in ("ps-0", "worker-0", "worker-1")}


def test_pods_that_vanished_with_all_else_are_looked_up_under_both_names() -> None:
    job = job_of({"Worker": {"replicas": 1, "restartPolicy": "OnFailure"}})
    running = planned(job, make_pod("Worker-0"), options=PEER).status
    result = planned(msgspec.structs.replace(job, status=running), services=(), options=UNIQUE)
    assert result.absent == ("mnist-worker-0", f"mnist-worker-0-{PIECE}")
    assert planned(msgspec.structs.replace(job, status=running), options=UNIQUE).absent == ("mnist-worker-0",)


@pytest.mark.parametrize(
    ("length", "replicas", "fits"), [(45, 1, True), (46, 1, False), (44, 11, True), (45, 11, False)]
)
def test_the_piece_counts_for_the_length_of_names(length: int, replicas: int, fits: bool) -> None:
    name = "m" * length
    job = job_of({"Worker": replicas}, name=name)
    result = planned(job, services=(), options=UNIQUE)
    assert result.has_condition(ConditionType.FAILED) is not fits
    if not fits:
        message = result.condition(ConditionType.FAILED).message
        assert "metadata.name: is too long by 1 character" in message
        assert f"{name}-worker-{replicas - 1}-{PIECE}" in message
    assert bool(result.created_pods) == fits
    assert planned(job, services=(), options=PEER).creations("pods")


def test_a_long_name_that_runs_already_is_not_refused_when_the_option_is_turned_on() -> None:
    job = job_of({"Worker": 1}, name="m" * 50)
    pod = make_pod("Worker-0", "Failed", containers=(terminated(1),), job="m" * 50)
    result = planned(job, pod, services=(), options=UNIQUE)
    assert result.condition(ConditionType.FAILED).reason != "TFJobInvalid"
