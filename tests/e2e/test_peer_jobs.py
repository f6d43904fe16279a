"""The Go operator's scenarios, replayed, as far as an API server has a part in them: the others are in unit tests.

What is said of jobs, whose pods and services are whose, and how a job that was suspended goes on.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.cluster import Cluster, decode
from tests.support.eventually import eventually
from tests.support.manifests import pod
from tests.support.operated import Operated
from tests.support.operator_process import OperatorProcess
from tfoperator.api.names import LABEL_JOB_NAME, LABEL_OPERATOR_NAME, replica_labels
from tfoperator.api.v1.types import ReplicaType
from tfoperator.kube.resources import PODS, SERVICES

pytestmark = pytest.mark.controlplane


def test_what_is_said_of_a_job_is_said_in_the_go_operators_words(operated: Operated) -> None:
    job = operated.running("words", Worker=2)
    where = f"{operated.cluster.namespace}/words"
    job.play("Succeeded", "worker-0", leads_to="Succeeded")
    conditions = job.status()["conditions"]
    said = {c["type"]: (c["status"], c["reason"]) for c in conditions}
    assert said["Created"] == ("True", "TFJobCreated")
    assert said["Running"] == ("False", "TFJobSucceeded")
    assert said["Succeeded"] == ("True", "TFJobSucceeded")
    assert conditions[-1]["message"] == f"TFJob {where} successfully completed."
    assert job.conditions()["Created"]["message"] == "TFJob words is created."
    assert job.status()["completionTime"] >= job.status()["startTime"]
    job.wait_reasons("SuccessfulCreatePod", "TFJobSucceeded")
    assert {event["source"]["component"] for event in job.events()} == {"tfjob-controller"}


def test_the_cluster_domain_is_appended_and_the_evaluator_left_out_where_an_administrator_says_so(
    cluster: Cluster, start_operator: Callable[..., OperatorProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUSTOM_CLUSTER_DOMAIN", "tf.training.com")  # the Go operator's way to say it
    operator = start_operator("--evaluator-in-cluster=false")
    job = Operated(cluster, operator).job("domain", Worker=1, Evaluator=1)
    job.wait_pods("worker-0", "evaluator-0")
    members = {"worker": [f"domain-worker-0.{cluster.namespace}.svc.tf.training.com:2222"]}
    for kind in ("worker", "evaluator"):
        task = {"type": kind, "index": 0}
        assert job.tf_config(f"{kind}-0") == {"cluster": members, "task": task, "environment": "cloud"}


def test_orphans_with_the_jobs_labels_are_adopted(operated: Operated) -> None:
    name, labels = "adopts-worker-0", replica_labels("adopts", ReplicaType.WORKER, 0, is_master=True)
    spec = {"clusterIP": "None", "selector": labels, "ports": [{"name": "tfjob-port", "port": 2222}]}
    bodies = {PODS: pod(name, labels), SERVICES: {"metadata": {"name": name, "labels": labels}, "spec": spec}}
    client, namespace = operated.cluster.client, operated.cluster.namespace
    made = {kind: client.create(kind, namespace, body, decode)["metadata"]["uid"] for kind, body in bodies.items()}
    job = operated.job("adopts", Worker=2)
    job.wait_pods("worker-0", "worker-1")
    job.wait_services("worker-0", "worker-1")
    assert job.pod_uid("worker-0") == made[PODS]
    assert job.services()["worker-0"]["metadata"]["uid"] == made[SERVICES]


@pytest.mark.parametrize("label", [LABEL_JOB_NAME, LABEL_OPERATOR_NAME])
def test_a_pod_whose_labels_are_taken_off_is_released_and_replaced_once_it_is_out_of_the_way(
    operated: Operated, label: str
) -> None:
    job = operated.running(f"releases-{label.rpartition('/')[2]}", restart_policy="ExitCode", Worker=2)
    freed, pod = job.pod_uid("worker-1"), job.pod_name("worker-1")
    change = {"metadata": {"labels": {label: None}}}
    operated.cluster.client.patch(PODS, operated.cluster.namespace, pod, change, decode)
    eventually(
        lambda: not operated.cluster.pods()[pod]["metadata"].get("ownerReferences"), every=0.05, what="it is released"
    )
    job.wait_reasons("FailedCreatePod")
    assert not job.cluster.has_condition(job.name, "Failed")
    operated.cluster.delete_pod(pod)
    job.wait_successor("worker-1", of=freed)


def test_a_job_that_is_suspended_and_resumed_while_there_is_no_operator_goes_on_where_it_was(
    operated: Operated,
) -> None:
    policies = {"successPolicy": "AllWorkers", "maxFailedWorkers": 1}
    job = operated.running("asleep-alone", spec=policies, restart_policy="ExitCode", Worker=4)
    job.fail("worker-2", exit_code=137)
    job.play("Succeeded", "worker-1")
    job.play("Failed", "worker-3", exit_code=1)
    kept = {"completedIndexes": "1", "failedIndexes": "3", "restarts": 1}

    def remembers() -> bool:
        worker = job.status()["replicaStatuses"]["Worker"]
        assert {name: worker.get(name) for name in kept} == kept
        return True

    eventually(remembers, every=0.05, what="what has ended is recorded")
    operated.restart_operator(meanwhile=job.suspend)
    job.wait("Suspended")
    job.wait_pods()
    assert remembers()
    operated.restart_operator(meanwhile=lambda: job.suspend(False))
    job.wait_pods("worker-0", "worker-2")
    job.play("Succeeded", "worker-0", "worker-2", leads_to="Succeeded")
