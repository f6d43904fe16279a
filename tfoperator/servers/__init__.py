"""The HTTP servers of the operator's process, and their certificates."""
