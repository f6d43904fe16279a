"""The parts of objects that the oracle reads: the owner, and the status of a pod."""

from __future__ import annotations

from typing import Any

from hack.faults.oracle.history import PodHistory, ReplicaKey

Json = dict[str, Any]

_KINDS = {kind.lower(): kind for kind in ("PS", "Worker", "Chief", "Master", "Evaluator")}
_LABEL = "training.kubeflow.org/"
_UNSEEN_ENDS = (("ContainerStatusUnknown", 137), ("Unknown", 255))
"""The reasons and exit codes of containers whose end was not observed, because their node crashed."""


def owner_of(obj: Json) -> str:
    """The UID of its controller; empty if it has none."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")


def replica_of(obj: Json) -> ReplicaKey | None:
    """The replica that it belongs to by its labels."""
    labels = obj["metadata"].get("labels") or {}
    kind = _KINDS.get(str(labels.get(f"{_LABEL}replica-type", "")).lower())
    index = str(labels.get(f"{_LABEL}replica-index", ""))
    return (kind, int(index)) if kind is not None and index.isdigit() else None


def number_in(obj: Json, annotation: str) -> int:
    """A number of restarts in an annotation; 0 where there is none."""
    text = str((obj["metadata"].get("annotations") or {}).get(f"{_LABEL}{annotation}", "0"))
    return int(text) if text.isdigit() else 0


def is_probe(obj: Json) -> bool:
    """Whether the pod only asks the scheduler whether a node has room for one more worker."""
    return f"{_LABEL}probe" in (obj["metadata"].get("annotations") or {})


def note_status(pod: PodHistory, obj: Json) -> None:
    """Add the status of a pod to its history."""
    status = obj.get("status") or {}
    pod.node = str((obj.get("spec") or {}).get("nodeName") or "")
    phase = str(status.get("phase") or "Pending")
    containers = status.get("containerStatuses") or ()
    pod.silent = not containers and pod.in_place > 0
    pod.in_place = max([pod.in_place, *(int(container.get("restartCount", 0)) for container in containers)])
    programs = [container for container in containers if container["name"] == "tensorflow"]
    ends = [ended for program in programs if (ended := (program.get("state") or {}).get("terminated"))]
    if pod.runs_on and ends and phase == "Failed":
        pod.runs_on = False  # stopped: what its program has done is known
        return
    policy = (obj.get("spec") or {}).get("restartPolicy")
    restarts = policy == "Always" or (policy == "OnFailure" and bool(ends) and ends[0]["exitCode"] != 0)
    pod.runs_on = phase == "Running" and len(containers) > 1 and bool(ends) and not restarts
    if phase == "Running" and len(containers) == 1 and any(map(_waits_for_its_restart, programs)):
        pod.in_place = max(pod.in_place, int(programs[0].get("restartCount", 0)) + 1)
    if pod.runs_on:
        phase = "Failed" if ends[0]["exitCode"] else "Succeeded"
    pod.phase = phase
    pod.infrastructure = bool(status.get("reason")) or pod.phase == "Unknown"
    pod.exit_code = ends[0]["exitCode"] if ends else None
    pod.infrastructure |= any(
        (condition["type"], condition["status"]) == ("DisruptionTarget", "True")
        for condition in status.get("conditions") or ()
    )
    pod.infrastructure |= bool(ends) and (ends[0].get("reason"), pod.exit_code) in _UNSEEN_ENDS
    if pod.phase == "Succeeded" and not pod.deleting:
        pod.ended_well = True


def _waits_for_its_restart(container: Json) -> bool:
    """Whether it has failed, and its kubelet is about to start it again."""
    state, last = container.get("state") or {}, container.get("lastState") or {}
    ended = state.get("terminated") or ("waiting" in state and last.get("terminated")) or {}
    return bool(ended.get("exitCode"))
