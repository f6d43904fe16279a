"""`tfoperator mcp`: answers questions of agents, over the Model Context Protocol on stdin and stdout.

A tool is a function that an agent can call. The package `tools` contains the tools, `messages` contains the texts and
types that go to and from an agent, and `protocol` contains the Model Context Protocol. `serving` is the command.
"""
