from typing import Any

import msgspec
import pytest

from tests.support.plan_options import plan_options
from tests.unit.controller.builders import (
    NOW,
    TEMPLATE,
    job_service,
    make_job,
    make_pod,
    make_service,
    planned,
    with_status,
)
from tfoperator.api.v1.choices import Network, ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.pods.naming import PLAIN_NAMES, UNIQUE_NAMES, naming_in_use, network_in_use
from tfoperator.kube.views.objects import Pod, Service

UID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
PIECE = "1b4e28ba"
UNIQUE = plan_options(naming=UNIQUE_NAMES, restart_delay_base=0)
PEER = plan_options(naming=PLAIN_NAMES, restart_delay_base=0)


def job_of(replicas: dict[str, Any], **how: Any) -> TFJob:
    job = make_job(replicas, **how)
    return msgspec.structs.replace(job, metadata=msgspec.structs.replace(job.metadata, uid=UID))


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


# The network of a job: the network it was started with, and only then the network that its spec asks for.

PER_REPLICA, PER_JOB = Network.PER_REPLICA, Network.PER_JOB
STARTED = TFJobStatus(start_time=NOW)


def network(
    job: TFJob, *pods: Pod, services: tuple[Service, ...] = (), preferred: Network = PER_REPLICA, name: str = "mnist"
) -> Network:
    return network_in_use(job, pods, services, name, preferred)


def job_with(status: TFJobStatus | None = None, *, template: dict[str, Any] | None = None, **spec: Any) -> TFJob:
    pod_spec = {**TEMPLATE["spec"], **(template or {})}
    return make_job({"Worker": {"replicas": 2, "template": {"spec": pod_spec}}}, status=status, **spec)


@pytest.mark.parametrize("preferred", Network)
@pytest.mark.parametrize("declared", [None, "", *Network, "odd"])
def test_a_new_job_has_what_it_says_and_else_what_is_preferred(declared: str | None, preferred: Network) -> None:
    expected = Network(declared) if declared in set(Network) else preferred
    assert network(job_with(network=declared), preferred=preferred) is expected


@pytest.mark.parametrize("preferred", Network)
@pytest.mark.parametrize("declared", [None, *Network])
def test_a_job_started_by_an_operator_that_knew_one_network_keeps_that(
    declared: str | None, preferred: Network
) -> None:
    assert network(job_with(STARTED, network=declared), preferred=preferred) is PER_REPLICA


@pytest.mark.parametrize("status", [None, STARTED])  # a CRD of another version may drop what is recorded
@pytest.mark.parametrize("preferred", Network)
def test_before_it_is_recorded_the_objects_tell(preferred: Network, status: TFJobStatus | None) -> None:
    job = job_with(status)
    assert network(job, services=(job_service(),), preferred=preferred) is PER_JOB
    assert network(job, make_pod("Worker-0", subdomain="mnist"), preferred=preferred) is PER_JOB
    assert network(job, services=(make_service("Worker-1"),), preferred=preferred) is PER_REPLICA
    assert network(job, make_pod("Worker-0"), preferred=preferred) is PER_REPLICA
    assert network(job, make_pod("Worker-0", subdomain="other"), preferred=preferred) is PER_REPLICA


def test_what_stands_for_no_replica_tells_nothing() -> None:
    stray = make_pod("Worker-0", labels={})
    assert network(job_with(), stray, services=(job_service(name="mine"),), preferred=PER_JOB) is PER_JOB
    assert network(job_with(), stray, services=(job_service(name="mine"),)) is PER_REPLICA


@pytest.mark.parametrize("own", [{"hostname": "h"}, {"subdomain": "mnist"}])
def test_a_job_with_host_names_of_its_own_keeps_them_unless_it_says(own: dict[str, str]) -> None:
    assert network(job_with(template=own), preferred=PER_JOB) is PER_REPLICA
    assert network(job_with(template=own, network="PerJob")) is PER_JOB


def test_a_subdomain_of_the_template_is_no_sign() -> None:
    """Users who know headless services give their pods a subdomain of the job's name themselves."""
    job, pod = job_with(template={"subdomain": "mnist"}), make_pod("Worker-0", subdomain="mnist")
    assert network(job, pod) is PER_REPLICA
    assert network(with_status(job, STARTED), pod, preferred=PER_JOB) is PER_REPLICA


def test_the_service_of_the_job_shows_the_naming_where_nothing_else_does() -> None:
    job = job_with()
    unique = UNIQUE_NAMES.job(job)
    assert unique == "mnist-job-uid"
    assert naming_in_use(job, [job_service(name=unique)], PLAIN_NAMES) is UNIQUE_NAMES
    assert naming_in_use(job, [job_service()], UNIQUE_NAMES) is PLAIN_NAMES
    assert naming_in_use(job, [job_service(name="mine")], UNIQUE_NAMES) is UNIQUE_NAMES
    pod = make_pod("Worker-0", name=UNIQUE_NAMES.replica(job, ReplicaType.WORKER, 0))
    assert naming_in_use(job, [job_service(), pod], PLAIN_NAMES) is UNIQUE_NAMES, "a replica's name says more"
