"""Samples of what is read, as values and bytes: manifests, objects, answers, watches."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent


def as_json(value: object) -> bytes:
    """A value as it is sent."""
    return json.dumps(value).encode()


@cache
def manifests() -> tuple[bytes, ...]:
    """The files of the examples."""
    return tuple(path.read_bytes() for path in sorted(ROOT.glob("examples/**/*.yaml")))


@cache
def jobs() -> tuple[bytes, ...]:
    """The TFJobs of the examples."""
    documents = (
        document for text in manifests() for document in yaml.safe_load_all(text) if isinstance(document, dict)
    )
    return tuple(
        json.dumps(document, default=str).encode() for document in documents if document.get("kind") == "TFJob"
    )


_META: dict[str, Any] = {
    "name": "a",
    "namespace": "ns",
    "uid": "u",
    "resourceVersion": "7",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "labels": {"training.kubeflow.org/replica-index": "0"},
    "ownerReferences": [
        {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "j", "uid": "x", "controller": True}
    ],
}
_CONTAINER = {"name": "tensorflow", "restartCount": 1, "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}
POD = {
    "metadata": _META,
    "spec": {"nodeName": "n"},
    "status": {
        "phase": "Failed",
        "containerStatuses": [_CONTAINER],
        "conditions": [{"type": "Ready", "status": "False"}],
    },
}
SERVICE = {"metadata": _META, "spec": {"clusterIP": "None", "ports": [{"port": 2222}]}}
LEASE = {
    "metadata": _META,
    "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
}
STATUS = {
    "kind": "Status", "status": "Failure", "message": "no", "reason": "Invalid", "code": 422,
    "details": {"name": "a", "causes": [{"reason": "FieldValueInvalid", "field": "spec", "message": "bad"}]},
}  # fmt: skip
LIST = {"metadata": {"resourceVersion": "9", "continue": "x", "remainingItemCount": 3}, "items": [POD, POD]}


def _lines(*events: tuple[str, object]) -> bytes:
    return b"".join(as_json({"type": kind, "object": obj}) + b"\n" for kind, obj in events)


_END = {"metadata": {"resourceVersion": "8", "annotations": {"k8s.io/initial-events-end": "true"}}}
WATCH = _lines(("ADDED", POD), ("BOOKMARK", _END), ("MODIFIED", POD), ("DELETED", POD))
FAILED_WATCH = _lines(("ADDED", POD), ("ERROR", STATUS))
