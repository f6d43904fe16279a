"""Computes the length of the lists of hosts that a job's processes get, and gives advice if a list is too long.

Each process gets the hosts of all processes in the variable TF_CONFIG, and also in arguments if the job requests this.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tfoperator.api.v1.choices import ReplicaType

MAX_TEXT_LENGTH = 131_071
"""The maximum number of bytes in a variable or argument. On Linux a variable with its name, or an argument, may have 32
pages of 4 KiB (MAX_ARG_STRLEN), including the zero byte at its end.
"""

MAX_TF_CONFIG_LENGTH = MAX_TEXT_LENGTH - len("TF_CONFIG=")

_TASK_LENGTH = 120
"""The length of TF_CONFIG without its hosts, rounded up."""

_OPTION_LENGTH = len("--evaluator_hosts=")

PER_HOST = len('"",')
"""The number of characters that each host needs in addition to the characters of its name."""

ALWAYS_ACCEPTED = MAX_TF_CONFIG_LENGTH - _TASK_LENGTH
"""`too_long` accepts every job whose hosts together have at most this number of characters, including PER_HOST
characters for each host.
"""


class HostList(NamedTuple):
    """The hosts (`host:port`) of one replica type: their number, and their total number of characters."""

    size: int
    characters: int


def too_long(hosts: Mapping[ReplicaType, HostList], *, dynamic: bool, arguments: bool) -> str:
    """Return the message for a job with a list that is too long to start its processes.

    The result is empty if the processes can start. `dynamic` is true for a job with `enableDynamicWorker`. `arguments`
    is true if the job's processes also get the hosts as arguments.
    """
    total = sum(of_type.size for of_type in hosts.values())
    in_tf_config = 0
    if total != 1:
        in_tf_config = _dynamic_tf_config(hosts) if dynamic else _tf_config(hosts)
    in_arguments = max((_argument(of_type) for of_type in hosts.values()), default=0) if arguments else 0
    advice = []
    if in_tf_config > MAX_TF_CONFIG_LENGTH:
        helps = not dynamic and _dynamic_tf_config(hosts) <= MAX_TF_CONFIG_LENGTH
        advice.append(
            "set spec.enableDynamicWorker: true, so that the list contains only the parameter servers"
            if helps
            else "reduce the number of replicas"
        )
    if in_arguments > MAX_TEXT_LENGTH:
        advice.append("set spec.clusterArguments: false, so that the arguments don't contain the hosts")
    if not advice:
        return ""
    return (
        f"has so many replicas that the list of their hosts has about {max(in_tf_config, in_arguments):,} "
        "characters, but Linux does not start a program if one of its variables or arguments has more than "
        f"{MAX_TF_CONFIG_LENGTH:,}; {', and '.join(advice)}"
    )


def _tf_config(hosts: Mapping[ReplicaType, HostList]) -> int:
    return _TASK_LENGTH + sum(map(_quoted, hosts.values()))


def _dynamic_tf_config(hosts: Mapping[ReplicaType, HostList]) -> int:
    """Return the length of the TF_CONFIG of a worker in a job with `enableDynamicWorker`.

    This TF_CONFIG names the chief and every PS. It is the longest in the job: other replicas get fewer hosts. The
    length is an estimate, because the worker's own host is not counted.
    """
    if not set(hosts) - {ReplicaType.PS}:
        return 0
    named = {ReplicaType.PS, ReplicaType.CHIEF, ReplicaType.MASTER}
    return _TASK_LENGTH + sum(_quoted(of_type) for replica_type, of_type in hosts.items() if replica_type in named)


def _quoted(hosts: HostList) -> int:
    return hosts.characters + hosts.size * PER_HOST


def _argument(hosts: HostList) -> int:
    return _OPTION_LENGTH + hosts.characters + hosts.size
