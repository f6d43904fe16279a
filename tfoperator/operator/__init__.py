"""The operator, wired: an object to embed (`Operator`) and a process (`python -m tfoperator.operator`)."""

from tfoperator.operator.log_looks import Seen
from tfoperator.operator.metrics import OperatorMetrics
from tfoperator.operator.operator import WATCH_BATCH_PERIOD, Operator
from tfoperator.operator.option_parsers import Address
from tfoperator.operator.options import Options, OptionsError, parse_options

__all__ = [
    "WATCH_BATCH_PERIOD",
    "Address",
    "Operator",
    "OperatorMetrics",
    "Options",
    "OptionsError",
    "Seen",
    "parse_options",
]
