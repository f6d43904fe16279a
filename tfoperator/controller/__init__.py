"""The TFJob controller: observes jobs, plans changes, builds pods and services, and makes the API calls.

`TFJobController` runs the syncs. The subpackages are `pods`, `plan`, `ledger`, `kueue`, and at the end `observe` and
`execute`, which do not import each other: each may import only subpackages that come before it. This module exports
every name that the rest of the program uses.
"""

from tfoperator.controller.collaborators import Collaborators, PodWitnesses, StackKeeper
from tfoperator.controller.controller import ControllerOptions, TFJobController
from tfoperator.controller.kueue.objects import FLAVORS, OF_JOBS
from tfoperator.controller.ledger import is_older
from tfoperator.controller.metrics import CONTROLLER_NAME, ControllerMetrics
from tfoperator.controller.observe.informers import ControllerInformers
from tfoperator.controller.plan.decide import is_managed_by_others
from tfoperator.controller.plan.values.observed import Comparison, LogLines, NewestLine, PlanOptions
from tfoperator.controller.pods.additions import Accelerator, ProgressAccess
from tfoperator.controller.pods.gang import KUBERNETES_POD_GROUPS, GangKind, GangScheduler, gang_scheduler
from tfoperator.controller.pods.naming import PLAIN_NAMES, UNIQUE_NAMES
from tfoperator.controller.pods.scheduling_rules import ANY, SchedulingRules

__all__ = [
    "ANY",
    "CONTROLLER_NAME",
    "FLAVORS",
    "KUBERNETES_POD_GROUPS",
    "OF_JOBS",
    "PLAIN_NAMES",
    "UNIQUE_NAMES",
    "Accelerator",
    "Collaborators",
    "Comparison",
    "ControllerInformers",
    "ControllerMetrics",
    "ControllerOptions",
    "GangKind",
    "GangScheduler",
    "LogLines",
    "NewestLine",
    "PlanOptions",
    "PodWitnesses",
    "ProgressAccess",
    "SchedulingRules",
    "StackKeeper",
    "TFJobController",
    "gang_scheduler",
    "is_managed_by_others",
    "is_older",
]
