"""Executes plans by API calls, and computes when to sync the job again.

`PlanExecutor` keeps the order of the steps. `ActionRunner` (`apply.py`) executes the actions for all kinds of objects
in the same way. `OutcomeReporter` reports the results. This package makes no decision about a job.
"""
