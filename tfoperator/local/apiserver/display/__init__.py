"""The representations of objects (JSON, metadata or a table), and their kinds' discovery and OpenAPI documents.
Pure, except for a file of this package (`builtin_schemas.json`).
"""
