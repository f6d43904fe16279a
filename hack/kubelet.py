"""Schedulers and kubelets as they write to an API server: the binding of a pod, and the states of its containers.

Simulators, benchmarks and tests that play a node use these functions.
"""

from __future__ import annotations

from typing import Any

from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.kube.views.objects import decode_nothing

Json = dict[str, Any]

NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."

_BINDINGS = Resource("", "v1", "Binding", "bindings")


def bind(client: ApiClient, namespace: str, pod: str, node: str = "node-1") -> None:
    """Bind a pod to a node, as a scheduler does. Raises KubeError."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    client.create(_BINDINGS, namespace, {"metadata": {"name": pod}, "target": target}, decode_nothing)


def unscheduled(message: str = NO_ROOM) -> Json:
    """Return the condition of a pod for which a scheduler finds no node."""
    return {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}


def running(at: str) -> Json:
    """Return the state of a container that runs since this time."""
    return {"running": {"startedAt": at}}


def waiting(reason: str, message: str = "") -> Json:
    """Return the state of a container that does not run."""
    return {"waiting": {"reason": reason, "message": message}}


def terminated(code: int, **members: str) -> Json:
    """Return the state of a container that has ended; `members` are a time, a message, or another reason."""
    return {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", **members}}


def container_status(state: Json | None, *, name: str = "tensorflow", restarts: int = 0, **members: Any) -> Json:
    """Return the status of a container in this state; `members` are added to it, or replace its own."""
    status: Json = {"name": name, "image": "x", "imageID": "x", "restartCount": restarts}
    status["ready"] = state is not None and "running" in state
    return status | ({} if state is None else {"state": state}) | members
