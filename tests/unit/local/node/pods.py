"""Pods for the tests of the node agent."""

import json
import sys
import uuid
from typing import Any

from tfoperator.local.runtime.protocol import LocalPod, decode_pod


def python(code: str) -> list[str]:
    """A command that runs a few lines of Python, without the cost of site-packages."""
    return [sys.executable, "-I", "-S", "-c", code]


def container(name: str = "tensorflow", *, command: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    """A container as a dictionary."""
    return {"name": name, "image": "none", **({"command": command} if command else {}), **fields}


def manifest(name: str = "p", *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod as a dictionary."""
    labels = {"role": "worker", "app.kubernetes.io/name": "x"}
    meta = {"name": name, "namespace": "ns", "uid": str(uuid.uuid4()), "labels": labels}
    whole = {"restartPolicy": "Never", "containers": list(containers), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": whole}


def view(obj: dict[str, Any]) -> LocalPod:
    """A dictionary as the agent sees it."""
    return decode_pod(json.dumps(obj).encode())
