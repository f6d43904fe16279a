"""The storage: objects by resource type, their revisions, pages of lists, and selections.

Confined to the server's event loop.
"""
