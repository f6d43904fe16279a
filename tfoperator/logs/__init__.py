"""The logs of containers.

`lines` reads a log line by line. `archive` keeps logs as files after their pods are gone. `stacks` reads the output of
the command that prints the stacks of a program's threads.
"""
