"""Typed views of Kubernetes objects, reduced to the fields in use, and the rules for the data that caches keep.

The package does no I/O.
"""
