"""An administrator's options for the pods of all jobs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tfoperator.api.v1.choices import Network
from tfoperator.controller.pods.additions import Accelerator, ProgressAccess
from tfoperator.controller.pods.gang import GangScheduler
from tfoperator.controller.pods.naming import Naming
from tfoperator.controller.pods.scheduling_rules import SchedulingRules


class PodOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options for pods besides the spec of their job. A member that an option of the operator sets has no default.

    `cluster_domain` is appended to the host names in TF_CONFIG (`cluster.local`; empty: the resolver's search path is
    enough, as the Go operator assumes). `evaluator_in_cluster` lists the evaluators in TF_CONFIG's cluster, which the
    Go operator does and some training loops reject, unless the job sets it. `accelerators` have, by resource name, the
    additions to containers that ask for the resource. `default_ps_image` runs the parameter servers of a job that has
    no template for them; empty, such a job is invalid. `default_tensorboard_image` runs TensorBoards that name none;
    `exposed_tensorboards` allows them services that are reached from outside the cluster.
    `naming` names the objects of jobs that have none yet, and `network` is theirs unless they set it. `gang` schedules
    the pods of a job together; None leaves each pod to the cluster's scheduler. `scheduling` lists the names allowed in
    their PodGroup. `progress` is the server for programs' reports, or None. `restart_rules`: kubelets restart
    containers by rules of exit codes.
    """

    cluster_domain: str
    evaluator_in_cluster: bool
    naming: Naming
    network: Network
    accelerators: Mapping[str, Accelerator]
    default_ps_image: str
    default_tensorboard_image: str
    exposed_tensorboards: bool
    gang: GangScheduler | None
    scheduling: SchedulingRules
    progress: ProgressAccess | None = None
    restart_rules: bool = True
