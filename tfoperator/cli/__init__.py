"""The `tfoperator` command. `__main__` is where it starts, and `app` puts the commands together.

`commands` has one module per command; what several of them share stands beside this file. `views` says how jobs look,
`terminal` how a command talks to whoever started it. Each of these rooms imports from the later ones only.
"""
