"""`TrainingClient` of kubeflow-training, unchanged: `python training_client.py NAMESPACE`, with KUBECONFIG set.

First the walk of its own documentation (a function becomes a job, is waited for, its logs are read, it is deleted),
then every other method that a TFJob can be given to. A step that fails raises.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from kubeflow.training import (
    KubeflowOrgV1ReplicaSpec,
    KubeflowOrgV1RunPolicy,
    KubeflowOrgV1TFJob,
    KubeflowOrgV1TFJobSpec,
    TrainingClient,
    constants,
)
from kubernetes import client as kube

NAMESPACE = sys.argv[1]


def training_function(parameters: dict) -> None:
    """The workers' program. They meet first: the end of worker 0 ends the job, and workers that have not begun."""
    import json
    import os
    import pathlib
    import time

    cluster = json.loads(os.environ["TF_CONFIG"])
    begun = [pathlib.Path(parameters["meet"], str(index)) for index in range(len(cluster["cluster"]["worker"]))]
    begun[cluster["task"]["index"]].touch()
    while not all(path.exists() for path in begun):
        time.sleep(0.05)
    for epoch in range(parameters["epochs"]):
        print(f"{cluster['task']['type']}-{cluster['task']['index']} epoch {epoch}", flush=True)


def documented_walk(client: TrainingClient) -> None:
    """https://www.kubeflow.org/docs/components/trainer/legacy-v1/getting-started/, for a TFJob."""
    client.create_job(
        name="walk",
        job_kind=constants.TFJOB_KIND,
        train_func=training_function,
        parameters={"epochs": 2, "meet": tempfile.mkdtemp(dir=os.getcwd())},
        num_workers=2,
        env_vars={"GREETING": "hello"},
    )
    job = client.wait_for_job_conditions("walk", polling_interval=1, wait_timeout=90)
    assert client.is_job_succeeded(job=job)
    logs, events = client.get_job_logs("walk", is_master=False, verbose=True)
    assert logs["walk-worker-0"].split() == ["worker-0", "epoch", "0", "worker-0", "epoch", "1"]
    deadline = time.monotonic() + 60
    while "tfjob/walk" not in events:  # events are written after what they are about
        assert time.monotonic() < deadline, events
        time.sleep(0.1)
        _, events = client.get_job_logs("walk", is_master=False, verbose=True)
    assert sorted(client.get_job_pod_names("walk")) == ["walk-worker-0", "walk-worker-1"]
    client.delete_job("walk")


def job_of_models(name: str, script: str, **policy: Any) -> KubeflowOrgV1TFJob:
    """A job as its users write one by hand."""
    container = kube.V1Container(name="tensorflow", image="example.invalid/x:1", command=["sh", "-c", script])
    template = kube.V1PodTemplateSpec(spec=kube.V1PodSpec(containers=[container]))
    replicas = KubeflowOrgV1ReplicaSpec(replicas=1, restart_policy="Never", template=template)
    return KubeflowOrgV1TFJob(
        api_version="kubeflow.org/v1",
        kind="TFJob",
        metadata=kube.V1ObjectMeta(name=name, namespace=NAMESPACE),
        spec=KubeflowOrgV1TFJobSpec(
            run_policy=KubeflowOrgV1RunPolicy(clean_pod_policy="None", **policy),
            tf_replica_specs={"Chief": replicas, "Worker": replicas},
        ),
    )


def every_method(client: TrainingClient) -> None:
    """A job of models: get, list, conditions, pods by replica, logs that are followed, update, failure."""
    client.create_job(job_of_models("models", "echo first; sleep 1; echo last"), namespace=NAMESPACE)
    client.wait_for_job_conditions("models", expected_conditions={"Running", "Succeeded"}, polling_interval=1)
    job = client.get_job("models")
    assert isinstance(job, KubeflowOrgV1TFJob)
    assert [listed.metadata.name for listed in client.list_jobs()] == ["models"]
    assert client.is_job_created("models")
    assert not client.is_job_restarting("models")
    assert not client.is_job_failed("models")
    assert isinstance(client.is_job_running("models"), bool)
    assert {condition.type for condition in client.get_job_conditions("models")} >= {"Created"}
    assert [pod.metadata.name for pod in client.get_job_pods("models", is_master=True)] == ["models-chief-0"]
    assert client.get_job_pod_names("models", replica_type="worker", replica_index=0) == ["models-worker-0"]
    logs, _ = client.get_job_logs("models", follow=True)
    assert "first" in logs["models-chief-0"]
    assert "last" in logs["models-chief-0"]
    client.wait_for_job_conditions("models", polling_interval=1, wait_timeout=60)
    client.update_job({"metadata": {"labels": {"tier": "one"}}}, "models")
    assert client.get_job("models").metadata.labels["tier"] == "one"
    client.delete_job("models", delete_options=kube.V1DeleteOptions(propagation_policy="Background"))


def failures(client: TrainingClient) -> None:
    """Check that failures are reported in the client's own words."""
    client.create_job(job_of_models("fails", "exit 3"), namespace=NAMESPACE)
    message = refused(lambda: client.wait_for_job_conditions("fails", polling_interval=1, wait_timeout=60))
    assert "Failed" in message
    assert client.is_job_failed("fails")
    for call in (client.get_job, client.delete_job):
        assert "nobody" in refused(call, "nobody")
    client.delete_job("fails")


def refused(call: Callable[..., object], *arguments: str) -> str:
    """Return the client's error message."""
    try:
        call(*arguments)
    except RuntimeError as error:
        return str(error)
    raise AssertionError(f"{call} was not refused")


if __name__ == "__main__":
    trainer = TrainingClient(namespace=NAMESPACE, job_kind=constants.TFJOB_KIND)
    for step in (documented_walk, every_method, failures):
        step(trainer)
        print(step.__name__, flush=True)
