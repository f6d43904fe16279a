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
    """The options for pods that the spec of their job does not contain.

    If an option of the operator sets a member of this class, the member has no default here. `cluster_domain` is
    appended to the host names in TF_CONFIG (for example `cluster.local`). If it is empty, the resolver's search path
    completes the names, as the Go operator assumes. `evaluator_in_cluster` lists the evaluators in TF_CONFIG's cluster,
    unless the job sets this itself. The Go operator lists the evaluators, but some training loops reject such a
    cluster. `accelerators` contains additions to containers, by the name of the resource that the container requests.
    `default_ps_image` is the image of the parameter servers of a job that has no template for them. If it is empty,
    such a job is invalid. `default_tensorboard_image` is the image of TensorBoards that name no image.
    `exposed_tensorboards` allows services of TensorBoards that clients outside the cluster can reach. `naming` names
    the objects of jobs that have no objects yet. `network` is the network of these jobs, unless their spec sets it.
    With `gang` the scheduler schedules the pods of a job together. If `gang` is None, the cluster's scheduler places
    each pod by itself. `scheduling` lists the names that jobs may use in their PodGroup. `progress` is the server to
    which programs report, or None. With `restart_rules` kubelets restart containers by rules about exit codes.
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
