"""TFJobs for tests, as plain data."""

import json
from typing import Any

from tfoperator.api.v1.types import TFJob, decode_tfjob

TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "tensorflow", "image": "example.com/train:1"}]}}


def tfjob(replicas: dict[str, Any], *, name: str = "mnist", **spec: Any) -> dict[str, Any]:
    """Return a TFJob manifest; each replica spec without a template gets a valid template."""
    filled = {k: {"template": TEMPLATE} | v if isinstance(v, dict) else v for k, v in replicas.items()}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"tfReplicaSpecs": filled, **spec},
    }


def job_of(manifest: dict[str, Any]) -> TFJob:
    return decode_tfjob(json.dumps(manifest).encode())


FULL_SPEC: dict[str, Any] = {
    "tfReplicaSpecs": {
        "Chief": {"replicas": 1, "restartPolicy": "ExitCode", "template": TEMPLATE},
        "PS": {"replicas": 2, "restartPolicy": "Always", "template": TEMPLATE},
        "Worker": {"replicas": 3, "restartPolicy": "OnFailure", "template": TEMPLATE},
        "Evaluator": {"replicas": 1, "restartPolicy": "Never", "template": TEMPLATE},
    },
    "successPolicy": "AllWorkers",
    "enableDynamicWorker": False,
    "runPolicy": {
        "cleanPodPolicy": "Running",
        "ttlSecondsAfterFinished": 60,
        "activeDeadlineSeconds": 3600,
        "backoffLimit": 4,
        "suspend": False,
        "managedBy": "kubeflow.org/training-operator",
        "schedulingPolicy": {
            "minAvailable": 7,
            "queue": "research",
            "minResources": {"cpu": 4, "memory": "8Gi"},
            "priorityClass": "high",
            "scheduleTimeoutSeconds": 300,
        },
    },
}
"""Every field of the peer's spec."""

PEER_STATUS: dict[str, Any] = {
    "conditions": [
        {
            "type": "Created",
            "status": "True",
            "reason": "TFJobCreated",
            "message": "TFJob mnist is created.",
            "lastUpdateTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ],
    "replicaStatuses": {
        "Worker": {
            "active": 3,
            "selector": "training.kubeflow.org/job-name=mnist",
            "labelSelector": {"matchLabels": {"training.kubeflow.org/job-name": "mnist"}},
        },
        "PS": {},
    },
    "startTime": "2026-01-01T00:00:00Z",
    "completionTime": "2026-01-01T00:10:00Z",
    "lastReconcileTime": "2026-01-01T00:10:00Z",
}
