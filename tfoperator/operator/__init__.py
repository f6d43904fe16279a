"""The assembled operator: an object for embedding (`Operator`), and a process (`python -m tfoperator.operator`)."""

from tfoperator.operator.operator import Operator
from tfoperator.operator.options.settings import Options
from tfoperator.operator.wiring import Reach
from tfoperator.operator.witnesses.log_looks import Seen

__all__ = ["Operator", "Options", "Reach", "Seen"]
