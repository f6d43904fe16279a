"""Builds requests, and sends one or many requests at once, with a rate limit, credentials and retries."""
