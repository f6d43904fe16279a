"""`tfoperator mcp`: answers questions of agents, over the Model Context Protocol on stdin and stdout.

A tool is a function that an agent can call. The rooms are the tools (`tools`), the texts and types that go to and from
an agent (`messages`), and the Model Context Protocol (`protocol`). `serving` is the command.
"""
