"""Who asks the operator how it is, and may they? Health and metrics; `secure_metrics` is imported only if wanted."""

from tfoperator.servers.endpoints.endpoint import LIMITS, Endpoint

__all__ = ["LIMITS", "Endpoint"]
