"""The metrics at `/metrics`.

Each operator has one registry. Packages that don't import Prometheus report their metrics through hooks, which classes
in this package implement.
"""
