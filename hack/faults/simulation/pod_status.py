"""The status of a pod as a kubelet reports it, and what can be read of it. Values only."""

from __future__ import annotations

from datetime import datetime
from typing import Any

Json = dict[str, Any]


def phase_of(pod: Json) -> str:
    """The phase that a pod is in."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def restarts_of(pod: Json) -> int:
    """How often its containers were restarted in place."""
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((int(one.get("restartCount", 0)) for one in containers), default=0)


def pod_status(phase: str, code: int | None, reason: str, restarts: int, now: datetime) -> Json:
    """The status of a pod in this phase; `code` is what its program ended with, `reason` why it is as it is."""
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    container: Json = {"name": "tensorflow", "image": "x", "imageID": "x", "restartCount": restarts}
    container["ready"] = phase == "Running"
    if code is not None:
        ended = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "finishedAt": moment}
        container["state"] = {"terminated": {**ended, "startedAt": moment}}
    elif phase == "Running":
        container["state"] = {"running": {"startedAt": moment}}
    status: Json = {"phase": phase, "reason": reason or None, "containerStatuses": [container]}
    if reason == "Evicted":
        # A kubelet that evicts tells nothing of the containers.
        status["containerStatuses"] = None
    return status
