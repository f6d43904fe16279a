"""The conversion webhook: API servers call it for TFJobs in the other version.

An operator imports this package only if it serves the webhook.
"""

from tfoperator.servers.webhook.metrics import WebhookMetrics
from tfoperator.servers.webhook.webhook import ConversionWebhook, WebhookConfig

__all__ = ["ConversionWebhook", "WebhookConfig", "WebhookMetrics"]
