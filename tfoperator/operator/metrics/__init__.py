"""The metrics at `/metrics`: one registry per operator, and the metrics of rooms that don't know Prometheus."""
