"""A TFJob that is mostly in order, with a status as an operator may have left it."""

from __future__ import annotations

import random
from typing import Any

from hack.random_jobs.chances import chance, number, some, timestamp
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.types import Network, ReplicaType

_SHARES = (0, 1, 2, 10_001, "0%", "1%", "50%", "100%", "101%", "x%")


def _tensorboard(rng: random.Random) -> dict[str, Any]:
    board = {"logDir": rng.choice(("/logs", "gs://b", "")), "image": rng.choice(("", "i:1"))}
    return board | some(
        rng,
        0.3,
        env=lambda: [{"name": rng.choice(("A", "", "TENSORBOARD_PORT")), "value": "1"}],
        imagePullSecrets=lambda: [{"name": rng.choice(("registry", ""))}],
        nodeSelector=lambda: {"disk": rng.choice(("fast", "slow"))},
        securityContext=lambda: rng.choice(({}, {"runAsUser": 1000}, {"fsGroup": 1})),
        serviceAccountName=lambda: rng.choice(("", "reader")),
    )


def random_manifest(rng: random.Random) -> dict[str, Any]:
    """A TFJob that is mostly in order, with a status as an operator may have left it."""
    kinds = rng.sample(list(ReplicaType), rng.choice((1, 1, 2, 3)))
    spec: dict[str, Any] = {"tfReplicaSpecs": {str(kind): _replica(rng) for kind in kinds}}
    spec["runPolicy"] = some(
        rng,
        0.4,
        cleanPodPolicy=lambda: rng.choice(("All", "Running", "None", "")),
        ttlSecondsAfterFinished=lambda: number(rng, (0, 60, 2**31 - 1), 10**25),
        activeDeadlineSeconds=lambda: number(rng, (0, 1, 3600, 2**31 - 1), 10**25),
        backoffLimit=lambda: number(rng, (0, 1, 6), 10**30),
        restartScope=lambda: rng.choice(("Job", "Job", "Replica", "")),
        restartMode=lambda: rng.choice(("InPlace", "InPlace", "Recreate", "")),
        progressDeadlineSeconds=lambda: number(rng, (1, 60, 600), 10**25),
        startDeadlineSeconds=lambda: number(rng, (1, 60, 600), 10**25),
        onStall=lambda: rng.choice(("Report", "Restart", "Restart", "Fail", "")),
        onStraggler=lambda: rng.choice(("Ignore", "Restart", "Restart", "")),
        suspend=lambda: chance(rng, 0.3),
        schedulingPolicy=lambda: some(
            rng,
            0.3,
            minAvailable=lambda: rng.choice((0, 1, 5)),
            priorityClass=lambda: rng.choice(("", "high", "system-cluster-critical")),
            queue=lambda: rng.choice(("", "shared")),
        ),
        managedBy=lambda: rng.choice((*["kubeflow.org/training-operator"] * 8, "", "someone")),
    )
    spec |= some(
        rng,
        0.15,
        successPolicy=lambda: rng.choice(("", "AllWorkers")),
        minSucceededWorkers=lambda: rng.choice(_SHARES),
        maxFailedWorkers=lambda: rng.choice(_SHARES),
        enableDynamicWorker=lambda: chance(rng, 0.5),
        clusterArguments=lambda: chance(rng, 0.5),
        evaluatorInCluster=lambda: chance(rng, 0.5),
        network=lambda: rng.choice((*Network, Network.PER_JOB, "", "perjob")),
        tensorBoard=lambda: _tensorboard(rng),
        checkpoint=lambda: {"volume": {"emptyDir": {}}, "mountPath": rng.choice(("/ckpt", "x", "/"))},
    )
    metadata = {"name": "mnist", "namespace": "ns", "uid": "job-uid", "generation": 1}
    manifest = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata, "spec": spec}
    if chance(rng, 0.5):
        manifest["status"] = _status(rng)
    return manifest


