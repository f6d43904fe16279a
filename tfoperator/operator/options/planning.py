"""Makes the options of the function `plan` (`PlanOptions`) from the administrator's options. Pure."""

from __future__ import annotations

from typing import Any

from tfoperator.api.v1.choices import Network
from tfoperator.controller import PLAIN_NAMES, UNIQUE_NAMES, PlanOptions, gang_scheduler
from tfoperator.operator.options.settings import Options

_COPIED = frozenset(PlanOptions.__struct_fields__) & frozenset(Options.__struct_fields__)
"""The fields that `Options` and `PlanOptions` both have, by name. Their values are copied."""


def plan_options(options: Options, **more: Any) -> PlanOptions:
    """Return the `PlanOptions` for these options of the operator.

    `more` sets fields of `PlanOptions` that no option sets, or replaces the values of options.
    """
    members: dict[str, Any] = {name: getattr(options, name) for name in _COPIED}
    members["gang"] = gang_scheduler(options.gang_scheduler_name)
    members["naming"] = UNIQUE_NAMES if options.unique_names else PLAIN_NAMES
    members["network"] = Network(options.default_network)
    return PlanOptions(**members | more)
