"""The storage: objects by resource type, their revisions, pages of lists, and selections.

Use it only in the server's event loop.
"""
