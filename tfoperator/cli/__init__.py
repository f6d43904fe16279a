"""The `tfoperator` command. `__main__` is its entry point, and `app` assembles the commands.

`commands` has one module for each command; modules that several commands use are in this folder. `views` formats jobs,
`terminal` handles streams, signals and errors. These packages import from each other only in this order: `commands`
from `views` and `terminal`, `views` from `terminal`.
"""
