"""The display of jobs, replicas and events: rows of tables, the text of `describe`, and the output of `run`.

`jobs` does no I/O; `listing` and `description` print for `get` and `describe`; `run` has
the live view of a run, and its summary.
"""
