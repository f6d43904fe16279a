"""The conversion webhook: API servers ask it for TFJobs in the other version.

An operator imports this package only if it is told to serve the webhook.
"""

from tfoperator.webhook.metrics import NoMetrics, WebhookMetrics
from tfoperator.webhook.server import ServerError
from tfoperator.webhook.webhook import ConversionWebhook, WebhookConfig

__all__ = ["ConversionWebhook", "NoMetrics", "ServerError", "WebhookConfig", "WebhookMetrics"]
