"""Pods of a job, as a kubelet or a stranger may have left them."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from hack.random_jobs.chances import chance, number, some, timestamp
from tfoperator.api.names import (
    ANNOTATION_DISRUPTIONS,
    ANNOTATION_JOB_DISRUPTIONS,
    ANNOTATION_JOB_RESTARTS,
    ANNOTATION_RESTARTS,
    LABEL_JOB_NAME,
    LABEL_OPERATOR_NAME,
    LABEL_REPLICA_INDEX,
    LABEL_REPLICA_TYPE,
    OPERATOR_NAME,
)
from tfoperator.kube.objects import Pod

_DISRUPTIONS = (
    "DeletionByTaintManager", "PreemptionByScheduler", "EvictionByEvictionAPI", "TerminationByKubelet",
    "DeletionByPodGC", "odd",
)  # fmt: skip
_PHASES = ("Pending", "Running", "Running", "Succeeded", "Failed", "Failed", "Unknown", "", "odd")


def random_pod(rng: random.Random, which: int) -> Pod:
    """A pod of the job, as a kubelet or a stranger may have left it."""
    kind = rng.choice(("worker", "worker", "ps", "ps", "chief", "chief", "junk", "WORKER", ""))
    index = rng.choice(("0", "0", "1", "1", "2", "2", "-1", "01", "x", "", str(2**31 - 2), "9" * 30))
    labels = {LABEL_REPLICA_TYPE: kind, LABEL_REPLICA_INDEX: index, LABEL_JOB_NAME: "mnist"}
    labels[LABEL_OPERATOR_NAME] = OPERATOR_NAME
    name = f"mnist-{kind}-{index}" if not chance(rng, 0.2) else f"mnist-{kind}-{index}-{which}"
    if chance(rng, 0.1):
        # Not under a replica's name: whose names are taken is for the API server to say, and not the plan's to know.
        name = f"stray-{which}"
        del labels[rng.choice(list(labels))]
    metadata: dict[str, Any] = {"name": name, "uid": f"pod-{which}", "labels": labels}
    counts = ("", "0", "3", "-3", "x", "9" * 40, "٣")
    metadata["annotations"] = {ANNOTATION_RESTARTS: rng.choice(counts)}
    for key in (ANNOTATION_JOB_RESTARTS, ANNOTATION_DISRUPTIONS, ANNOTATION_JOB_DISRUPTIONS):
        metadata["annotations"] |= some(rng, 0.3, **{key: lambda: rng.choice((*counts, "1"))})
    metadata |= some(rng, 0.8, creationTimestamp=lambda: timestamp(rng))
    metadata |= some(
        rng,
        0.2,
        deletionTimestamp=lambda: timestamp(rng),
        deletionGracePeriodSeconds=lambda: rng.choice((0, 30, -1, 2**62)),
    )
    code = number(rng, (0, 1, 127, 128, 137, 255, -1, 10**12), 10**12)
    ended = {"exitCode": code} | some(rng, 0.8, finishedAt=lambda: timestamp(rng))
    container = {
        "name": "tensorflow",
        "ready": chance(rng, 0.5),
        "restartCount": number(rng, (0, 1, -1, 10**12), 10**12),
    }
    states: tuple[dict[str, Any], ...] = ({}, {"terminated": ended}, {"waiting": {"reason": "CrashLoopBackOff"}})
    status: dict[str, Any] = {
        "phase": rng.choice(_PHASES),
        "reason": rng.choice(("", "Evicted", "NodeLost")),
        "containerStatuses": [{**container, "state": rng.choice(states), "lastState": rng.choice(states)}],
        "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": rng.choice(_DISRUPTIONS)},
            {"type": "Ready", "status": rng.choice(("True", "False"))},
        ],
    }
    for name in ("conditions", "containerStatuses"):
        if chance(rng, 0.5):
            del status[name]
    spec = some(rng, 0.5, nodeName=lambda: "node", activeDeadlineSeconds=lambda: rng.choice((1, 2, 3600)))
    spec |= some(rng, 0.2, subdomain=lambda: rng.choice(("mnist", "mnist-job-uid", "x")))
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)
