"""Reads the log of one container over any number of connections: each line once, in order, whatever was cut.

`ResumableLines` decides which lines of a log that is read again are new; it is pure. `LogReader` reads one answer after
the other through it. `open_pod_log` opens the log of a pod's container; another platform's logs need a function of
their own that returns a `LogConnection`. Nothing here knows when a container has ended: that is the caller's question.
"""

from tfoperator.logs.lines.lines import ResumableLines
from tfoperator.logs.lines.pods import open_pod_log
from tfoperator.logs.lines.reader import LogConnection, LogCut, LogNotYet, LogReader, NoLog

__all__ = ["LogConnection", "LogCut", "LogNotYet", "LogReader", "NoLog", "ResumableLines", "open_pod_log"]
