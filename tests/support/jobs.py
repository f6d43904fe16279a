"""TFJobs without an operator: a test decides about the job, its pods and their logs."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from tests.support import manifests
from tests.support.cluster import Json, decode
from tests.support.container_log import ContainerLog
from tests.support.manifests import now, owner_reference, tfjob
from tfoperator.api.replicas.names import replica_labels
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.resources import EVENTS, NAMESPACES, PODS
from tfoperator.local.runtime.log_files import LogRequest

_numbers = itertools.count(1)


class LogBook:
    """The logs of containers, for the embedded API server to read: `NodeStreams(book.read)`."""

    def __init__(self) -> None:
        self.asked: dict[str, tuple[datetime | None, bool]] = {}
        """By pod, from when on its log was wanted the last time, and whether with times. It has none."""
        self._lock = threading.Lock()  # guards _attempts
        self._attempts: dict[str, list[ContainerLog]] = {}

    def begin(self, pod: str, text: str = "") -> None:
        """A new run of the pod's container, whose log stays open."""
        self.end(pod)
        log = ContainerLog()
        log.write(text)
        with self._lock:
            self._attempts.setdefault(pod, []).append(log)

    def write(self, pod: str, text: str) -> None:
        self._of(pod)[-1].write(text)

    def end(self, pod: str) -> None:
        for log in self._of(pod):
            log.end()

    def end_all(self) -> None:
        with self._lock:
            pods = list(self._attempts)
        for pod in pods:
            self.end(pod)

    def read(self, wanted: LogRequest) -> Iterator[bytes]:
        self.asked[wanted.pod] = (wanted.since, wanted.timestamps)
        attempts = self._of(wanted.pod)[: -1 if wanted.previous else None]
        if not attempts:
            raise LookupError(f"no log of {wanted.pod}")
        return attempts[-1].read(follow=wanted.follow, tail_lines=wanted.tail_lines)

    def _of(self, pod: str) -> list[ContainerLog]:
        with self._lock:
            return list(self._attempts.get(pod, ()))


class JobWorld:
    """One namespace with jobs in it. Plays the operator and the kubelet through the API."""

    def __init__(self, client: Client, namespace: str = "") -> None:
        self.client = client
        self.namespace = namespace or f"jobs-{next(_numbers)}"
        if not namespace:
            client.create(NAMESPACES, "", {"metadata": {"name": self.namespace}}, decode)

    def submit(
        self, name: str = "mnist", labels: dict[str, str] | None = None, condition: str = "", **replicas: int
    ) -> Json:
        """A new job, of which this condition is true already."""
        body = tfjob(name, **replicas)
        body["metadata"] |= {"labels": labels or {}}
        made = self.client.create(TFJOBS, self.namespace, body, decode)
        if condition:
            self.becomes(condition, name)
        return made

    def job(self, name: str = "mnist") -> Json:
        return self.client.get(TFJOBS, self.namespace, name, decode)

    def becomes(
        self, condition: str, name: str = "mnist", *, message: str = "", status: str = "True", reason: str = ""
    ) -> None:
        """The condition is now the latest; Succeeded and Failed put an end to Running."""
        moment = now()
        old = [c for c in self.job(name).get("status", {}).get("conditions") or () if c["type"] != condition]
        if condition in ("Succeeded", "Failed"):
            old = [{**c, "status": "False"} if c["type"] == "Running" else c for c in old]
        new = {
            "type": condition,
            "status": status,
            "reason": reason or f"TFJob{condition}",
            "message": message or f"TFJob {name} is {condition}.",
            "lastUpdateTime": moment,
            "lastTransitionTime": moment,
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
        owner = owner_reference(self.job(job), controller=True)
        body = manifests.pod(name, labels, owner, nodeName="node-1")
        self.client.create(PODS, self.namespace, body, decode)
        self.pod_status(name, **status)
        return name

    def pod_status(
        self, name: str, phase: str = "Running", *, restarts: int = 0, waiting: str = "", exit_code: int | None = None
    ) -> None:
        last = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}} if restarts else None
        message = "for a reason" if waiting else ""
        status = manifests.pod_status(
            phase, restarts=restarts, last_state=last, waiting=waiting, message=message, exit_code=exit_code
        )
        self.client.patch(PODS, self.namespace, name, {"status": status}, decode, subresource="status")

    def event(self, kind: str, name: str, reason: str, message: str, *, warning: bool = False, **fields: Any) -> None:
        about = {"kind": kind, "namespace": self.namespace, "name": name}
        body = manifests.event(about, reason, message, warning=warning, **fields)
        self.client.create(EVENTS, self.namespace, body, decode)


def write_kubeconfig(path: Path, kubeconfig: Json, namespace: str) -> Path:
    """A kubeconfig file whose context names a namespace."""
    kubeconfig["contexts"][0]["context"]["namespace"] = namespace
    path.write_text(yaml.safe_dump(kubeconfig))
    return path


def submitted_manifest(name: str = "mnist", **replicas: int) -> str:
    """A manifest as a user writes it."""
    return yaml.safe_dump(tfjob(name, **replicas))


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
        doing.result(60)
