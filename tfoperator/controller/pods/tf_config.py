"""TF_CONFIG: what a TensorFlow process reads to learn who else is in its cluster and which task it is.

The cluster is the same for every replica and grows with their number, so it is rendered once per plan and only the
task differs: N replicas cost O(N), where rendering it per pod costs O(N^2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tfoperator.api.v1.types import ReplicaType
from tfoperator.controller.pods.abbreviations import Abbreviations

TF_CONFIG = "TF_CONFIG"
"""The name of the variable."""

_encode = msgspec.json.Encoder().encode


class TFConfig:
    """Renders TF_CONFIG for the replicas of one job.

    `hosts` are the `host:port` of every replica by type, in index order. Types are spelled in lower case (`chief`,
    `master`, `ps`, `worker`, `evaluator`) and sorted, as the Go operator's encoder does.

    `sparse` is the variant for dynamic workers: a process is told only of those it must know at its start, so that
    workers can come and go without the others being restarted. A worker sees itself, every PS and the chief; the
    chief itself, every PS; a PS itself; an evaluator the chief. (The Go operator leaves the chief out of it, which
    no chief-based training loop survives.)

    With `abbreviations` what is rendered may refer to their variables.
    """

    def __init__(
        self,
        hosts: Mapping[ReplicaType, Sequence[str]],
        *,
        sparse: bool,
        evaluator_in_cluster: bool = True,
        abbreviations: Abbreviations | None = None,
    ) -> None:
        self._hosts = {replica_type.lower(): list(listed) for replica_type, listed in sorted(hosts.items()) if listed}
        self._sparse = sparse
        if not evaluator_in_cluster:
            self._hosts.pop(ReplicaType.EVALUATOR.lower(), None)
        self._cluster = "" if sparse else _whole_cluster(self._hosts, abbreviations)

    def render(self, replica_type: ReplicaType, index: int) -> str:
        """The JSON text for one replica."""
        task = f'{{"type":"{replica_type.lower()}","index":{index}}}'
        if self._sparse:
            return f'{{"cluster":{self._sparse_cluster(replica_type, index)},"task":{task}}}'
        return f'{{"cluster":{self._cluster},"task":{task},"environment":"cloud"}}'

    def _sparse_cluster(self, replica_type: ReplicaType, index: int) -> str:
        task = replica_type.lower()
        # A missing type is spelled as empty for the two that the Go operator always names.
        cluster: dict[str, object] = {"worker": {}, "ps": []}
        if replica_type is ReplicaType.PS:
            cluster["ps"] = self._hosts[task][index : index + 1]
        else:
            for chief in (ReplicaType.CHIEF.lower(), ReplicaType.MASTER.lower()):
                if chief in self._hosts:
                    cluster[chief] = self._hosts[chief]
            if replica_type is not ReplicaType.EVALUATOR:
                cluster["ps"] = self._hosts.get(ReplicaType.PS.lower(), [])
        if replica_type is ReplicaType.WORKER:
            cluster["worker"] = {str(index): self._hosts[task][index]}
        return _encode(cluster).decode()


def _whole_cluster(hosts: Mapping[str, Sequence[str]], abbreviations: Abbreviations | None) -> str:
    if abbreviations is None:
        return _encode(dict(sorted(hosts.items()))).decode()
    members = []
    for task, listed in sorted(hosts.items()):
        joined = abbreviations.join([_encode(host).decode()[1:-1] for host in listed], glue='","')
        members.append(f'"{task}":["{joined}"]')
    return f"{{{','.join(members)}}}"
