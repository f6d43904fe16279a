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
    """The administrator's settings for the pods of jobs, in addition to the settings in a job's spec.

    A field whose value comes from an option of the operator has no default value in this class.
    """

    cluster_domain: str
    """The domain that is appended to the host names in TF_CONFIG, for example `cluster.local`. If it is empty, the
    resolver's search path completes the host names, as the Go operator assumes.
    """
    evaluator_in_cluster: bool
    """Whether TF_CONFIG's cluster lists the evaluators of jobs that don't set this themselves. The Go operator lists
    the evaluators, but some training loops reject such a cluster.
    """
    naming: Naming
    """The naming for the objects of jobs that have no objects yet."""
    network: Network
    """The network of jobs that have no objects yet and whose spec sets no network."""
    accelerators: Mapping[str, Accelerator]
    """The additions to containers, by the name of the resource that a container requests."""
    default_ps_image: str
    """The image of the parameter servers of a job that has no template for them. If it is empty, such a job is
    invalid.
    """
    default_tensorboard_image: str
    """The image of TensorBoards whose spec names no image."""
    exposed_tensorboards: bool
    """Whether clients outside the cluster may reach the services of TensorBoards."""
    gang: GangScheduler | None
    """The scheduler that schedules all pods of a job together; None if the cluster's scheduler places each pod by
    itself.
    """
    scheduling: SchedulingRules
    """The names that jobs may use in their PodGroup."""
    progress: ProgressAccess | None = None
    """The server to which programs report their progress, if there is such a server."""
    restart_rules: bool = True
    """Whether kubelets restart containers by `restartPolicyRules`, which are rules about exit codes."""
