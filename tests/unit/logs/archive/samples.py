"""Pods and jobs with logs, for the archive's tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from tfoperator.api.replicas.names import replica_labels
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.kube.views.objects import ObjectMeta, Pod, PodSpec
from tfoperator.kube.views.pod_status import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodStatus,
)
from tfoperator.logs.archive.layout import ArchivedContainer, ArchivedPod

JOB_UID = "0a0b0c0d-1111-2222-3333-444455556666"
JOB = ObjectMeta(name="mnist", namespace="vision", uid=JOB_UID)


def ended(code: int = 137, finished: datetime | None = None) -> ContainerState:
    return ContainerState(terminated=ContainerStateTerminated(exit_code=code, reason="Error", finished_at=finished))


def running(name: str = "tensorflow", *, restarts: int = 0) -> ContainerStatus:
    last = ended(1) if restarts else None
    return ContainerStatus(name=name, restart_count=restarts, state=ContainerState(), last_state=last)


def waiting(name: str = "tensorflow", reason: str = "ImagePullBackOff") -> ContainerStatus:
    return ContainerStatus(name=name, state=ContainerState(waiting=ContainerStateWaiting(reason=reason)))


def pod(index: int = 0, *containers: ContainerStatus, uid: str = "", init: Sequence[ContainerStatus] = ()) -> Pod:
    labels = replica_labels("mnist", ReplicaType.WORKER, index, is_master=index == 0)
    meta = ObjectMeta(
        name=f"mnist-worker-{index}", namespace="vision", uid=uid or f"{index:08d}-aaaa", labels={**labels, "team": "x"}
    )
    statuses = containers or (ContainerStatus(name="tensorflow", state=ended()),)
    status = PodStatus(phase="Failed", container_statuses=statuses, init_container_statuses=tuple(init))
    return Pod(metadata=meta, spec=PodSpec(node_name="node-7"), status=status)


def record(
    index: int = 0, *, uid: str, minute: int = 0, job_uid: str = JOB_UID, folder: str = "", previous: bool = False
) -> ArchivedPod:
    meta = pod(index).metadata
    before = "tensorflow.previous.log" if previous else ""
    return ArchivedPod(
        namespace="vision",
        job="mnist",
        job_uid=job_uid,
        pod=meta.name,
        pod_uid=uid,
        archived=datetime(2026, 1, 1, 12, minute, tzinfo=UTC),
        labels={key: value for key, value in meta.labels.items() if key != "team"},
        containers=(ArchivedContainer("tensorflow", exit_code=137, log="tensorflow.log", previous_log=before),),
        folder=folder,
    )


class Text:
    """A log that arrives in pieces; `gate` holds up each piece until it is set."""

    def __init__(self, pieces: Sequence[bytes], gate: threading.Event | None, error: Exception | None) -> None:
        self._pieces = pieces
        self._gate = gate
        self._error = error
        self._closed = threading.Event()

    def __enter__(self) -> Text:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            while self._gate is not None and not self._gate.wait(0.01):
                if self._closed.is_set():
                    return
            yield piece
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        self._closed.set()


class Source:
    """A client of logs: what is asked for is in `asked`; `texts` and `errors` are by (pod, container, previous)."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str, bool], list[bytes]] = {}
        self.errors: dict[tuple[str, str, bool], Exception] = {}
        self.late_error: Exception | None = None
        self.gate: threading.Event | None = None
        self.asked: list[tuple[str, str, bool]] = []

    def pod_log(self, namespace: str, name: str, container: str = "", *, previous: bool = False) -> Text:
        key = (name, container, previous)
        self.asked.append(key)
        if key in self.errors:
            raise self.errors[key]
        default = [f"{name} {container}{' before' if previous else ''}\n".encode()]
        return Text(self.texts.get(key, default), self.gate, self.late_error)
