"""Inspects the running pods of jobs that have a progress deadline (`progressDeadlineSeconds`), to detect stalls.

It reads the newest lines of their logs, and takes stacks.
"""
