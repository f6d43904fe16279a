"""TFJobs as the Go operator's API server would hold them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tfoperator.api.replicas.names import LABEL_REPLICA_INDEX, LABEL_REPLICA_TYPE
from tfoperator.kube.views.objects import Pod, decode_pod

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
EXAMPLES = Path(__file__).resolve().parents[4] / "examples" / "peer"


def example(name: str) -> dict[str, Any]:
    """The job of one of the Go operator's own examples."""
    documents = yaml.safe_load_all((EXAMPLES / name).read_text())
    (job,) = [document for document in documents if document["kind"] == "TFJob"]
    return dict(job)


def job(*, policy: dict[str, Any] | None = None, restart: str = "OnFailure", **spec: Any) -> dict[str, Any]:
    """Return a job of one worker; apart from `policy`, the migration changes nothing for it by default."""
    container = {"name": "tensorflow", "image": "example.com/train:1"}
    worker = {"replicas": 1, "restartPolicy": restart, "template": {"spec": {"containers": [container]}}}
    spec = {"tfReplicaSpecs": {"Worker": worker}, "runPolicy": {"cleanPodPolicy": "Running", **(policy or {})}, **spec}
    metadata = {"name": "mnist", "namespace": "team", "uid": "uid-1"}
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata, "spec": spec}


def standing(obj: dict[str, Any], condition: str, **since: float) -> dict[str, Any]:
    """The job with a condition that holds, begun and, if it has ended, ended so long ago (as of timedelta)."""
    moment = (NOW - timedelta(**since)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status: dict[str, Any] = {"conditions": [{"type": condition, "status": "True"}], "startTime": moment}
    if condition in ("Succeeded", "Failed"):
        status["completionTime"] = moment
    return {**obj, "status": status}


def pod(name: str, phase: str, restarts: int = 0, *, kind: str = "worker") -> Pod:
    """A pod of the job; `kind` is its replica type, as labels have it."""
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "mnist", "uid": "uid-1", "controller": True}
    status = {"phase": phase, "containerStatuses": [{"name": "tensorflow", "restartCount": restarts}]}
    labels = {LABEL_REPLICA_TYPE: kind, LABEL_REPLICA_INDEX: "0"}
    metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
    return decode_pod(msgspec.json.encode({"metadata": metadata, "status": status}))
