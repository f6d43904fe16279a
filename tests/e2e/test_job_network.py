"""`spec.network: PerJob` on a real API server: objects and calls, and a default that changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from hack.controlplane import ControlPlane
from tests.e2e.conftest import COUNTED_USER
from tests.e2e.test_operator_cost import calls
from tests.support.cluster import Cluster, Json, tfjob
from tests.support.eventually import eventually
from tests.support.operated import JobOnCluster
from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.controlplane

Start = Callable[..., OperatorProcess]
PER_JOB = {"network": "PerJob"}


def subdomains(pods: dict[str, Json]) -> set[str]:
    return {pod["spec"].get("subdomain", "") for pod in pods.values()}


def hosts(job: JobOnCluster, replica: str) -> list[str]:
    config = job.tf_config(replica)
    assert config is not None
    return [host for listed in config["cluster"].values() for host in listed]


def test_a_wide_job_costs_a_call_for_each_pod_and_one_for_their_service(
    plane: ControlPlane, cluster: Cluster, start_operator: Start
) -> None:
    start_operator(kubeconfig=plane.kubeconfig_for(COUNTED_USER)).wait_leads_for_a_second()
    before = calls(plane, cluster.namespace)
    job = JobOnCluster(cluster, cluster.submit(tfjob("wide", spec=PER_JOB, PS=1, Worker=8)))
    cluster.run_pods(9)
    job.wait("Ready")
    service = cluster.services()["wide"]
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["clusterIP"] == "None"
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["tfjob-port"]
    assert {name: pod["spec"]["hostname"] for name, pod in cluster.pods().items()} == {n: n for n in cluster.pods()}
    assert subdomains(cluster.pods()) == {"wide"}
    domain = f"wide.{cluster.namespace}.svc:2222"
    assert hosts(job, "ps-0") == [f"wide-ps-0.{domain}", *(f"wide-worker-{index}.{domain}" for index in range(8))]

    job.scale(Worker=7)
    eventually(lambda: len(job.pods()) == 8, what="a worker less")
    job.suspend()
    eventually(lambda: not cluster.pods() and not cluster.services(), what="a suspended job has nothing")
    job.suspend(False)
    cluster.run_pods(8)
    assert subdomains(cluster.pods()) == {"wide"}
    wanted = {("create", "pods"): 9 + 8, ("create", "services"): 2, ("delete", "pods"): 9, ("delete", "services"): 1}

    def all_logged() -> Counter[tuple[str, str]]:
        """What was asked for, once the log has all of it: an answer is given before it is logged."""
        spent = calls(plane, cluster.namespace)
        spent.subtract(before)
        assert all(spent[call] >= count for call, count in wanted.items()), spent
        return spent

    spent = eventually(all_logged, every=0.1, what="the audit log is written")
    assert not {call: count for call, count in spent.items() if call[0] in ("get", "list") and count}
    assert {call: spent[call] for call in wanted} == wanted


def test_jobs_keep_what_they_were_started_with_when_the_default_changes(
    cluster: Cluster, start_operator: Start
) -> None:
    operator = start_operator("--default-network=PerJob")
    first = JobOnCluster(cluster, cluster.submit(tfjob("first", Worker=2)))
    cluster.run_pods(2)
    first.wait("Ready")
    assert first.status()["network"] == "PerJob"
    first.suspend()
    eventually(lambda: not cluster.pods() and not cluster.services(), what="nothing is left to tell")
    assert operator.stop() == 0

    operator = start_operator()
    second = JobOnCluster(cluster, cluster.submit(tfjob("second", Worker=2)))
    second.wait_pods("worker-0", "worker-1")
    second.wait_services("worker-0", "worker-1")
    first.suspend(False)
    first.wait_pods("worker-0", "worker-1")
    assert {name for name in cluster.services() if name.startswith("first")} == {"first"}
    assert subdomains(first.pods()) == {"first"}
    operator.kill()

    start_operator("--default-network=PerJob", "--unique-names")
    second.scale(Worker=3)
    first.scale(Worker=3)
    for job in (first, second):
        job.wait_pods("worker-0", "worker-1", "worker-2")
    assert (subdomains(first.pods()), subdomains(second.pods())) == ({"first"}, {""})
    assert hosts(first, "worker-2")[0] == f"first-worker-0.first.{cluster.namespace}.svc:2222"
    assert hosts(second, "worker-2")[0] == f"second-worker-0.{cluster.namespace}.svc:2222"
    second.wait_services("worker-0", "worker-1", "worker-2")
    assert "network" not in second.status()
    third = cluster.submit(tfjob("third", Worker=1))["metadata"]["uid"]
    eventually(lambda: f"third-{third[:8]}" in cluster.services(), what="a service with a unique name")
