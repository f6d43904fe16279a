"""The metrics at `/metrics`: one registry per operator, and the metrics of packages that don't import Prometheus."""
