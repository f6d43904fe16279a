"""The options of plans, made from an administrator's options. Pure."""

from __future__ import annotations

from typing import Any

from tfoperator.api.v1.choices import Network
from tfoperator.controller import PLAIN_NAMES, UNIQUE_NAMES, PlanOptions, gang_scheduler
from tfoperator.operator.options.settings import Options

_COPIED = frozenset(PlanOptions.__struct_fields__) & frozenset(Options.__struct_fields__)
"""An option of the operator with the name of a member of `PlanOptions` is that member."""


def plan_options(options: Options, **more: Any) -> PlanOptions:
    """Return the options of plans; `more` are members that no option sets, or that differ from the options."""
    members: dict[str, Any] = {name: getattr(options, name) for name in _COPIED}
    members["gang"] = gang_scheduler(options.gang_scheduler_name)
    members["naming"] = UNIQUE_NAMES if options.unique_names else PLAIN_NAMES
    members["network"] = Network(options.default_network)
    return PlanOptions(**members | more)
