"""A cluster that a test plays: a fake API server with logs and metrics. It does nothing by itself."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tests.support import manifests
from tests.support.container_log import ContainerLog
from tests.support.fake_api import FakeApi, api_error
from tests.support.manifests import metadata, owner_reference
from tfoperator.api.replicas.names import replica_labels
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.resources import EVENTS, PODS
from tfoperator.kube.protocol.verbs import ListPage
from tfoperator.sdk.usage import POD_METRICS

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def moment(seconds: float) -> str:
    """A time so many seconds after `START`, as the API writes it."""
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class PlayedStream:
    """One reader of a log."""

    def __init__(self, log: ContainerLog, tail_lines: int | None, follow: bool) -> None:
        self._closed = threading.Event()
        self._data = log.read(tail_lines=tail_lines, follow=follow, stopped=self._closed.is_set)

    def __iter__(self) -> Iterator[bytes]:
        return self._data

    def close(self) -> None:
        self._closed.set()

    def __enter__(self) -> PlayedStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Stage(FakeApi):
    """Jobs, pods, events, metrics and logs as a test wants them; stands for a `tfoperator.kube.Client`."""

    server = "https://stage.test"
    namespace = "default"

    def __init__(self) -> None:
        super().__init__()
        self.logs: dict[str, ContainerLog] = defaultdict(ContainerLog)  # by pod; with " before" of the run before
        self.metrics: dict[str, dict[str, Any]] = {}  # by pod; apart, for they are called pods, too
        self.closed = False

    def close(self) -> None:
        self.closed = True
        for log in self.logs.values():
            log.end()

    def pod_log(
        self,
        namespace: str,
        name: str,
        container: str = "",
        *,
        follow: bool = False,
        previous: bool = False,
        tail_lines: int | None = None,
        since: str | int | None = None,
        timestamps: bool = False,
    ) -> PlayedStream:
        log = f"{name} before" if previous else name
        if log not in self.logs:
            raise api_error(400, "BadRequest", "the container has not started")
        return PlayedStream(self.logs[log], tail_lines, follow)

    def job(self, name: str, *, namespace: str = "default", workers: int = 2, **parts: Any) -> dict[str, Any]:
        """A job, with `status`, `labels`, `runPolicy` if they are given."""
        specs = {"Worker": {"replicas": workers, "template": {"spec": {}}}}
        policy = {"runPolicy": parts["runPolicy"]} if "runPolicy" in parts else {}
        body = {**manifests.job(name, specs, **policy), "status": parts.get("status", {})}
        when = parts.get("created", moment(0))
        body["metadata"] = metadata(name, parts.get("labels"), namespace=namespace, creationTimestamp=when)
        return self.put(TFJOBS, body)

    def pod(self, job: dict[str, Any], index: int, *, kind: str = "worker", **parts: Any) -> dict[str, Any]:
        """Make a pod of a replica, which runs unless `status` has another state."""
        meta = job["metadata"]
        running = {"running": {"startedAt": moment(10)}}
        container = {"name": "tensorflow", "ready": True, "restartCount": 0, "state": running}
        status = {"phase": "Running", "startTime": moment(2), "containerStatuses": [container]}
        replica_type = next(member for member in ReplicaType if member.lower() == kind)
        labels = replica_labels(meta["name"], replica_type, index, is_master=False)
        owner = owner_reference(job, controller=True)
        when = parts.get("created", moment(1))
        about = metadata(
            f"{meta['name']}-{kind}-{index}", labels, owner, namespace=meta["namespace"], creationTimestamp=when
        )
        resources = {"limits": {"cpu": "2", "memory": "4Gi"}}
        image = parts.get("image", "example.com/train:1")
        containers = [{"name": "tensorflow", "image": image, "resources": resources}]
        spec = {"nodeName": "node-a", "containers": containers}
        return self.put(PODS, {"metadata": about, "spec": spec, "status": parts.get("status", status)})

    def event(
        self, job: dict[str, Any], reason: str, message: str, *, warning: bool = False, at: float | str = 5
    ) -> None:
        """Add an event about a job, at a time as the API writes it, or so many seconds after `START`."""
        when = at if isinstance(at, str) else moment(at)
        about = {"kind": "TFJob", **{key: job["metadata"][key] for key in ("namespace", "name", "uid")}}
        number = len(self.objects(EVENTS))
        meta = metadata(f"{about['name']}.{number}", namespace=about["namespace"], creationTimestamp=when)
        kind = "Warning" if warning else "Normal"
        fields = {"type": kind, "reason": reason, "message": message, "involvedObject": about, "lastTimestamp": when}
        self.put(EVENTS, {"metadata": meta, **fields})

    def use(self, pod: dict[str, Any], cpu: str, memory: str, *, at: float, **others: str) -> None:
        """Set the usage of a pod, in the form of the metrics API."""
        meta = pod["metadata"]
        body = {
            "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
            "timestamp": moment(at),
            "containers": [{"name": "tensorflow", "usage": {"cpu": cpu, "memory": memory, **others}}],
        }
        self.metrics[meta["name"]] = body

    def list(self, resource: Any, *arguments: Any, **options: Any) -> Any:
        if resource != POD_METRICS:
            return super().list(resource, *arguments, **options)
        if not self.metrics:
            raise api_error(404, "NotFound", "the server could not find the requested resource")
        _, decode = arguments[:2]
        return ListPage(tuple(decode(msgspec.json.encode(metric)) for metric in self.metrics.values()), "1")


def condition(kind: str, message: str, status: str = "True") -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": f"TFJob{kind}",
        "message": message,
        "lastTransitionTime": moment(9),
    }


def train(stage: Stage, name: str = "mnist", workers: int = 3) -> dict[str, Any]:
    """A job that runs and reports, with logs and metrics."""
    metrics = [{"name": "loss", "value": "2.301"}, {"name": "accuracy", "value": "0.12"}]
    progress = {
        "percentage": 42, "step": 420, "totalSteps": 1000, "estimatedRemainingSeconds": 200, "metrics": metrics,
        "behind": [{"name": "worker-2", "step": 397}], "lastUpdatedTime": moment(30),
    }  # fmt: skip
    status = {
        "conditions": [condition("Running", f"TFJob {name} is running.")],
        "startTime": moment(2),
        "ready": f"{workers}/{workers}",
        "progress": progress,
        "usage": {"phase": "lost", "since": moment(90), "seconds": {"starting": 30, "training": 60}},
    }
    job = stage.job(name, workers=workers, status=status)
    for index in range(workers):
        pod = stage.pod(job, index)
        stage.use(pod, f"{300 + index}m", "512Mi", at=20)
        lines = "".join(f"\x1b[32mstep {n}\x1b[0m loss={1 / (n + 1):.4f} worker {index}\n" for n in range(300))
        stage.logs[pod["metadata"]["name"]].write(lines)
    stage.event(job, "SuccessfulCreatePod", f"Created {workers} pods.")
    return job


def report(stage: Stage, name: str, number: int, loss: float) -> None:
    metrics = [{"name": "loss", "value": str(loss)}]
    progress = {
        "percentage": 42 + number,
        "step": 420 + 10 * number,
        "lastUpdatedTime": moment(30 + number),
        "metrics": metrics,
    }
    stage.edit(TFJOBS, "default", name, {"status": {"progress": progress}})
