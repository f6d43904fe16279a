"""Inspection of the running pods of jobs with a progress deadline: the newest lines of their logs, and stacks."""

from tfoperator.operator.witnesses.log_looks import LogLooker, NewestLineOf, Seen, newest_line_from
from tfoperator.operator.witnesses.stall_stacks import CommandRunner, StackTaker

__all__ = ["CommandRunner", "LogLooker", "NewestLineOf", "Seen", "StackTaker", "newest_line_from"]
