"""Builds requests, and sends them singly or many concurrently, with a rate limit, credentials and retries."""
