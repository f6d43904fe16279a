"""What the oracle reads of objects: whose they are, and what the status of a pod says."""

from __future__ import annotations

from typing import Any

from hack.faults.oracle.history import PodHistory, ReplicaKey

Json = dict[str, Any]

_KINDS = {kind.lower(): kind for kind in ("PS", "Worker", "Chief", "Master", "Evaluator")}
_LABEL = "training.kubeflow.org/"


def owner_of(obj: Json) -> str:
    """The UID of its controller; empty if it has none."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((str(one["uid"]) for one in owners if one.get("controller")), "")


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


def note_status(pod: PodHistory, obj: Json) -> None:
    """Add what the status of a pod says to its history."""
    status = obj.get("status") or {}
    pod.phase = str(status.get("phase") or "Pending")
    containers = status.get("containerStatuses") or ()
    pod.in_place = max([pod.in_place, *(int(one.get("restartCount", 0)) for one in containers)])
    pod.infrastructure = bool(status.get("reason")) or pod.phase == "Unknown"
    codes = [one["state"]["terminated"]["exitCode"] for one in containers if (one.get("state") or {}).get("terminated")]
    pod.exit_code = codes[0] if codes else None
    if pod.phase == "Succeeded" and not pod.deleting:
        pod.ended_well = True
