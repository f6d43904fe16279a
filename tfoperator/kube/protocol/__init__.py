"""The interface that callers of an API server use: verbs as protocols and values, options, errors, when to try again.

It does no I/O.
"""
