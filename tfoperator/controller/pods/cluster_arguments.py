"""The cluster as command-line arguments, for programs that parse `--worker_hosts` and know nothing of TF_CONFIG.

The v1alpha2 design gave every replica `--ps_hosts --worker_hosts --job_name --task_index`, and programs in the style of
TensorFlow 1 still want them. The cluster is the one that TF_CONFIG names, rendered once per plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tfoperator.api.v1.types import ReplicaType
from tfoperator.controller.pods.abbreviations import Abbreviations


class ClusterArguments:
    """Renders the arguments for the replicas of one job.

    `hosts` are the `host:port` of every replica by type, in index order. Each type that has replicas gets an argument
    `--{type}_hosts`; a type without any gets none, for a parser would make one host without name of an empty list.
    Dynamic workers get the workers that there are now: an index means a position in the whole list.
    With `abbreviations` what is rendered may refer to their variables.
    """

    def __init__(
        self,
        hosts: Mapping[ReplicaType, Sequence[str]],
        *,
        evaluator_in_cluster: bool = True,
        abbreviations: Abbreviations | None = None,
    ) -> None:
        join = ",".join if abbreviations is None else partial(abbreviations.join, glue=",")
        self._hosts = tuple(
            f"--{replica_type.lower()}_hosts={join(listed)}"
            for replica_type, listed in sorted(hosts.items())
            if listed and (evaluator_in_cluster or replica_type is not ReplicaType.EVALUATOR)
        )

    def render(self, replica_type: ReplicaType, index: int) -> tuple[str, ...]:
        """The arguments of one replica."""
        return (*self._hosts, f"--job_name={replica_type.lower()}", f"--task_index={index}")
