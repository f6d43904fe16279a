"""The formats of objects (JSON, metadata or a table), and the discovery and OpenAPI documents of their kinds. The code
is pure, except that it reads the schemas of the built-in kinds (`objects.builtin_fields`).
"""
