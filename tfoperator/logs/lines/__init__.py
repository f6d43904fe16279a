"""Reads the log of one container over any number of connections: each line once, in order, even after cuts.

`ResumableLines` decides which lines of a log that is read again are new, without I/O. `LogReader` reads each response
through it. `open_pod_log` opens the log of a pod's container; another platform's logs need their own
function that returns a `LogConnection`. Only the caller knows when a container has ended.
"""
