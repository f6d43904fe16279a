"""Makes the cluster description for replicas: TF_CONFIG, or arguments for programs that don't read TF_CONFIG.

The cluster is the same for every replica, and its size grows with their number. So it is rendered once per plan, and
only the task differs. N replicas cost O(N); rendering the cluster per pod would cost O(N^2).

The descriptions in all pods of a job together grow with the square of the number of pods: 45 MB for 1000 workers with
one service. Nearly all of this text is the same host name with another number in it. So the text between two numbers
becomes a variable, and the list refers to this variable. The kubelet expands the variable before the program starts,
also in arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import msgspec

from tfoperator.api.v1.choices import ReplicaType

_encode = msgspec.json.Encoder().encode

_MAX_PLAIN_LENGTH = 4096
"""The maximum number of characters of a list of hosts that is not abbreviated. This is a list of 35 to 145 replicas,
depending on the length of their names. If a list is not abbreviated, a person who reads the pod sees the same text as
the program, and the pod is not much larger.
"""

_MIN_VARIABLE_LENGTH = 10
"""If a text is shorter than this, abbreviating it saves almost nothing."""


class Abbreviations:
    """The variables that shorten the lists of hosts of one job. Not thread-safe.

    A variable is called `name`, which is short because it stands between any two hosts. If `name` is in `taken` (names
    that the templates use), or if there are several variables, more underscores follow `name`.
    """

    def __init__(self, taken: Collection[str] = (), name: str = "_") -> None:
        self._taken = taken
        self._name = name
        self._values: dict[str, str] = {}

    @property
    def variables(self) -> Mapping[str, str]:
        """The names and values of the variables.

        A pod's `env` must list them before any variable that refers to them.
        """
        return self._values

    def join(self, texts: Sequence[str], glue: str) -> str:
        """Return `glue.join(texts)`. If the result is long, it contains references to variables."""
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
        name = next((name for name, known_value in self._values.items() if known_value == value), None)
        if name is None:
            name = self._name
            while name in self._taken or name in self._values:
                name += "_"
            self._values[name] = value
        return f"$({name})"


class TFConfig:
    """Renders TF_CONFIG for the replicas of one job.

    `hosts` contains the `host:port` of the job's replicas by type, in index order. Types are in lower case (`chief`,
    `master`, `ps`, `worker`, `evaluator`) and sorted, as in the output of the Go operator's encoder.

    `sparse` is the variant for dynamic workers: each process gets only the hosts that it needs at its start. So workers
    can be added or removed, and the other workers need no restart. A worker gets its own host, every PS and the chief.
    A chief gets its own host and every PS. A PS gets only its own host. An evaluator gets the chief. (The Go operator
    does not give the chief's host to the other replicas, and then chief-based training loops fail.)

    With `abbreviations` the text may refer to the variables of `abbreviations`.
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

    In the v1alpha2 design every replica gets these arguments, and programs in the style of TensorFlow 1 still need
    them.

    `hosts` contains the `host:port` of every replica by type, in index order. Each type that has replicas gets an
    argument `--{type}_hosts`. A type without replicas gets no argument, because a parser would read an empty list as
    one host without a name. Dynamic workers, too, get the hosts of all current workers: programs use the task index as
    a position in this list. With `abbreviations` the text may refer to the variables of `abbreviations`.
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
    differs = (
        position for position, (of_first, of_last) in enumerate(zip(first, last, strict=False)) if of_first != of_last
    )
    return first[: next(differs, len(first))]
