"""The `tfoperator` command. `__main__` is its entry point, and `app` assembles the commands.

`commands` has one module for each command; modules that several commands use are in this folder. `views` formats jobs,
`terminal` handles streams, signals and errors. `commands` may import `views` and `terminal`, and `views` may import
`terminal`. Imports in the other direction are not allowed.
"""
