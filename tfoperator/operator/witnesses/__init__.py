"""Inspects the running pods of jobs that have a progress deadline.

It reads the newest lines of their logs, and takes stacks.
"""
