"""The assembled operator: an object to embed (`Operator`) and a process (`python -m tfoperator.operator`)."""

from tfoperator.operator.metrics.operator_metrics import OperatorMetrics
from tfoperator.operator.operator import WATCH_BATCH_PERIOD, Operator
from tfoperator.operator.options.reading import parse_options
from tfoperator.operator.options.settings import Options, OptionsError
from tfoperator.operator.wiring import Reach
from tfoperator.operator.witnesses.log_looks import Seen

__all__ = [
    "WATCH_BATCH_PERIOD",
    "Operator",
    "OperatorMetrics",
    "Options",
    "OptionsError",
    "Reach",
    "Seen",
    "parse_options",
]
