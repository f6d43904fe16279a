"""Pods as an API server sends them once a kubelet runs them: about 4.3 KB of JSON, managed fields included."""

import json
from typing import Any

CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
IMAGE = "registry.example/team-a/mnist:1.4"
SECRETS_AT = "/var/run/secrets/kubernetes.io/serviceaccount"


def running_pod(number: int, *, replicas: int = 4, node: int | None = None) -> dict[str, Any]:
    job, index = f"mnist-{number // replicas:05d}", number % replicas
    job_uid = f"0f8fad5b-d9cb-469f-a165-{number // replicas:012d}"
    address = f"10.244.{number // 250 % 250}.{number % 250}"
    created, started = (f"2026-07-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{s:02d}Z" for s in (5, 7))
    token = f"kube-api-access-{number:05d}"
    labels = {"job-name": job, "operator-name": "tfjob-controller", "replica-index": str(index)}
    metadata = {
        "name": f"{job}-worker-{index}",
        "namespace": "team-a",
        "uid": f"7d1e4b0a-3c55-4f0e-9b0a-{number:012d}",
        "resourceVersion": str(1_000_000 + 7 * number),
        "creationTimestamp": created,
        "labels": {
            f"training.kubeflow.org/{name}": value for name, value in {**labels, "replica-type": "worker"}.items()
        },
        "annotations": {
            "training.kubeflow.org/restarts": "0",
            "cni.projectcalico.org/podIP": f"{address}/32",
            "cni.projectcalico.org/containerID": f"{number:064x}",
        },
        "ownerReferences": [
            {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": job, "uid": job_uid}
            | {"controller": True, "blockOwnerDeletion": True}
        ],
    }
    spec = _spec(job, index, replicas, token) | {"nodeName": f"node-{number % 50 if node is None else node}"}
    status = _status(number, address, started)
    metadata["managedFields"] = [
        _managed(
            "tfoperator", created, metadata={"labels": metadata["labels"]}, spec={"containers": spec["containers"]}
        ),
        _managed("kubelet", started, status=status | {"containerStatuses": None}) | {"subresource": "status"},
    ]
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}


def _spec(job: str, index: int, replicas: int, token: str) -> dict[str, Any]:
    hosts = [f"{job}-worker-{i}.team-a.svc:2222" for i in range(replicas)]
    tf_config = {"cluster": {"worker": hosts}, "task": {"type": "worker", "index": index}, "environment": "cloud"}
    certificates = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    sources = [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}, {"configMap": certificates}]
    container = {
        "name": "tensorflow",
        "image": IMAGE,
        "command": ["python", "/app/train.py"],
        "ports": [{"name": "tfjob-port", "containerPort": 2222, "protocol": "TCP"}],
        "env": [{"name": "TF_CONFIG", "value": json.dumps(tf_config)}],
        "resources": {name: {"cpu": "2", "memory": "4Gi"} for name in ("limits", "requests")},
        "volumeMounts": [{"name": token, "readOnly": True, "mountPath": SECRETS_AT}],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    passing = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    return {
        "volumes": [{"name": token, "projected": {"sources": sources, "defaultMode": 420}}],
        "containers": [container],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [{"key": f"node.kubernetes.io/{why}", **passing} for why in ("not-ready", "unreachable")],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _status(number: int, address: str, started: str) -> dict[str, Any]:
    since = {"status": "True", "lastProbeTime": None, "lastTransitionTime": started}
    image = {"image": IMAGE, "imageID": f"registry.example/team-a/mnist@sha256:{7:064x}"}
    state = {"state": {"running": {"startedAt": started}}, "lastState": {}, "ready": True, "restartCount": 0}
    container = {"name": "tensorflow", "containerID": f"containerd://{number:064x}", "started": True, **image, **state}
    addresses = {"hostIP": "10.0.0.1", "podIP": address, "podIPs": [{"ip": address}]}
    conditions = [{"type": kind, **since} for kind in CONDITIONS]
    run = {"startTime": started, "containerStatuses": [container], "qosClass": "Guaranteed"}
    return {"phase": "Running", "conditions": conditions, **addresses, **run}


def _managed(manager: str, time: str, **set_fields: Any) -> dict[str, Any]:
    """Return the fields that a manager has set, and when."""
    common = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return common | {"manager": manager, "time": time, "fieldsV1": _names(set_fields)}


def _names(value: Any, levels: int = 4) -> dict[str, Any]:
    if isinstance(value, list) and levels:
        items = [item for item in value if isinstance(item, dict)]
        return {f"k:{json.dumps(next(iter(item.values())))}": _names(item, levels - 1) for item in items}
    members = value.items() if isinstance(value, dict) and levels else ()
    return {f"f:{name}": _names(member, levels - 1) for name, member in members}
