"""Pods as an API server sends them once a kubelet runs them: about 4.3 KB of JSON, managed fields included."""

from __future__ import annotations

import json
from typing import Any

CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def running_pod(number: int, *, replicas: int = 4, node: int | None = None) -> dict[str, Any]:
    job, index = f"mnist-{number // replicas:05d}", number % replicas
    name = f"{job}-worker-{index}"
    job_uid = f"0f8fad5b-d9cb-469f-a165-{number // replicas:012d}"
    address = f"10.244.{number // 250 % 250}.{number % 250}"
    created, started = (f"2026-07-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{s:02d}Z" for s in (5, 7))
    hosts = [f"{job}-worker-{i}.team-a.svc:2222" for i in range(replicas)]
    tf_config = {"cluster": {"worker": hosts}, "task": {"type": "worker", "index": index}, "environment": "cloud"}
    token = f"kube-api-access-{number:05d}"
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": f"7d1e4b0a-3c55-4f0e-9b0a-{number:012d}",
            "resourceVersion": str(1_000_000 + 7 * number),
            "creationTimestamp": created,
            "labels": {
                "training.kubeflow.org/job-name": job,
                "training.kubeflow.org/operator-name": "tfjob-controller",
                "training.kubeflow.org/replica-index": str(index),
                "training.kubeflow.org/replica-type": "worker",
            },
            "annotations": {
                "training.kubeflow.org/restarts": "0",
                "cni.projectcalico.org/podIP": f"{address}/32",
                "cni.projectcalico.org/containerID": f"{number:064x}",
            },
            "ownerReferences": [
                {
                    "apiVersion": "kubeflow.org/v1",
                    "kind": "TFJob",
                    "name": job,
                    "uid": job_uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": _managed_fields(job_uid, address, created, started),
        },
        "spec": {
            "volumes": [
                {
                    "name": token,
                    "projected": {
                        "sources": [
                            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                        ],
                        "defaultMode": 420,
                    },
                }
            ],
            "containers": [
                {
                    "name": "tensorflow",
                    "image": "registry.example/team-a/mnist:1.4",
                    "command": ["python", "/app/train.py"],
                    "ports": [{"name": "tfjob-port", "containerPort": 2222, "protocol": "TCP"}],
                    "env": [{"name": "TF_CONFIG", "value": json.dumps(tf_config)}],
                    "resources": {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "2", "memory": "4Gi"}},
                    "volumeMounts": [
                        {"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
                    ],
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "nodeName": f"node-{number % 50 if node is None else node}",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{reason}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for reason in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": started}
                for kind in CONDITIONS
            ],
            "hostIP": "10.0.0.1",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": started,
            "containerStatuses": [
                {
                    "name": "tensorflow",
                    "state": {"running": {"startedAt": started}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": 0,
                    "image": "registry.example/team-a/mnist:1.4",
                    "imageID": f"registry.example/team-a/mnist@sha256:{7:064x}",
                    "containerID": f"containerd://{number:064x}",
                    "started": True,
                }
            ],
            "qosClass": "Guaranteed",
        },
    }


def _managed_fields(job_uid: str, address: str, created: str, started: str) -> list[dict[str, Any]]:
    labels = ("job-name", "operator-name", "replica-index", "replica-type")
    container = ("command", "env", "image", "name", "ports", "resources")
    metadata: dict[str, Any] = {
        "f:labels": {".": {}, **{f"f:training.kubeflow.org/{label}": {} for label in labels}},
        "f:ownerReferences": {".": {}, f'k:{{"uid":"{job_uid}"}}': {}},
    }
    spec: dict[str, Any] = {
        "f:containers": {'k:{"name":"tensorflow"}': {".": {}, **{f"f:{field}": {} for field in container}}},
        "f:restartPolicy": {},
        "f:schedulerName": {},
    }
    condition: dict[str, Any] = {
        ".": {},
        "f:lastProbeTime": {},
        "f:lastTransitionTime": {},
        "f:status": {},
        "f:type": {},
    }
    status = {
        "f:conditions": {f'k:{{"type":"{kind}"}}': condition for kind in CONDITIONS[:4]},
        "f:containerStatuses": {},
        "f:hostIP": {},
        "f:phase": {},
        "f:podIPs": {".": {}, f'k:{{"ip":"{address}"}}': {".": {}, "f:ip": {}}},
        "f:startTime": {},
    }
    common = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return [
        common | {"manager": "tfoperator", "time": created, "fieldsV1": {"f:metadata": metadata, "f:spec": spec}},
        common | {"manager": "kubelet", "time": started, "subresource": "status", "fieldsV1": {"f:status": status}},
    ]
