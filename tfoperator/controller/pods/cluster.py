"""The cluster description for replicas: TF_CONFIG, arguments for programs that don't read it, and abbreviations.

The cluster is the same for every replica and grows with their number, so it is rendered once per plan and only the
task differs: N replicas cost O(N), where rendering it per pod costs O(N^2).

The descriptions in all pods of a job grow with the square of their number: 45 MB for 1000 workers of one service, of
which nearly all is one host name with another number in it. The text between two numbers becomes a variable, to which
the list refers; the kubelet expands it before the program starts, also in arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import msgspec

from tfoperator.api.v1.choices import ReplicaType

_encode = msgspec.json.Encoder().encode

_MAX_PLAIN_LENGTH = 4096
"""Characters of the longest list that is not abbreviated: 35 to 145 replicas, by the length of their names. A person
who reads such a pod sees what the program gets, and the pod is not much larger."""

_MIN_VARIABLE_LENGTH = 10
"""A shorter text is hardly longer than a reference to it."""


class Abbreviations:
    """The variables that make the lists of hosts of one job short. Not thread-safe.

    They are called `name` (as short as can be, for they stand between any two hosts), and where that is in `taken` or
    there are several, `name` with more underscores.
    """

    def __init__(self, taken: Collection[str] = (), name: str = "_") -> None:
        self._taken = taken
        self._name = name
        self._values: dict[str, str] = {}

    @property
    def variables(self) -> Mapping[str, str]:
        """Names and values, without references; they must precede the joined texts."""
        return self._values

    def join(self, texts: Sequence[str], glue: str) -> str:
        """Return `glue.join(texts)`, with references to variables if that is long."""
        whole = glue.join(texts)
        if len(whole) <= _MAX_PLAIN_LENGTH or "$" in whole:
            return whole
        start = _common_start(texts)
        rests = [text.removeprefix(start) for text in texts]
        end = _common_start([rest[::-1] for rest in rests])[::-1]
        between = f"{end}{glue}{start}"
        if len(between) < _MIN_VARIABLE_LENGTH:
            return whole
        return f"{start}{self._reference(between).join(rest.removesuffix(end) for rest in rests)}{end}"

    def _reference(self, value: str) -> str:
        name = next((name for name, known in self._values.items() if known == value), None)
        if name is None:
            name = self._name
            while name in self._taken or name in self._values:
                name += "_"
            self._values[name] = value
        return f"$({name})"


class TFConfig:
    """Renders TF_CONFIG for the replicas of one job.

    `hosts` are the `host:port` of its replicas by type, in index order. Types are spelled in lower case (`chief`,
    `master`, `ps`, `worker`, `evaluator`) and sorted, as the Go operator's encoder does.

    `sparse` is the variant for dynamic workers: a process gets only the hosts that it must know at its start, so that
    workers can come and go without the others being restarted. A worker sees itself, every PS and the chief; the chief
    itself, every PS; a PS itself; an evaluator the chief. (The Go operator leaves the chief out, and chief-based
    training loops fail without it.)

    With `abbreviations` the text may refer to their variables.
    """

    def __init__(
        self, hosts: Mapping[ReplicaType, Sequence[str]], *, sparse: bool, abbreviations: Abbreviations | None = None
    ) -> None:
        self._hosts = {replica_type.lower(): list(listed) for replica_type, listed in sorted(hosts.items()) if listed}
        self._sparse = sparse
        self._cluster = "" if sparse else _whole_cluster(self._hosts, abbreviations)

    def render(self, replica_type: ReplicaType, index: int) -> str:
        """Return the JSON text for one replica."""
        task = f'{{"type":"{replica_type.lower()}","index":{index}}}'
        if self._sparse:
            return f'{{"cluster":{self._sparse_cluster(replica_type, index)},"task":{task}}}'
        return f'{{"cluster":{self._cluster},"task":{task},"environment":"cloud"}}'

    def _sparse_cluster(self, replica_type: ReplicaType, index: int) -> str:
        task = replica_type.lower()
        # The Go operator always names these two types: they are empty if the job does not have them.
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


class ClusterArguments:
    """Renders `--ps_hosts --worker_hosts --job_name --task_index` for the replicas of one job.

    The v1alpha2 design gave every replica these, and programs in the style of TensorFlow 1 still want them.

    `hosts` are the `host:port` of every replica by type, in index order. Each type that has replicas gets an argument
    `--{type}_hosts`; a type without any gets none, for a parser would turn an empty list into one host without a name.
    Dynamic workers get the workers that there are now: an index means a position in the whole list. With
    `abbreviations` the text may refer to their variables.
    """

    def __init__(
        self, hosts: Mapping[ReplicaType, Sequence[str]], *, abbreviations: Abbreviations | None = None
    ) -> None:
        join = ",".join if abbreviations is None else partial(abbreviations.join, glue=",")
        self._hosts = tuple(
            f"--{replica_type.lower()}_hosts={join(listed)}" for replica_type, listed in sorted(hosts.items()) if listed
        )

    def render(self, replica_type: ReplicaType, index: int) -> tuple[str, ...]:
        """Return the arguments of one replica."""
        return (*self._hosts, f"--job_name={replica_type.lower()}", f"--task_index={index}")


def _whole_cluster(hosts: Mapping[str, Sequence[str]], abbreviations: Abbreviations | None) -> str:
    if abbreviations is None:
        return _encode(dict(sorted(hosts.items()))).decode()
    members = []
    for task, listed in sorted(hosts.items()):
        joined = abbreviations.join([_encode(host).decode()[1:-1] for host in listed], glue='","')
        members.append(f'"{task}":["{joined}"]')
    return f"{{{','.join(members)}}}"


def _common_start(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    differs = (position for position, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return first[: next(differs, len(first))]
