"""The HTTP servers of the operator's process, and the certificates that they show."""
