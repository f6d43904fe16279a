"""TFJobs stored before the CRD had its rules: each gets its error message once, and then causes no more work."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hack.controlplane import ControlPlane
from tests.support.cli import Cli
from tests.support.cluster import Cluster, Json, decode, tfjob
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tests.support.operated import JobOnCluster, Operated
from tests.support.operator_process import OperatorProcess
from tfoperator.api.schema.crd import crd
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.errors import KubeError

pytestmark = pytest.mark.controlplane

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


MOST_RETRIES = 20
"""Of one job. Delays double from 5 ms, which makes 14 retries in 80 s."""


@contextmanager
def no_rules(cluster: Cluster) -> Iterator[None]:
    """A CRD that lets everything in, until the end of the context."""
    (version,) = crd()["spec"]["versions"]
    probe = {**tfjob("probe", Worker=1), "spec": {"tfReplicaSpecs": {}}}

    def lets_in() -> bool:
        try:
            cluster.client.create(TFJOBS, cluster.namespace, probe, decode, dry_run=True)
        except KubeError:
            return False
        return True

    # Without the scale subresource, as the Go operator's CRD: it, too, looks at what is let in.
    old = {**version, "schema": {"openAPIV3Schema": OPEN}, "subresources": {"status": {}}}
    cluster.replace_crd_version(old)
    eventually(lets_in, every=0.1, what="the rules are gone")
    try:
        yield
    finally:
        cluster.replace_crd_version(version)
        eventually(lambda: not lets_in(), every=0.1, what="the rules are back")


def with_worker(name: str, worker: Any) -> Json:
    return {**tfjob(name), "spec": {"tfReplicaSpecs": {"Worker": worker}}}


TEMPLATE = tfjob("x", Worker=1)["spec"]["tfReplicaSpecs"]["Worker"]["template"]


def with_container(name: str, **members: Any) -> Json:
    container = {**TEMPLATE["spec"]["containers"][0], **members}
    return with_worker(name, {"replicas": 1, "template": {"spec": {"containers": [container]}}})


ODD: dict[str, tuple[Json, str]] = {
    "nothing": ({**tfjob("nothing"), "spec": {}}, "spec.tfReplicaSpecs"),
    "null": (with_worker("null", None), "spec.tfReplicaSpecs"),
    "words": (with_worker("words", {"replicas": "two", "template": TEMPLATE}), "replicas"),
    "negative": (with_worker("negative", {"replicas": -1, "template": TEMPLATE}), "replicas"),
    "bare": (with_worker("bare", {"replicas": 1}), "template"),
    "listed": ({**tfjob("listed"), "spec": {"tfReplicaSpecs": [1]}}, "tfReplicaSpecs"),
    "stranger": (tfjob("stranger", Worker=1, Gpu=1), "Gpu"),
    "0-name": (tfjob("0-name", Worker=1), "metadata.name"),
    "policy": (tfjob("policy", Worker=1, run_policy={"backoffLimit": -1}), "backoffLimit"),
    "share": (tfjob("share", Worker=1, spec={"maxFailedWorkers": "many"}), "maxFailedWorkers"),
    "numbers": (with_container("numbers", args=[1, 2.5]), "args"),
    "text": (with_container("text", command="python train.py"), "command"),
    "half": (with_container("half", resources={"limits": {"nvidia.com/gpu": 0.5}}), "nvidia.com/gpu"),
    "fog": (with_worker("fog", {"replicas": "two"}), "replicas"),
}
"""By name: the job, and a word that its condition has to have. The status of `fog` makes no sense, and is replaced."""

NEVER_RECORDED = {"listed"}
"""Jobs of which the API server refuses even a status: the rules themselves can't be evaluated on them."""


