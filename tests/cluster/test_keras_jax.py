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

NAME = "keras-jax"
FOLDER = str(Path(TRAIN).parent)

KILLS = [(epoch, worker) for epoch in (2, 3) for worker in (1, 0)]
"""The epochs in which workers are killed, and the worker: each worker in each epoch of the job with two workers."""

LAST = KILLS[-1][0]


def train(namespace: InCluster, example: dict[str, Any], workers: int, epochs: int) -> None:
    """Start a job that trains up to this epoch. It goes on after the checkpoints of earlier jobs of this name."""
    worker = example["spec"]["tfReplicaSpecs"]["Worker"]
    [container] = worker["template"]["spec"]["containers"]
    command = ["python", "-c", HELD, FOLDER, "--epochs", str(epochs)]
    # The image's user has no home, so each start would make a cache of fonts.
    cache = [{"name": "MPLCONFIGDIR", "value": f"{example['spec']['checkpoint']['mountPath']}/matplotlib"}]
    template = {"spec": worker["template"]["spec"] | {"containers": [container | {"command": command, "env": cache}]}}
    policy = example["spec"]["runPolicy"] | {"backoffLimit": len(KILLS)}
    replicas = {"Worker": worker | {"replicas": workers, "template": template}}
    namespace.apply(example | {"spec": example["spec"] | {"runPolicy": policy, "tfReplicaSpecs": replicas}})


def log_in_epoch(namespace: InCluster, pod: str, restarts: int, epoch: int) -> str:
    """The log of the pod of a worker's present attempt when it trains this epoch; an empty string before that."""
    annotations, log = namespace.get("pod", pod)["metadata"].get("annotations", {}), namespace.kubectl("logs", pod)
    is_present = annotations.get(ANNOTATION_JOB_RESTARTS, "0") == str(restarts)
    return log if is_present and attempts(log) and f"Epoch {epoch}/" in log else ""


def process_of(pod: str) -> int:
    """The process of a pod's program."""
    processes = psutil.process_iter(["environ", "cmdline"])
    in_pod = [process for process in processes if (process.info["environ"] or {}).get("HOSTNAME") == pod]
    [process] = [process for process in in_pod if FOLDER in (process.info["cmdline"] or ())]
    return int(process.pid)


def kill_each(namespace: InCluster, checkpoints: Path) -> list[str]:
    """Kill the workers of the job; return the logs of all attempts that ended so, by worker."""
    logs = ["", ""]
    for restarts, (epoch, victim) in enumerate(KILLS):
        for worker in range(2):
            epoch_log = partial(log_in_epoch, namespace, f"{NAME}-worker-{worker}", restarts, epoch)
            logs[worker] += eventually(
                epoch_log, within=2 * LIMIT, every=0.3, what=f"worker {worker} trains epoch {epoch}"
            )
        os.kill(process_of(f"{NAME}-worker-{victim}"), signal.SIGKILL)
        hold_of(checkpoints, epoch, victim).unlink()
    return logs


def logs_at_the_end(namespace: InCluster, workers: int) -> list[str]:
    """Wait for the end of the job, and delete it; return the logs of its workers, and check its restarts."""
    namespace.wait(NAME, "Succeeded")
    logs = [namespace.kubectl("logs", f"{NAME}-worker-{worker}") for worker in range(workers)]
    assert namespace.get("tfjob", NAME)["status"].get("jobRestarts", 0) == (len(KILLS) if workers > 1 else 0)
    namespace.kubectl("delete", "tfjob", NAME, "--cascade=foreground", timeout=LIMIT)
    return logs


@pytest.mark.tensorflow
@pytest.mark.timeout(8 * LIMIT)
def test_keras_on_jax_trains_as_one_process_whatever_the_number_of_pods_and_whichever_is_killed(
    namespace: InCluster, tmp_path: Path
) -> None:
    claim, example = examples("keras-jax/tfjob.yaml")
    with_packages(example)
    namespace.apply(volume_for(claim, namespace.namespace, tmp_path), claim)
    checkpoints = tmp_path / "volume" / namespace.namespace / NAME
    for folder in (checkpoints.parent, checkpoints):
        folder.mkdir()
        folder.chmod(0o777)
    for kill in KILLS:
        hold_of(checkpoints, *kill).touch()
    train(namespace, example, 1, 1)
    [first] = logs_at_the_end(namespace, 1)
    train(namespace, example, 2, LAST)
    killed = kill_each(namespace, checkpoints)
    ended = logs_at_the_end(namespace, 2)
    train(namespace, example, 1, LAST + 1)
    [again] = logs_at_the_end(namespace, 1)
    starts = [1, *(epoch - 1 for epoch, _ in KILLS), LAST]
    for of_killed, of_ended in zip(killed, ended, strict=True):
        assert_trained_as_one_process(first + of_killed + of_ended + again, starts, range(1, LAST + 2))
