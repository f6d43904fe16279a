"""The conversion webhook: API servers ask it for TFJobs in the other version.

An operator imports this package only if it is told to serve the webhook.
"""

from tfoperator.webhook.metrics import WebhookMetrics
from tfoperator.webhook.webhook import ConversionWebhook, WebhookConfig

__all__ = ["ConversionWebhook", "WebhookConfig", "WebhookMetrics"]
