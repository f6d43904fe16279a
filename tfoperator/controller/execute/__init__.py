"""Executes plans by API calls, and computes when to sync the job again.

`PlanExecutor` keeps the order, `ActionRunner` (`apply.py`) carries out every action in the same way, for all kinds of
objects, and `OutcomeReporter` reports the results. This package makes no decision about a job.
"""
