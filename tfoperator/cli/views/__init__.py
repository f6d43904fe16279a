"""Shows jobs, replicas and events: as rows of tables, as the text of `describe`, and as the output of `run`.

`jobs` does no I/O; `listing` and `description` print for `get` and `describe`; `run` has
the live view of a run, and its summary.
"""
