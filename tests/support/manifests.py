"""Objects as users and kubelets write them, as plain data: the one home of builders that several tests share."""

from datetime import UTC, datetime
from typing import Any

from hack import kubelet

Json = dict[str, Any]

IMAGE = "example.invalid/x:1"
"""Nobody pulls it."""

IMAGE_ID = "x@sha256:" + "a" * 64

STARTED = "2026-01-01T00:00:00Z"


def now() -> str:
    """A timestamp as API servers write them."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def metadata(name: str, labels: Json | None = None, *owners: Json, **more: Any) -> Json:
    """Of an object; without the members that would be empty."""
    whole = {"name": name, "labels": labels or {}, "ownerReferences": list(owners), **more}
    return {key: value for key, value in whole.items() if value not in ({}, [])}


def owner_reference(owner: Json, **more: Any) -> Json:
    """A reference to an object that an API server has made (its list items have no kind: use what `create` answers)."""
    meta = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**reference, **more}


def config_map(name: str, labels: Json | None = None, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(name, labels), "data": data}


def pod(name: str, labels: Json | None = None, *owners: Json, container: str = "tensorflow", **spec: Any) -> Json:
    """A pod with one container; `spec` is added to its spec."""
    containers = [{"name": container, "image": IMAGE}]
    whole = {"containers": containers, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(name, labels, *owners), "spec": whole}


def job(name: str, replica_specs: Json, **spec: Any) -> Json:
    """A TFJob with these replica specs; `spec` is added to its spec."""
    whole = {"tfReplicaSpecs": replica_specs, **spec}
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}, "spec": whole}


def tfjob(
    name: str,
    *,
    restart_policy: str = "Never",
    run_policy: Json | None = None,
    spec: Json | None = None,
    **replicas: int,
) -> Json:
    """A TFJob with so many replicas of each type, e.g. `tfjob("x", PS=1, Worker=2)`, by default two workers.

    Without a `restart_policy` the API server's default holds. `spec` is added to the job's spec.
    """
    container = {"name": "tensorflow", "image": "example.invalid/train:1", "command": ["train"]}
    template = {"spec": {"containers": [container]}}
    policy = {"restartPolicy": restart_policy} if restart_policy else {}
    specs = {kind: {"replicas": n, **policy, "template": template} for kind, n in (replicas or {"Worker": 2}).items()}
    return job(name, specs, **(spec or {}), **({"runPolicy": run_policy} if run_policy else {}))


def pod_status(
    phase: str,
    *,
    container: str = "tensorflow",
    exit_code: int | None = None,
    ready: bool | None = None,
    restarts: int = 0,
    last_state: Json | None = None,
    waiting: str = "",
    message: str = "",
    reason: str = "",
    disruption: str = "",
) -> Json:
    """Return a kubelet's report of a pod with one container, whose state follows the phase or `waiting` (a reason).

    `restarts` is how often the container was restarted in place, `last_state` how it ended before. `message` belongs to
    the container's state. `reason` is the pod's own (Evicted, NodeLost): such a pod reports its container only
    if `exit_code` is given. `disruption` is the reason of a DisruptionTarget condition: PreemptionByScheduler,
    DeletionByTaintManager ...
    """
    state = None
    if waiting:
        state = kubelet.waiting(waiting, message)
    elif phase == "Running":
        state = kubelet.running(STARTED)
    elif phase in ("Succeeded", "Failed"):
        code = exit_code if exit_code is not None else int(phase == "Failed")
        state = kubelet.terminated(code, **({"message": message} if message else {}))
    more = {"ready": ready, "lastState": last_state}
    present = {key: value for key, value in more.items() if value is not None}
    main_status = kubelet.container_status(state, name=container, restarts=restarts, imageID=IMAGE_ID, **present)
    status: Json = {"phase": phase, "containerStatuses": [main_status]}
    if reason:
        status["reason"] = reason
        if exit_code is None and phase != "Running":
            del status["containerStatuses"]
    if disruption:
        status["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": disruption}]
    return status


def event(about: Json, reason: str, message: str, *, warning: bool = False, **fields: Any) -> Json:
    """An event; `about` is its involvedObject."""
    moment = now()
    return {
        "metadata": {"generateName": f"{about['name']}."}, "involvedObject": about,
        "type": "Warning" if warning else "Normal", "reason": reason, "message": message,
        "firstTimestamp": moment, "lastTimestamp": moment, "count": 1, **fields,
    }  # fmt: skip
