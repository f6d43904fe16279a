"""`tfoperator mcp`: answers questions of agents, over the Model Context Protocol on stdin and stdout.

`tool_table` lists the tools. A tool is a function that an agent can call. It gets the `scope` (the cluster and the
files that the user named when the server started) and typed arguments, and returns a typed answer (`answers`).
`harmless` and `bounded` are pure: `harmless` makes texts from unknown authors safe for an agent, and `bounded` shortens
an answer. `effects` has the tokens of changes, and `confirmation` has the questions to the user. Only `server` and
`confirmation` know the package `mcp`.
"""