def test_jobs_older_than_the_rules_are_told_what_is_wrong_once_and_are_left_in_peace(
    cluster: Cluster, start_operator: Callable[..., OperatorProcess]
) -> None:
    with no_rules(cluster):
        jobs = {name: JobOnCluster(cluster, cluster.submit(manifest)) for name, (manifest, _) in ODD.items()}
        status = {"status": {"conditions": "fine", "replicaStatuses": [], "startTime": "yesterday"}}
        cluster.client.patch(TFJOBS, cluster.namespace, "fog", status, decode, subresource="status")
    operated = Operated(cluster, start_operator())

    for name, (_, word) in ODD.items():
        if name in NEVER_RECORDED:
            jobs[name].wait_reasons("StatusRefused")
            continue
        failed = jobs[name].wait("Failed")
        assert failed["reason"] == "TFJobInvalid"
        assert word in failed["message"]
        jobs[name].wait_reasons("TFJobInvalid")
    operated.settle(first_statuses=False)

    before = {name: job.get()["metadata"]["resourceVersion"] for name, job in jobs.items()}
    operated.settle(first_statuses=False)
    assert {name: job.get()["metadata"]["resourceVersion"] for name, job in jobs.items()} == before
    for name, job in jobs.items():
        assert not job.pods()
        reason = "StatusRefused" if name in NEVER_RECORDED else "TFJobInvalid"
        events = [event for event in job.events() if event["reason"] == reason]
        assert sum(event.get("count", 1) for event in events) == 1, name
    retries = operated.operator.metrics()['workqueue_retries_total{controller="tfjobs",name="tfjobs"}']
    assert retries <= MOST_RETRIES * len(NEVER_RECORDED), "and even those are asked about less and less often"


def test_a_job_that_ran_before_the_rules_came_is_frozen_and_can_be_suspended(
    cluster: Cluster, start_operator: Callable[..., OperatorProcess]
) -> None:
    operator = start_operator()
    job = Operated(cluster, operator).running("frozen", Worker=1)
    operator.kill()
    with no_rules(cluster):
        job.patch_spec(successPolicy="Any")
    operated = Operated(cluster, start_operator())
    eventually(lambda: job.status()["phase"] == "Unknown", every=0.05, what="it is frozen")
    assert "spec.successPolicy" in job.conditions()["Running"]["message"]
    operated.settle(first_statuses=False)
    assert set(job.pods()) == {"worker-0"}

    job.suspend()
    job.wait("Suspended")
    job.wait_pods()
    job.patch_spec(successPolicy="", runPolicy={"suspend": False})
    job.wait_pods("worker-0")


def test_a_deadline_below_the_least_one_stays_as_it_is_stored_and_keeps_nothing_from_being_written(
    cluster: Cluster, start_operator: Callable[..., OperatorProcess]
) -> None:
    with no_rules(cluster):
        cluster.submit(tfjob("short", Worker=1, run_policy={"progressDeadlineSeconds": 1}))
    operated = Operated(cluster, start_operator())
    job = JobOnCluster(cluster, cluster.job("short"))
    job.wait_pods("worker-0")
    job.play("Running", "worker-0", leads_to="Running")
    eventually(lambda: job.status().get("ready") == "1/1", every=0.05, what="its status is written")
    job.suspend()
    job.wait("Suspended")
    operated.settle()
    assert job.get()["spec"]["runPolicy"]["progressDeadlineSeconds"] == 1
    with pytest.raises(KubeError, match="progressDeadlineSeconds"):
        job.patch_spec(runPolicy={"progressDeadlineSeconds": 2})


def test_a_job_that_runs_keeps_its_policies_of_early_v1_by_the_steps_of_migrate(
    plane: ControlPlane, cluster: Cluster, start_operator: Callable[..., OperatorProcess], tmp_path: Path
) -> None:
    kubectl = Kubectl(plane.kubeconfig, cluster.namespace)
    cli = Cli(tmp_path, KUBECONFIG=str(plane.kubeconfig))
    policies = {"cleanPodPolicy": "All", "backoffLimit": 3}
    operator = start_operator()
    with no_rules(cluster):
        job = Operated(cluster, operator).running("early", Worker=2, spec=policies)
        operator.kill()
        pods = {name: pod["metadata"]["uid"] for name, pod in job.pods().items()}
        output = cli.run("migrate", "--namespace", cluster.namespace, code=1).stdout
        assert f"early -n {cluster.namespace} -o yaml | tfoperator convert - > early.yaml" in output
        (tmp_path / "exported.yaml").write_text(kubectl("get", "tfjobs.v1.kubeflow.org", "early", "-o", "yaml"))
        (tmp_path / "early.yaml").write_text(cli.run("convert", "exported.yaml", code=0).stdout)
    assert not {"cleanPodPolicy", "backoffLimit"} & job.get()["spec"].keys(), "the new CRD hides them"
    kubectl("apply", "--server-side", "--force-conflicts", "-f", str(tmp_path / "early.yaml"))
    assert job.get()["spec"]["runPolicy"] == {"cleanPodPolicy": "All", "backoffLimit": 3, "suspend": False}

    Operated(cluster, start_operator()).settle(first_statuses=False)
    assert {name: pod["metadata"]["uid"] for name, pod in job.pods().items()} == pods
    job.play("Succeeded", "worker-0", leads_to="Succeeded")
    job.wait_pods()
