"""TFJobs without an operator: a test says what the job and its pods are like, and what they log."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tests.support.cluster import Json, decode, tfjob
from tfoperator.api.names import replica_labels
from tfoperator.api.v1.types import TFJOBS, ReplicaType
from tfoperator.kube.client import Client
from tfoperator.kube.resources import EVENTS, NAMESPACES, PODS

_numbers = itertools.count(1)


class LogBook:
    """What containers have logged, for the embedded API server to read: `EmbeddedApiServer(log_reader=book.read)`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards what follows
        self._attempts: dict[str, list[bytes]] = {}
        self._open: set[str] = set()

    def begin(self, pod: str, text: str = "") -> None:
        """A new run of the pod's container, whose log stays open."""
        with self._lock:
            self._attempts.setdefault(pod, []).append(text.encode())
            self._open.add(pod)

    def write(self, pod: str, text: str) -> None:
        with self._lock:
            self._attempts[pod][-1] += text.encode()

    def end(self, pod: str) -> None:
        with self._lock:
            self._open.discard(pod)

    def end_all(self) -> None:
        with self._lock:
            self._open.clear()

    def read(
        self, namespace: str, pod: str, container: str, previous: bool, follow: bool, tail: int | None
    ) -> Iterator[bytes]:
        with self._lock:
            attempts = self._attempts.get(pod, [])
        if len(attempts) < (2 if previous else 1):
            raise LookupError(f"no log of {pod}")
        return self._chunks(pod, len(attempts) - (2 if previous else 1), follow, tail)

    def _chunks(self, pod: str, attempt: int, follow: bool, tail: int | None) -> Iterator[bytes]:
        given = 0
        while True:
            with self._lock:
                data = self._attempts[pod][attempt]
                is_open = pod in self._open and attempt == len(self._attempts[pod]) - 1
            if tail is not None:
                given = len(data) - len(b"".join(data.splitlines(keepends=True)[-tail:] if tail else []))
                tail = None
            chunk, given = data[given:], len(data)
            yield chunk
            if not follow or not is_open:
                return
            time.sleep(0.02)


class JobWorld:
    """One namespace with jobs in it. Plays the operator and the kubelet through the API."""

    def __init__(self, client: Client, namespace: str = "") -> None:
        self.client = client
        self.namespace = namespace or f"jobs-{next(_numbers)}"
        if not namespace:
            client.create(NAMESPACES, "", {"metadata": {"name": self.namespace}}, decode)

    def submit(self, name: str = "mnist", labels: dict[str, str] | None = None, **replicas: int) -> Json:
        body = tfjob(name, **(replicas or {"Worker": 2}))
        body["metadata"]["labels"] = labels or {}
        return self.client.create(TFJOBS, self.namespace, body, decode)

    def job(self, name: str = "mnist") -> Json:
        return self.client.get(TFJOBS, self.namespace, name, decode)

    def becomes(self, condition: str, name: str = "mnist", *, message: str = "", status: str = "True") -> None:
        """The condition is now the latest; Succeeded and Failed put an end to Running."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        old = [c for c in self.job(name).get("status", {}).get("conditions") or () if c["type"] != condition]
        if condition in ("Succeeded", "Failed"):
            old = [{**c, "status": "False"} if c["type"] == "Running" else c for c in old]
        new = {
            "type": condition,
            "status": status,
            "reason": f"TFJob{condition}",
            "message": message or f"TFJob {name} is {condition}.",
            "lastUpdateTime": now,
            "lastTransitionTime": now,
        }
        self.status({"conditions": [*old, new]}, name)

    def status(self, status: Json, name: str = "mnist") -> None:
        self.client.patch(TFJOBS, self.namespace, name, {"status": status}, decode, subresource="status")

    def pod(self, replica: str, job: str = "mnist", **status: Any) -> str:
        """A pod of the job, on a node; `status` as in `pod_status`. Returns its name."""
        kind, _, index = replica.partition("-")
        replica_type = next(kind_ for kind_ in ReplicaType if kind_.lower() == kind)
        labels = replica_labels(job, replica_type, int(index), is_master=replica in ("worker-0", "chief-0"))
        name = f"{job}-{replica}"
        owner = self.job(job)
        reference = {
            "apiVersion": TFJOBS.api_version,
            "kind": TFJOBS.kind,
            "name": job,
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
        body = {
            "metadata": {"name": name, "labels": labels, "ownerReferences": [reference]},
            "spec": {"nodeName": "node-1", "containers": [{"name": "tensorflow", "image": "example.invalid/x:1"}]},
        }
        self.client.create(PODS, self.namespace, body, decode)
        self.pod_status(name, **status)
        return name

    def pod_status(
        self, name: str, phase: str = "Running", *, restarts: int = 0, waiting: str = "", exit_code: int | None = None
    ) -> None:
        state: Json = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        if waiting:
            state = {"waiting": {"reason": waiting, "message": "for a reason"}}
        elif phase in ("Succeeded", "Failed"):
            code = exit_code if exit_code is not None else int(phase == "Failed")
            state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
        container = {
            "name": "tensorflow",
            "image": "x",
            "imageID": "x",
            "ready": phase == "Running" and not waiting,
            "restartCount": restarts,
            "state": state,
        }
        if restarts:
            container["lastState"] = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
        body = {"status": {"phase": phase, "containerStatuses": [container]}}
        self.client.patch(PODS, self.namespace, name, body, decode, subresource="status")

    def event(self, kind: str, name: str, reason: str, message: str, *, warning: bool = False, **fields: Any) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "metadata": {"generateName": f"{name}."},
            "involvedObject": {"kind": kind, "namespace": self.namespace, "name": name},
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": message,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            **fields,
        }
        self.client.create(EVENTS, self.namespace, body, decode)


def write_kubeconfig(path: Path, kubeconfig: Json, namespace: str) -> Path:
    """A kubeconfig file whose context names a namespace."""
    kubeconfig["contexts"][0]["context"]["namespace"] = namespace
    path.write_text(yaml.safe_dump(kubeconfig))
    return path


def submitted_manifest(name: str = "mnist", **replicas: int) -> str:
    """A manifest as a user writes it."""
    return yaml.safe_dump(tfjob(name, **(replicas or {"Worker": 2})))


@contextmanager
def soon(*actions: Callable[[], object], after: float = 0.15) -> Iterator[None]:
    """Do things from another thread, each after a moment; leaving the block waits for them, and raises what they do."""

    def act() -> None:
        for action in actions:
            time.sleep(after)
            action()

    with ThreadPoolExecutor(1, thread_name_prefix="soon") as pool:
        doing = pool.submit(act)
        yield
        doing.result(30)
