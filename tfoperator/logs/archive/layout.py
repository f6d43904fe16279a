"""The layout of an archive, and its record of a pod. The module does no I/O.

The folder of a pod is `<root>/<namespace>/<job>-<job uid>/<pod>.<first 8 of its uid>/`. It contains `<container>.log`,
`<container>.previous.log` for the run before the container's last restart, and `<container>.<number>.log` for earlier
runs. It also contains `<container>.stacks.txt` if stacks of the container's threads were taken, and `pod.json`.
`pod.json` describes the pod, so that readers need not parse a path. A folder gets its final name only after it was
written completely.
"""

from __future__ import annotations

import hashlib
import logging
import re
from datetime import datetime
from pathlib import Path, PurePosixPath

import msgspec

from tfoperator.api.replicas.names import LABEL_PREFIX
from tfoperator.api.replicas.replica_pods import replica_phase, stopped_with_replica
from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.kube.views.objects import ObjectMeta, Pod

logger = logging.getLogger(__name__)

RECORD = "pod.json"

_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]")
_MAX_NAME = 200
"""The maximum number of characters that are kept of a name. File systems allow 255 bytes, and a suffix may follow the
name.
"""


class ArchivedContainer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The record of one container: its runs, and the files of their logs.

    `log`, `previous_log` and `stacks` are the names of files in the record's folder. They are empty if there is no such
    file.

    - `log` is the log of the run after `restarts` restarts. That run ended with `exit_code`, `reason` and `finished`;
      without an `exit_code`, the run had not ended.
    - `previous_log` is the log of the run before.
    - `earlier` are the runs before these two runs, the oldest first. Each has its own `log`.
    - `dropped` counts the first bytes of `log` that were left out because the log was too long.
    - `problem` is the reason if a log is missing or incomplete.
    - `stacks` is the file with the stacks of the container's threads. The latest stacks are at the end of this file.
    """

    name: str
    init: bool = False
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    finished: datetime | None = None
    log: str = ""
    previous_exit_code: int | None = None
    previous_finished: datetime | None = None
    previous_log: str = ""
    size: int = 0
    dropped: int = 0
    problem: str = ""
    stacks: str = ""
    earlier: tuple[ArchivedContainer, ...] = ()

    @property
    def runs(self) -> tuple[ArchivedContainer, ...]:
        """All runs that have a log, the oldest first. Each run is an object with its own log in `log`."""
        previous = ArchivedContainer(
            self.name,
            init=self.init,
            restarts=max(self.restarts - 1, 0),
            exit_code=self.previous_exit_code,
            finished=self.previous_finished,
            log=self.previous_log,
            problem=self.problem,
        )
        last = msgspec.structs.replace(self, previous_log="", earlier=())
        return tuple(run for run in (*self.earlier, previous, last) if run.log)


class ArchivedPod(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The state of a pod at the time when its logs were last kept.

    `labels` contains only the operator's own labels. `folder` is the pod's folder in the archive.
    """

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
    deletion_requested: datetime | None = None
    containers: tuple[ArchivedContainer, ...] = ()
    folder: str = ""

    def as_pod(self) -> Pod:
        """Return the pod, with the fields that are needed to select and sort pods."""
        meta = ObjectMeta(name=self.pod, namespace=self.namespace, uid=self.pod_uid, labels=self.labels)
        return Pod(metadata=meta)


def path_component(text: str) -> str:
    """Return a part of a path, made from any text. Names come from an API, so `..` must not lead out of the archive.

    Names that Kubernetes allows stay unchanged. Other names get a hash, which distinguishes names that would otherwise
    look the same.
    """
    safe = _UNSAFE_CHARACTERS.sub("_", text)
    if safe == text and 0 < len(text) <= _MAX_NAME and not text.startswith("."):
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"_{safe[:_MAX_NAME]}-{digest}"


def namespace_folder(namespace: str) -> PurePosixPath:
    """Return the folder of a namespace's jobs. All folders are relative to the archive."""
    return PurePosixPath(path_component(namespace))


def job_folder(namespace: str, job: str, uid: str) -> PurePosixPath:
    """Return the folder of a job's pods."""
    return namespace_folder(namespace) / path_component(f"{job}-{uid}")


def pod_folder(job: ObjectMeta, pod: ObjectMeta) -> PurePosixPath:
    """Return the folder of a pod's logs."""
    return job_folder(job.namespace, job.name, job.uid) / path_component(f"{pod.name}.{pod.uid[:8]}")


def stacks_name(container: str) -> str:
    """Return the name of the file with the stacks of the threads of a container."""
    return f"{path_component(container)}.stacks.txt"


def pod_record(job: ObjectMeta, pod: Pod, archived: datetime, containers: tuple[ArchivedContainer, ...]) -> ArchivedPod:
    """Return the record of a pod.

    If the operator has stopped the pod's other containers after the replica had ended, the pod's reason describes this
    stop. In this case the record omits the reason.
    """
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
        phase=replica_phase(pod),
        reason="" if stopped_with_replica(pod) else status.reason,
        message=status.message,
        created=meta.creation_timestamp,
        deletion_requested=meta.deletion_requested,
        containers=containers,
    )


def encode_record(record: ArchivedPod) -> bytes:
    """Return the content of `pod.json`. It has no `folder`: readers pass the folder's path to `decode_record`."""
    return msgspec.json.format(msgspec.json.encode(msgspec.structs.replace(record, folder="")), indent=2) + b"\n"


_decode_record = msgspec.json.Decoder(ArchivedPod).decode


def decode_record(data: bytes, folder: str = "") -> ArchivedPod | None:
    """Return the record that this content of a `pod.json` describes. Return None if the content is not readable."""
    try:
        return msgspec.structs.replace(_decode_record(data), folder=folder)
    except UNDECODABLE as error:
        logger.debug("%s is not the record of an archived pod: %s", folder, error)
        return None


def read_record(folder: Path) -> ArchivedPod | None:
    """Return the record in the folder of a pod. Return None if there is no readable record."""
    try:
        return decode_record((folder / RECORD).read_bytes(), str(folder))
    except OSError as error:
        logger.debug("%s is not the record of an archived pod: %s", folder, error)
        return None


def file_names(record: ArchivedPod | None) -> frozenset[str]:
    """Return the names of a record's files."""
    containers = record.containers if record is not None else ()
    names = {
        name
        for container in containers
        for run in (container, *container.earlier)
        for name in (run.log, run.previous_log, run.stacks)
    }
    return frozenset(filter(is_file_name, names))


def is_file_name(name: str) -> bool:
    """Return whether this is the name of a file in the record's folder, and not a path to another place."""
    return bool(name) and "/" not in name
