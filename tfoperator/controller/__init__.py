"""The TFJob controller: observes jobs, plans changes, builds pods and services, and makes the API calls.

`TFJobController` runs the syncs. The subpackages are `pods`, `plan`, `ledger`, and then `observe` and `execute`: each
may import those before it. This module exports every name that the rest of the program uses.
"""

from tfoperator.controller.collaborators import (
    Collaborators,
    ControllerMetrics,
    LogLooks,
    PodArchive,
    PodWitnesses,
    StackKeeper,
)
from tfoperator.controller.controller import ControllerOptions, TFJobController
from tfoperator.controller.execute.status import status_patch
from tfoperator.controller.kinds import OwnedKind
from tfoperator.controller.kueue.objects import FLAVORS, WORKLOADS
from tfoperator.controller.ledger import StaleCache, is_older
from tfoperator.controller.observe.informers import ControllerInformers
from tfoperator.controller.plan.actions import Action, Create, Delete, DeleteReason, KeepLogs, Patch, Plan, PlannedEvent
from tfoperator.controller.plan.decide import is_managed_by_others, plan
from tfoperator.controller.plan.draft import MAX_REQUEUE
from tfoperator.controller.plan.observed import Comparison, LogLines, NewestLine, Observed, PlanOptions
from tfoperator.controller.pods.additions import Accelerator, ProgressAccess
from tfoperator.controller.pods.gang import (
    COSCHEDULING_POD_GROUPS,
    KUBERNETES_POD_GROUPS,
    VOLCANO_POD_GROUPS,
    GangKind,
    GangScheduler,
    PodGroup,
    decode_pod_group,
    gang_scheduler,
)
from tfoperator.controller.pods.naming import NAMINGS, PLAIN_NAMES, UNIQUE_NAMES
from tfoperator.controller.pods.options import DEFAULT_TENSORBOARD_IMAGE
from tfoperator.controller.pods.scheduling_rules import ANY, AllowedNames, SchedulingRules

__all__ = [
    "ANY",
    "COSCHEDULING_POD_GROUPS",
    "DEFAULT_TENSORBOARD_IMAGE",
    "FLAVORS",
    "KUBERNETES_POD_GROUPS",
    "MAX_REQUEUE",
    "NAMINGS",
    "PLAIN_NAMES",
    "UNIQUE_NAMES",
    "VOLCANO_POD_GROUPS",
    "WORKLOADS",
    "Accelerator",
    "Action",
    "AllowedNames",
    "Collaborators",
    "Comparison",
    "ControllerInformers",
    "ControllerMetrics",
    "ControllerOptions",
    "Create",
    "Delete",
    "DeleteReason",
    "GangKind",
    "GangScheduler",
    "KeepLogs",
    "LogLines",
    "LogLooks",
    "NewestLine",
    "Observed",
    "OwnedKind",
    "Patch",
    "Plan",
    "PlanOptions",
    "PlannedEvent",
    "PodArchive",
    "PodGroup",
    "PodWitnesses",
    "ProgressAccess",
    "SchedulingRules",
    "StackKeeper",
    "StaleCache",
    "TFJobController",
    "decode_pod_group",
    "gang_scheduler",
    "is_managed_by_others",
    "is_older",
    "plan",
    "status_patch",
]
