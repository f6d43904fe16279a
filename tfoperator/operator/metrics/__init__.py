"""What does `/metrics` show? One registry per operator; what only some operators have is imported with it."""

from tfoperator.operator.metrics.operator_metrics import CONTENT_TYPE, OperatorMetrics

__all__ = ["CONTENT_TYPE", "OperatorMetrics"]
