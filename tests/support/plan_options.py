"""Options of plans and of a controller, as the operator makes them from the defaults of its own options."""

from typing import Any

from tfoperator.controller import ControllerOptions, PlanOptions
from tfoperator.operator import Options
from tfoperator.operator.options import planning


def plan_options(**changes: Any) -> PlanOptions:
    """Return the default options of plans with these changes; statuses are written without delay."""
    return planning.plan_options(Options(), **changes)


def controller_options(**changes: Any) -> ControllerOptions:
    """Return the default options of a controller with these changes."""
    return ControllerOptions(**{"threadiness": Options().threadiness, "plan": plan_options()} | changes)
