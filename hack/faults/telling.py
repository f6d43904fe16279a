"""Says in a line what happened to an object. Pure."""

from __future__ import annotations

from typing import Any

from hack.faults.journal import Entry
from hack.faults.oracle.history import conditions_in, true_conditions


def line(entry: Entry) -> str:
    """One event of the journal, for people."""
    obj = entry.obj
    status: dict[str, Any] = obj.get("status") or {}
    if entry.kind == "TFJob":
        sizes = {kind: spec.get("replicas") for kind, spec in obj["spec"]["tfReplicaSpecs"].items()}
        suspended = " suspended" if (obj["spec"].get("runPolicy") or {}).get("suspend") else ""
        conditions = [f"{condition['type']}={condition['status']}" for condition in conditions_in(status)]
        replicas = {
            kind: {name: value for name, value in counts.items() if value not in (0, "", {})}
            for kind, counts in (status.get("replicaStatuses") or {}).items()
        }
        detail = f"{sizes}{suspended} {' '.join(conditions)} {replicas}"
    elif entry.kind == "Pod":
        reasons = [status.get("reason") or "", "terminating" if obj["metadata"].get("deletionTimestamp") else ""]
        base = (obj["metadata"].get("annotations") or {}).get("training.kubeflow.org/restarts", "0")
        detail = f"{status.get('phase')} restarts {base} {' '.join(filter(None, reasons))}"
    elif entry.kind == "PodGroup":
        detail = f"{obj.get('spec')} {status.get('phase') or ''}"
    elif entry.kind == "Workload":
        true_types = list(true_conditions(status))
        sizes = {pod_set["name"]: pod_set["count"] for pod_set in obj["spec"]["podSets"]}
        detail = f"{obj['spec']['queueName']} {sizes} {true_types} reclaimed {status.get('reclaimablePods') or []}"
    elif entry.kind == "Deployment":
        detail = f"available {status.get('availableReplicas') or 0}"
    else:
        detail = ""
    return f"{entry.version} {entry.kind} {entry.what} {entry.name} {entry.uid[:8]} {detail}".rstrip()
