"""The `tfoperator` command: one module per command, `app` puts them together, `__main__` is the way in."""
