"""Makes the options of plans from the administrator's options. Pure."""

from __future__ import annotations

from typing import Any

from tfoperator.api.v1.choices import Network
from tfoperator.controller import PLAIN_NAMES, UNIQUE_NAMES, PlanOptions, gang_scheduler
from tfoperator.operator.options.settings import Options

_COPIED = frozenset(PlanOptions.__struct_fields__) & frozenset(Options.__struct_fields__)
"""If an option of the operator has the same name as a member of `PlanOptions`, the member gets the option's value."""


def plan_options(options: Options, **more: Any) -> PlanOptions:
    """Return the options of plans. `more` has the members that no option sets, and values that replace the options."""
    members: dict[str, Any] = {name: getattr(options, name) for name in _COPIED}
    members["gang"] = gang_scheduler(options.gang_scheduler_name)
    members["naming"] = UNIQUE_NAMES if options.unique_names else PLAIN_NAMES
    members["network"] = Network(options.default_network)
    return PlanOptions(**members | more)
