"""`tfoperator mcp`: answers for agents, by the Model Context Protocol over stdin and stdout.

`tool_table` lists the tools. A tool is a function: it gets the `scope` (everything that the user named at the start)
and typed arguments, and returns a typed answer (`answers`). `harmless` and `bounded` are pure: they make the texts of
strangers harmless, and an answer short. `effects` has the tokens of changes, and `confirmation` has the questions to
the user. Only `server` and `confirmation` know the package `mcp`.
"""
