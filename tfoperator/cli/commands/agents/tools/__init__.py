"""The tools that an agent can call; `tool_table` lists them.

A tool gets the `scope` (the cluster and the files that the user named when the server started) and typed arguments, and
returns a typed answer. `effects` makes and checks the tokens that permit changes.
"""
