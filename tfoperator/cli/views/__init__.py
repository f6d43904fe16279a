"""How do jobs, replicas and events look? Rows of tables, the text of `describe`, and what `run` shows.

`jobs` is pure; `listing` and `description` print for `get` and `describe`; `run` has
the live view of a run, and its last lines.
"""
