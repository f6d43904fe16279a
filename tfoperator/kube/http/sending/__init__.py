"""Requests: their content, and how they are sent, with a rate limit, credentials and retries, one or many at once."""
