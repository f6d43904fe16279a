"""The interface of a client of an API server: the verbs, their requests and options, errors, and backoffs for retries.

The package does no I/O.
"""
