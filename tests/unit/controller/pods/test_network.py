"""Which network a job has: what it was started with, and only then what is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.controller.builders import NOW, TEMPLATE, job_service, make_job, make_pod, make_service, with_status
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import Network, ReplicaType, TFJob
from tfoperator.controller.pods.naming import PLAIN_NAMES, UNIQUE_NAMES, naming_in_use, network_in_use
from tfoperator.kube.objects import Pod, Service

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
@pytest.mark.parametrize("said", [None, "", *Network, "odd"])
def test_a_new_job_has_what_it_says_and_else_what_is_preferred(said: str | None, preferred: Network) -> None:
    expected = Network(said) if said in set(Network) else preferred
    assert network(job_with(network=said), preferred=preferred) is expected


@pytest.mark.parametrize("preferred", Network)
@pytest.mark.parametrize("said", [None, *Network])
def test_a_job_started_by_an_operator_that_knew_one_network_keeps_that(said: str | None, preferred: Network) -> None:
    assert network(job_with(STARTED, network=said), preferred=preferred) is PER_REPLICA


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
    """Users who know headless services give their pods one of the job's name themselves."""
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
