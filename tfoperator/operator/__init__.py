"""The operator, wired: an object to embed (`Operator`) and a process (`python -m tfoperator.operator`)."""

from tfoperator.operator.metrics import OperatorMetrics
from tfoperator.operator.operator import Operator
from tfoperator.operator.options import Options, OptionsError, parse_options

__all__ = ["Operator", "OperatorMetrics", "Options", "OptionsError", "parse_options"]
