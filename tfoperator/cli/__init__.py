"""The `tfoperator` command. `__main__` is its entry point, and `app` assembles the commands.

`commands` has one module per command; modules shared by several are in this folder. `views` formats jobs,
`terminal` handles streams, signals and errors. Each of these packages imports only from the packages named after it.
"""
