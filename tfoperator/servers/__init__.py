"""The HTTP servers of the operator's process, and the servers' certificates."""