def _replica(rng: random.Random) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "tensorflow", "image": "example.com/train:1"}
    if chance(rng, 0.2):
        container |= {"ports": [{"name": "tfjob-port", "containerPort": rng.choice((1, 2222, 65535))}], "args": ["a"]}
    pod = {"containers": [container]} | some(rng, 0.1, hostname=lambda: "h", subdomain=lambda: rng.choice(("mnist", 1)))
    replica: dict[str, Any] = {"template": {"spec": pod}}
    counts = (0, 1, 1, 2, 3) if not chance(rng, 0.001) else (-1, 1000)
    return replica | some(
        rng,
        0.8,
        replicas=lambda: number(rng, counts, 10**12),
        restartPolicy=lambda: rng.choice(("Always", "OnFailure", "Never", "ExitCode")),
    )


def _status(rng: random.Random) -> dict[str, Any]:
    kinds = rng.sample([*ConditionType], rng.choice((0, 1, 2, 3)))
    status: dict[str, Any] = {
        "conditions": [{"type": str(kind), "status": rng.choice(("True", "True", "False", "odd"))} for kind in kinds],
        "replicaStatuses": {
            kind: {
                "active": rng.choice((0, 1, -1)),
                "restarts": rng.choice((0, 2, -2)),
                "restartCounts": {rng.choice(("0", "1", "-1", "x", "9" * 25)): rng.choice((0, 1, -1, 2**31 - 1))},
                "disruptionCounts": {rng.choice(("0", "1", "-1", "x")): rng.choice((0, 1, -1, 2**31 - 1))},
                "completedIndexes": _indexes(rng),
                "failedIndexes": _indexes(rng),
                "startedIndexes": _indexes(rng),
            }
            for kind in rng.sample(("PS", "Worker", "Chief", "odd"), rng.choice((0, 1, 2)))
        },
    }
    status |= some(rng, 0.3, jobRestarts=lambda: rng.choice((0, 1, 3, -2, 10**12)))
    status |= some(rng, 0.3, jobDisruptions=lambda: rng.choice((0, 1, 3, -2, 10**12)))
    status |= some(rng, 0.3, disruptionBackoff=lambda: _backoff(rng))
    status |= some(rng, 0.3, progress=lambda: _progress(rng))
    status |= some(rng, 0.2, network=lambda: rng.choice((Network.PER_JOB, Network.PER_REPLICA, "x")))
    return status | some(rng, 0.4, startTime=lambda: timestamp(rng), completionTime=lambda: timestamp(rng))


def _backoff(rng: random.Random) -> dict[str, Any]:
    found = {"count": rng.choice((0, 1, 5, -2, 2**31 - 1)), "replicas": {rng.choice(("Worker", "odd")): _indexes(rng)}}
    return found | some(rng, 0.8, since=lambda: timestamp(rng))


def _progress(rng: random.Random) -> dict[str, Any]:
    """What a job has reported: its lastUpdatedTime moves the deadline of its progress, and who is behind restarts."""
    behind = [
        {"name": rng.choice(("worker-0", "worker-1", "ps-0", "x", "")), "step": rng.choice((0, 7, -1, 2**31))}
        | some(rng, 0.5, lastUpdatedTime=lambda: timestamp(rng))
        for _ in range(rng.choice((0, 1, 2)))
    ]
    return {"behind": behind} | some(
        rng,
        0.7,
        lastUpdatedTime=lambda: timestamp(rng),
        percentage=lambda: rng.choice((0, 45, 100)),
        step=lambda: rng.choice((0, 7, 2**31)),
    )


def _indexes(rng: random.Random) -> str:
    if chance(rng, 0.1):
        return "".join(rng.choice("0123456789-,") for _ in range(rng.randrange(10)))
    return rng.choice(("", "", "0", "0-1", "0-2", "1-2", "x", "1-", "-", "3-1", "0,,1", "0-99999999999"))
