"""Talking to an API server: configuration, transport, verbs, watch, errors, rate limit."""
