"""The interface for callers of an API server: verbs as protocols and values, options, errors, and when to retry.

It does no I/O.
"""
