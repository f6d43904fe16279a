"""The Go operator's pod scenarios, replayed: what pods are told, how they restart, scaling, worker 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.cluster import Cluster, tfjob
from tests.support.eventually import eventually
from tests.support.operated import JobOnCluster, Operated
from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.controlplane


def task(kind: str, index: int = 0) -> dict[str, Any]:
    return {"type": kind, "index": index}


def test_tf_config_names_every_replica_and_ones_own_task(operated: Operated) -> None:
    job = operated.job("shapes", PS=1, Worker=2, Evaluator=1)
    job.wait_pods("ps-0", "worker-0", "worker-1", "evaluator-0")
    domain = f"{operated.cluster.namespace}.svc:2222"
    cluster = {
        "evaluator": [f"shapes-evaluator-0.{domain}"],
        "ps": [f"shapes-ps-0.{domain}"],
        "worker": [f"shapes-worker-0.{domain}", f"shapes-worker-1.{domain}"],
    }
    for replica in job.pods():
        kind, _, index = replica.partition("-")
        assert job.tf_config(replica) == {"cluster": cluster, "task": task(kind, int(index)), "environment": "cloud"}


@pytest.mark.parametrize(
    ("replicas", "distributed"),
    [
        ({"Worker": 1}, False),
        ({"Chief": 1}, False),
        ({"Worker": 1, "PS": 0}, False),
        ({"Worker": 1, "PS": 1}, True),
        ({"Master": 1, "Worker": 1}, True),
        ({"Worker": 2}, True),
    ],
)
def test_tf_config_is_only_set_where_there_is_somebody_to_find(
    operated: Operated, replicas: dict[str, int], distributed: bool
) -> None:
    job = operated.job("-".join(f"{k}{n}" for k, n in replicas.items()).lower(), **replicas)
    names = [f"{kind.lower()}-{i}" for kind, count in replicas.items() for i in range(count)]
    job.wait_pods(*names)
    assert [job.tf_config(name) is not None for name in names] == [distributed] * len(names)


def test_tf_config_goes_to_the_container_tensorflow_with_the_port_that_it_names(operated: Operated) -> None:
    manifest = tfjob("sidecar", Worker=2)
    [container] = manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    ports = [{"name": "http", "containerPort": 8080}, {"name": "tfjob-port", "containerPort": 5000}]
    sidecar = {"name": "sidecar", "image": "example.invalid/sidecar:1"}
    containers = [sidecar, {**container, "ports": ports, "env": [{"name": "MINE", "value": "1"}]}]
    manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"] = {"spec": {"containers": containers}}
    job = operated.submit(manifest)
    pods = job.wait_pods("worker-0", "worker-1")
    assert "env" not in pods["worker-0"]["spec"]["containers"][0]
    assert [variable["name"] for variable in job.container("worker-0")["env"]] == ["MINE", "TF_CONFIG"]
    config = job.tf_config("worker-1")
    assert config is not None
    assert config["cluster"]["worker"][0] == f"sidecar-worker-0.{operated.cluster.namespace}.svc:5000"
    ports = job.services()["worker-0"]["spec"]["ports"]
    assert {(port["name"], port["port"]) for port in ports} == {("tfjob-port", 5000), ("http", 8080)}


def test_tf_config_of_dynamic_workers_names_only_whom_they_need(operated: Operated) -> None:
    job = operated.job("sparse", spec={"enableDynamicWorker": True}, PS=2, Worker=2)
    job.wait_pods("ps-0", "ps-1", "worker-0", "worker-1")
    domain = f"{operated.cluster.namespace}.svc:2222"
    servers = [f"sparse-ps-0.{domain}", f"sparse-ps-1.{domain}"]
    assert job.tf_config("worker-1") == {
        "cluster": {"worker": {"1": f"sparse-worker-1.{domain}"}, "ps": servers},
        "task": task("worker", 1),
    }
    assert job.tf_config("ps-1") == {"cluster": {"worker": {}, "ps": servers[1:]}, "task": task("ps", 1)}


def test_the_cluster_domain_is_appended_and_the_evaluator_left_out_where_an_administrator_says_so(
    cluster: Cluster, start_operator: Callable[..., OperatorProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUSTOM_CLUSTER_DOMAIN", "tf.training.com")  # the Go operator's way to say it
    operator = start_operator("--evaluator-in-cluster=false")
    job = Operated(cluster, operator).job("domain", Worker=1, Evaluator=1)
    job.wait_pods("worker-0", "evaluator-0")
    members = {"worker": [f"domain-worker-0.{cluster.namespace}.svc.tf.training.com:2222"]}
    for kind in ("worker", "evaluator"):
        assert job.tf_config(f"{kind}-0") == {"cluster": members, "task": task(kind), "environment": "cloud"}


def test_650_a_job_says_for_itself_that_its_evaluator_is_no_part_of_the_cluster(operated: Operated) -> None:
    job = operated.job("apart", spec={"evaluatorInCluster": False}, Worker=1, Evaluator=1)
    job.wait_pods("worker-0", "evaluator-0")
    members = {"worker": [f"apart-worker-0.{operated.cluster.namespace}.svc:2222"]}
    for kind in ("worker", "evaluator"):
        assert job.tf_config(f"{kind}-0") == {"cluster": members, "task": task(kind), "environment": "cloud"}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("ExitCode", "Never"), ("Never", "Never"), ("Always", "Always"), ("OnFailure", "OnFailure")],
)
def test_the_replicas_restart_policy_becomes_the_pods(operated: Operated, policy: str, expected: str) -> None:
    job = operated.job(f"policy-{policy.lower()}", restart_policy=policy, Worker=1)
    assert job.wait_pods("worker-0")["worker-0"]["spec"]["restartPolicy"] == expected


def test_a_template_with_a_restart_policy_of_its_own_is_overruled_with_a_warning(operated: Operated) -> None:
    manifest = tfjob("overruled", restart_policy="ExitCode", Worker=1)
    worker = manifest["spec"]["tfReplicaSpecs"]["Worker"]
    worker["template"] = {"spec": {**worker["template"]["spec"], "restartPolicy": "Always"}}
    job = operated.submit(manifest)
    assert job.wait_pods("worker-0")["worker-0"]["spec"]["restartPolicy"] == "Never"
    job.wait_reasons("SetPodTemplateRestartPolicy")


@pytest.mark.parametrize("code", [130, 138])
def test_a_retryable_exit_code_deletes_the_pod_and_makes_it_anew(operated: Operated, code: int) -> None:
    job = operated.running(f"exit-{code}", restart_policy="ExitCode", Worker=2)
    first = job.pod_uid("worker-1")
    job.play("Failed", "worker-1", exit_code=code)
    restarting = job.wait("Restarting")
    assert restarting["reason"] == "TFJobRestarting"
    assert restarting["message"] == f"job exit-{code} is restarting because Worker replica(s) failed."
    job.wait_successor("worker-1", of=first)
    job.play("Running", "worker-1", leads_to="Running")
    assert "Restarting" not in job.conditions(), "Running and Restarting replace each other"
    assert job.restarts() == 1
    job.wait_reasons("ExitedWithCode", "TFJobRestarting", "SuccessfulDeletePod")


@pytest.mark.parametrize("code", [1, 2, 3])
def test_a_permanent_exit_code_fails_the_job(operated: Operated, code: int) -> None:
    job = operated.running(f"exit-{code}", restart_policy="ExitCode", Worker=2)
    job.play("Failed", "worker-1", exit_code=code)
    failed = job.wait("Failed")
    assert failed["message"].startswith(
        f"TFJob {operated.cluster.namespace}/exit-{code} has failed because 1 Worker replica(s) failed."
    )
    assert f"exited with code {code}" in failed["message"]
    assert set(job.wait_stopped("worker-0")) == {"worker-0", "worker-1"}


@pytest.mark.parametrize("policy", ["OnFailure", "Always"])
def test_under_on_failure_and_always_a_failed_pod_is_made_anew_whatever_its_code(
    operated: Operated, policy: str
) -> None:
    job = operated.running(f"again-{policy.lower()}", restart_policy=policy, Worker=1)
    job.fail("worker-0", exit_code=1)
    assert not job.cluster.has_condition(job.name, "Failed")


def test_under_never_any_failure_fails_the_job(operated: Operated) -> None:
    job = operated.running("never", Worker=2)
    job.play("Failed", "worker-1", exit_code=137, leads_to="Failed")


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_scaling_down_takes_the_highest_workers_away(operated: Operated, policy: str) -> None:
    job = operated.running(f"down-{policy.lower()}", restart_policy=policy, Worker=3)
    job.scale(Worker=2)
    job.wait_pods("worker-0", "worker-1")
    job.wait_services("worker-0", "worker-1")
    eventually(lambda: job.status()["ready"] == "2/2", every=0.05, what="two of two")
    assert (job.state(), job.restarts()) == ("Running", 0)


def test_scaling_up_adds_workers_and_leaves_the_others_alone(operated: Operated) -> None:
    job = operated.running("up", Worker=1)
    first = job.pod_uid("worker-0")
    job.scale(Worker=3)
    job.wait_pods("worker-0", "worker-1", "worker-2")
    job.wait_services("worker-0", "worker-1", "worker-2")
    assert job.pod_uid("worker-0") == first
    eventually(lambda: job.status()["ready"] == "1/3", every=0.05, what="one of three")


def test_only_worker_0_decides_unless_all_workers_must_succeed(operated: Operated) -> None:
    policies = {"first": "", "all": "AllWorkers"}
    jobs: dict[str, JobOnCluster] = {
        name: operated.running(f"decides-{name}", spec={"successPolicy": policy}, Worker=2)
        for name, policy in policies.items()
    }
    for job in jobs.values():
        job.play("Succeeded", "worker-1")
    operated.settle()
    assert {job.state() for job in jobs.values()} == {"Running"}
    for job in jobs.values():
        job.play("Succeeded", "worker-0", leads_to="Succeeded")

    job = operated.running("decides-late", spec={"successPolicy": "AllWorkers"}, Worker=2)
    job.play("Succeeded", "worker-0")
    operated.settle()
    assert job.state() == "Running"
