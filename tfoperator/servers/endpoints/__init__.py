"""The operator's endpoints for health and metrics, and the access control of metrics.

`secure_metrics` (metrics over HTTPS) is imported only if an option enables it.
"""
