"""Inspection of the running pods of jobs with a progress deadline: the newest lines of their logs, and stacks."""
