"""How much of the machine containers use: rates between two measurements, taken only when somebody looks.

`UsageMeter` measures, `Usage` is what it says. Peaks of memory are the runtime's (`Runtime.peaks`).
"""

from tfoperator.local.usage.meter import UsageMeter
from tfoperator.local.usage.rates import (
    ContainerUsage,
    Machine,
    MachineUse,
    Reading,
    Usage,
    read_machine,
    usage_between,
)

__all__ = [
    "ContainerUsage",
    "Machine",
    "MachineUse",
    "Reading",
    "Usage",
    "UsageMeter",
    "read_machine",
    "usage_between",
]
