"""Executes plans by API calls, and computes when to sync the job again.

`PlanExecutor` carries out the phases (groups of actions), the status write and the events of a plan in order.
`ActionRunner` (`apply.py`) executes the actions for all kinds of objects in the same way. `OutcomeReporter` reports the
results. This package makes no decision about a job.
"""
