"""The measurements that the webhook reports, independent of any metrics library."""

from __future__ import annotations

from datetime import datetime


class WebhookMetrics:
    """Hooks that do nothing here: override what you need.

    They are called from many threads: they must be quick and must not raise.
    """

    def reviewed(self, version: str, objects: int, seconds: float) -> None:
        """Record an answered review: the number of objects converted to this API version, and the seconds it took."""

    def review_failed(self, reason: str) -> None:
        """Count a refused request, or a failed conversion; `reason` is one of a few words."""

    def certificate(self, expires: datetime) -> None:
        """Set the expiry of the certificate in use from now on."""

    def registered(self) -> None:
        """Count a write of the webhook's address and authority to the CRD."""
