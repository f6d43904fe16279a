"""The TFJob controller: observe (caches), plan (pure), execute (API calls)."""

from tfoperator.controller.accelerators import Accelerator
from tfoperator.controller.actions import (
    DEFAULT_TENSORBOARD_IMAGE,
    BoardAction,
    BoardCreate,
    BoardDelete,
    BoardPatch,
    DeleteReason,
    Observed,
    Plan,
    PlannedEvent,
    PlanOptions,
    PodCreate,
    PodDelete,
    ServiceCreate,
    ServiceDelete,
)
from tfoperator.controller.caches import ControllerInformers
from tfoperator.controller.controller import ControllerOptions, TFJobController
from tfoperator.controller.execute import PlanExecutor
from tfoperator.controller.gang import GangScheduler, PodGroup, gang_scheduler
from tfoperator.controller.job_events import Recorder
from tfoperator.controller.memory import ReconcileNote, is_older
from tfoperator.controller.metrics import ControllerMetrics, NoControllerMetrics
from tfoperator.controller.naming import peer_object_name, unique_object_name
from tfoperator.controller.outcome import Outcome
from tfoperator.controller.plan import plan
from tfoperator.controller.stale_cache import StaleCache
from tfoperator.controller.status_patch import status_patch

__all__ = [
    "DEFAULT_TENSORBOARD_IMAGE",
    "Accelerator",
    "BoardAction",
    "BoardCreate",
    "BoardDelete",
    "BoardPatch",
    "ControllerInformers",
    "ControllerMetrics",
    "ControllerOptions",
    "DeleteReason",
    "GangScheduler",
    "NoControllerMetrics",
    "Observed",
    "Outcome",
    "Plan",
    "PlanExecutor",
    "PlanOptions",
    "PlannedEvent",
    "PodCreate",
    "PodDelete",
    "PodGroup",
    "ReconcileNote",
    "Recorder",
    "ServiceCreate",
    "ServiceDelete",
    "StaleCache",
    "TFJobController",
    "gang_scheduler",
    "is_older",
    "peer_object_name",
    "plan",
    "status_patch",
    "unique_object_name",
]
