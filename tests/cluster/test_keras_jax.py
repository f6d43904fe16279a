"""Keras 3 with the JAX backend on a real node: one process, two, one again, and each worker killed in each epoch."""

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.eventually import eventually
from tests.support.in_cluster import LIMIT, InCluster, examples, volume_for, with_packages
from tests.support.keras_jax import HELD, TRAIN, assert_trained_as_one_process, attempts, hold_of
from tfoperator.api.replicas.names import ANNOTATION_JOB_RESTARTS

FOLDER = str(Path(TRAIN).parent)

KILLS = [(epoch, worker) for epoch in (2, 3, 4) for worker in (1, 0)]
"""The epochs in which workers are killed, and the worker: each worker in each epoch of the job with two workers."""

LAST = KILLS[-1][0]


def job_of(example: dict[str, Any], name: str, workers: int, epochs: int) -> dict[str, Any]:
    """A job that trains up to this epoch, from the checkpoints of the jobs before."""
    worker = example["spec"]["tfReplicaSpecs"]["Worker"]
    [container] = worker["template"]["spec"]["containers"]
    changed = container | {"command": ["python", "-c", HELD, FOLDER, "--epochs", str(epochs)]}
    template = {"spec": worker["template"]["spec"] | {"containers": [changed]}}
    policy = example["spec"]["runPolicy"] | {"backoffLimit": len(KILLS)}
    replicas = {"Worker": worker | {"replicas": workers, "template": template}}
    return example | {
        "metadata": {"name": name},
        "spec": example["spec"] | {"runPolicy": policy, "tfReplicaSpecs": replicas},
    }


def log_in_epoch(namespace: InCluster, pod: str, restarts: int, epoch: int) -> str:
    """The log of the pod of a worker's present attempt when it trains this epoch; an empty string before that."""
    annotations, log = namespace.get("pod", pod)["metadata"].get("annotations", {}), namespace.kubectl("logs", pod)
    is_present = annotations.get(ANNOTATION_JOB_RESTARTS, "0") == str(restarts)
    return log if is_present and attempts(log) and f"Epoch {epoch}/" in log else ""


def process_of(pod: str) -> int:
    """The process of a pod's program."""
    found = psutil.process_iter(["environ", "cmdline"])
    in_pod = [one for one in found if (one.info["environ"] or {}).get("HOSTNAME") == pod]
    [process] = [one for one in in_pod if FOLDER in (one.info["cmdline"] or ())]
    return int(process.pid)


def kill_each(namespace: InCluster, checkpoints: Path) -> list[str]:
    """Kill the workers of the job `two`; return the logs of all attempts that ended so, by worker."""
    logs = ["", ""]
    for restarts, (epoch, victim) in enumerate(KILLS):
        for worker in range(2):
            found = partial(log_in_epoch, namespace, f"two-worker-{worker}", restarts, epoch)
            logs[worker] += eventually(found, within=LIMIT, every=0.3, what=f"worker {worker} trains epoch {epoch}")
        os.kill(process_of(f"two-worker-{victim}"), signal.SIGKILL)
        hold_of(checkpoints, epoch, victim).unlink()
    return logs


def logs_of(namespace: InCluster, job: str, workers: int) -> list[str]:
    """The logs of the workers of a job after its end."""
    namespace.wait(job, "Succeeded")
    return [namespace.kubectl("logs", f"{job}-worker-{worker}") for worker in range(workers)]


@pytest.mark.tensorflow
@pytest.mark.timeout(4 * LIMIT)
def test_keras_on_jax_trains_as_one_process_whatever_the_number_of_pods_and_whichever_is_killed(
    namespace: InCluster, tmp_path: Path
) -> None:
    claim, example = examples("keras-jax/tfjob.yaml")
    with_packages(example)
    namespace.apply(volume_for(claim, namespace.namespace, tmp_path), claim)
    checkpoints = tmp_path / "volume"
    for kill in KILLS:
        hold_of(checkpoints, *kill).touch()
    namespace.apply(job_of(example, "one", 1, 1))
    [first] = logs_of(namespace, "one", 1)
    namespace.apply(job_of(example, "two", 2, LAST))
    killed = kill_each(namespace, checkpoints)
    ended = logs_of(namespace, "two", 2)
    namespace.apply(job_of(example, "one-again", 1, LAST + 1))
    [again] = logs_of(namespace, "one-again", 1)
    starts = [1, *(epoch - 1 for epoch, _ in KILLS), LAST]
    for of_killed, of_ended in zip(killed, ended, strict=True):
        assert_trained_as_one_process(first + of_killed + of_ended + again, starts, range(1, LAST + 2))
    assert namespace.get("tfjob", "two")["status"]["jobRestarts"] == len(KILLS)
