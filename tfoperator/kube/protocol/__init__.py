"""The interface for callers of an API server: verbs as protocols and values, options, errors, and when to retry.

The package does no I/O.
"""
