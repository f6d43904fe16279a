"""Inspects the running pods of jobs that have a progress deadline (`progressDeadlineSeconds`), to detect stalls.

The package reads the newest lines of the logs of these pods, and takes the stacks of their threads.
"""
