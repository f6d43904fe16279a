"""Reads the log of a container over any number of connections.

Each line is read once, in order, even if connections break. If a log is read again, `ResumableLines` finds the lines
that are new. `ResumableLines` does no I/O: `LogReader` passes each response through it. `open_pod_log` opens the log of
a pod's container. For the logs of another platform, a caller needs its own function that returns a `LogConnection`.
Only the caller can find out when a container has ended.
"""
