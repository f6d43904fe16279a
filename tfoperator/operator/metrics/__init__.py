"""The metrics at `/metrics`: one registry per operator; optional parts are imported only where needed."""

from tfoperator.operator.metrics.operator_metrics import CONTENT_TYPE, OperatorMetrics

__all__ = ["CONTENT_TYPE", "OperatorMetrics"]
