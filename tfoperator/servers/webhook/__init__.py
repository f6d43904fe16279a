"""The conversion webhook. API servers call it if they need TFJobs in the other version.

An operator imports this package only if it serves the webhook.
"""
