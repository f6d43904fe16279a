"""What the webhook reports about itself, without this package knowing any metrics library."""

from __future__ import annotations

from datetime import datetime


class WebhookMetrics:
    """Hooks that do nothing here: override what you need.

    They are called from many threads: they must be quick and must not raise.
    """

    def reviewed(self, version: str, objects: int, seconds: float) -> None:
        """A review was answered: so many objects were converted to this API version, in so many seconds."""

    def review_failed(self, reason: str) -> None:
        """A request was refused or an object could not be converted; `reason` is one of a few words."""

    def certificate(self, expires: datetime) -> None:
        """From now on a certificate is shown that expires then."""

    def registered(self) -> None:
        """The CRD was told the webhook's address and authority (anew)."""
