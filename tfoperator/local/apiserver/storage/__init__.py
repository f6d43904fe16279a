"""The storage: objects by resource type, their revisions, pages of lists, and label and field selectors.

Use it only in the server's event loop.
"""
