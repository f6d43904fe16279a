"""The operator's endpoints for health and metrics, and the access control of metrics.

`secure_metrics` is imported only if it is used.
"""
