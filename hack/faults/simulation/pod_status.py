"""The status of a pod as a kubelet reports it, and what can be read of it. Values only."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hack.kubelet import container_status, running, terminated

Json = dict[str, Any]


def phase_of(pod: Json) -> str:
    """The phase that a pod is in."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def restarts_of(pod: Json) -> int:
    """How often its containers were restarted in place."""
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((int(container.get("restartCount", 0)) for container in containers), default=0)


def program_end(pod: Json) -> Json | None:
    """How the program of a pod has ended, also if its sidecar runs on; None before."""
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    states = [container.get("state") or {} for container in containers if container["name"] == "tensorflow"]
    return next((state["terminated"] for state in states if "terminated" in state), None)


def runs_on_after(pod: Json, code: int) -> bool:
    """Whether a sidecar of the pod runs on when the program ends so, and the kubelet does not start that again."""
    policy = pod["spec"].get("restartPolicy")
    return len(pod["spec"]["containers"]) > 1 and (policy == "Never" or (policy == "OnFailure" and not code))


def with_sidecar(status: Json, ended: Json | None, now: datetime) -> Json:
    """The status of a pod that has a sidecar beside its program, which has ended so if it has."""
    if not status["containerStatuses"]:
        return status
    [program] = status["containerStatuses"]
    sidecar: Json = {**program, "name": "sidecar", "restartCount": 0}
    if ended is not None:
        program = {**program, "ready": False, "state": {"terminated": ended}}
    if status["phase"] == "Running":
        sidecar |= {"ready": True, "state": {"running": {"startedAt": f"{now:%Y-%m-%dT%H:%M:%SZ}"}}}
    return {**status, "containerStatuses": [sidecar, program]}


def pod_status(phase: str, code: int | None, reason: str, restarts: int, now: datetime) -> Json:
    """Return the status of a pod in this phase; `code` is its program's exit code, `reason` the status' reason."""
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    state = running(moment) if phase == "Running" else None
    if code is not None:
        state = terminated(code, startedAt=moment, finishedAt=moment)
    container = container_status(state, restarts=restarts, ready=phase == "Running")
    status: Json = {"phase": phase, "reason": reason or None, "containerStatuses": [container]}
    if reason == "Evicted":
        # A kubelet that evicts reports no containers.
        status["containerStatuses"] = None
    return status
