"""Where things are in an archive, and what it knows of a pod. Pure.

`<root>/<namespace>/<job>-<job uid>/<pod>.<first 8 of its uid>/` holds `<container>.log`, `<container>.previous.log` for
the run before a restart in place, and `pod.json`. The file says what the pod was, so that nobody has to take a path
apart; a folder has it from the moment at which it has its name.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from pathlib import Path

import msgspec

from tfoperator.api.names import LABEL_PREFIX
from tfoperator.kube.objects import ContainerStatus, ObjectMeta, Pod

__all__ = [
    "RECORD",
    "ArchivedContainer",
    "ArchivedPod",
    "component",
    "decode_record",
    "describe",
    "encode_record",
    "job_folder",
    "namespace_folder",
    "pod_folder",
]

RECORD = "pod.json"

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST = 200
"""Characters of a name that are kept: file systems take 255 bytes, and something may follow."""


class ArchivedContainer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One container. `log` and `previous_log` are file names beside the record, empty for what there is not.

    `dropped` counts the first bytes of `log` that were left out because it was too long. `problem` says why a log is
    missing or not complete.
    """

    name: str
    init: bool = False
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    log: str = ""
    previous_log: str = ""
    size: int = 0
    dropped: int = 0
    problem: str = ""


class ArchivedPod(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a pod was when its logs were kept. `labels` are ours only. `folder` is where the files are."""

    namespace: str
    job: str
    job_uid: str
    pod: str
    pod_uid: str
    archived: datetime
    labels: dict[str, str] = {}
    node: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    created: datetime | None = None
    containers: tuple[ArchivedContainer, ...] = ()
    folder: str = ""

    def as_pod(self) -> Pod:
        """The pod, as far as selecting and sorting need it."""
        meta = ObjectMeta(name=self.pod, namespace=self.namespace, uid=self.pod_uid, labels=self.labels)
        return Pod(metadata=meta)


def component(text: str) -> str:
    """One part of a path, for any text: names come from an API, and `..` must not lead out of the archive.

    Names that Kubernetes allows stay as they are; of others, a hash keeps two apart that would look the same.
    """
    safe = _UNSAFE.sub("_", text)
    if safe == text and 0 < len(text) <= _LONGEST and not text.startswith("."):
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"_{safe[:_LONGEST]}-{digest}"


def namespace_folder(root: Path, namespace: str) -> Path:
    """Where the jobs of a namespace are."""
    return root / component(namespace)


def job_folder(root: Path, namespace: str, job: str, uid: str) -> Path:
    """Where the pods of a job are."""
    return namespace_folder(root, namespace) / component(f"{job}-{uid}")


def pod_folder(root: Path, namespace: str, job: str, job_uid: str, pod: ObjectMeta) -> Path:
    """Where the logs of a pod are."""
    return job_folder(root, namespace, job, job_uid) / component(f"{pod.name}.{pod.uid[:8]}")


def describe(job: ObjectMeta, pod: Pod, archived: datetime, containers: tuple[ArchivedContainer, ...]) -> ArchivedPod:
    """The record of a pod."""
    meta, status = pod.metadata, pod.status
    return ArchivedPod(
        namespace=meta.namespace,
        job=job.name,
        job_uid=job.uid,
        pod=meta.name,
        pod_uid=meta.uid,
        archived=archived,
        labels={key: value for key, value in meta.labels.items() if key.startswith(LABEL_PREFIX)},
        node=pod.spec.node_name,
        phase=status.phase,
        reason=status.reason,
        message=status.message,
        created=meta.creation_timestamp,
        containers=containers,
    )


def container_of(status: ContainerStatus, *, init: bool) -> ArchivedContainer:
    """What is known of a container without its log."""
    end = status.state.terminated if status.state is not None else None
    return ArchivedContainer(
        name=status.name,
        init=init,
        restarts=status.restart_count,
        exit_code=end.exit_code if end is not None else None,
        reason=end.reason if end is not None else "",
    )


def encode_record(record: ArchivedPod) -> bytes:
    """The content of `pod.json`; `folder` is left to where the file is."""
    return msgspec.json.format(msgspec.json.encode(msgspec.structs.replace(record, folder="")), indent=2) + b"\n"


decode_record = msgspec.json.Decoder(ArchivedPod).decode
"""Decodes the content of `pod.json`; raises msgspec.DecodeError if it isn't one."""
