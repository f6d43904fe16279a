"""The operator's health and metrics endpoints, and their access control; `secure_metrics` is imported only if used."""
