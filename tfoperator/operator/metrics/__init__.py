"""The metrics at `/metrics`.

Each operator has one registry, which includes the metrics of packages that don't import Prometheus.
"""
