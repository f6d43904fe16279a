"""The logs of replicas, from their current pods or from the operator's log archive.

The runs of a replica form one sequence: first the runs of its deleted pods, then the runs of its current pod. The last
run in the sequence is the replica's log, and the run before it is the replica's previous log. Each of these logs may be
on the pod's node or in the archive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME, replica_name
from tfoperator.kube.views.objects import Pod
from tfoperator.logs.archive.layout import ArchivedContainer, ArchivedPod
from tfoperator.logs.archive.reader import read_archived
from tfoperator.sdk.logs.pod_logs import LogOptions
from tfoperator.sdk.states import pod_order


class ReplicaLog(msgspec.Struct, frozen=True):
    """The log of one run of a replica's container.

    `text` is None if there is no log, because the run has not started or never existed. If the log is from the archive,
    `archived` is the record of its pod, and `container` describes the run in this record. `pod` of an archived log has
    only a name and labels.
    """

    pod: Pod
    text: str | None
    archived: ArchivedPod | None = None
    container: ArchivedContainer | None = None

    @property
    def replica(self) -> str:
        """The name of the replica, for example `worker-0`."""
        return replica_name(self.pod)


def add_archived(
    pods: Sequence[Pod],
    texts: Mapping[str, str],
    archived: Iterable[ArchivedPod],
    wanted: LogOptions,
) -> list[ReplicaLog]:
    """Return one log for each replica, in the order of `pod_order`.

    `texts` has the logs of the current pods, by name. In `archived`, the oldest pod comes first. If `texts` has no log
    of a pod, the log comes from the archive, if it is there.
    """
    present = {pod.metadata.uid for pod in pods}
    kept: dict[str, ArchivedPod] = {}
    old: dict[str, list[ArchivedPod]] = {}
    for record in archived:
        if record.pod_uid in present:
            kept[record.pod_uid] = record
        else:
            old.setdefault(replica_name(record.as_pod()), []).append(record)
    logs = []
    for pod in pods:
        log = ReplicaLog(pod, texts.get(pod.metadata.name))
        before = old.pop(replica_name(pod), [])
        if log.text is None:
            mine = [kept[pod.metadata.uid]] if pod.metadata.uid in kept else []
            log = _find(before if wanted.previous else mine, 0, wanted) or log
        logs.append(log)
    for records in old.values():
        last = ReplicaLog(records[-1].as_pod(), None)
        logs.append(_find(records, 1 if wanted.previous else 0, wanted) or last)
    return sorted(logs, key=lambda log: pod_order(log.pod))


def _find(records: Sequence[ArchivedPod], back: int, wanted: LogOptions) -> ReplicaLog | None:
    """Return the log of an archived run of these pods. `back` is the number of later runs to skip: 0 for the last run.

    In `records`, the oldest pod comes first. If the log of this run is missing, return the log of an earlier run; None
    if there is no log.
    """
    runs = [
        (record, run)
        for record in reversed(records)
        if (container := _container(record, wanted.container)) is not None
        for run in reversed(container.runs)
    ]
    for record, run in runs[back:]:
        text = read_archived(record, run, tail_lines=wanted.tail_lines)
        if text is not None:
            return ReplicaLog(record.as_pod(), text, record, run)
    return None


def _container(record: ArchivedPod, name: str) -> ArchivedContainer | None:
    wanted = name or DEFAULT_CONTAINER_NAME
    named = next((container for container in record.containers if container.name == wanted), None)
    mains = [container for container in record.containers if not container.init]
    return named if named is not None or name else next(iter(mains), None)
