"""One module per command, with the function of the Typer command; `tfoperator.cli.app` lists them.

`jobs` has the commands for the jobs of a cluster, `pipeline` those of `tfoperator pipeline`.

A command reads its options, calls the packages below (SDK, local control plane, launcher) and prints the result. A
module's top-level imports slow down every command, so large libraries are imported in functions. The SDK is not one of
these: the messages about errors and kept runs need it, so every command has loaded it.
"""
