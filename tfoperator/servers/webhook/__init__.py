"""The conversion webhook. API servers call it to convert TFJobs between the versions v1 and v1alpha2.

The operator imports this package only if an option enables the webhook.
"""
