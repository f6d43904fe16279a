"""One module per command, with the function that Typer makes the command from; `tfoperator.cli.app` lists them.

`jobs` has those about the jobs of a cluster, `pipeline` those of `tfoperator pipeline`.

A command reads its options, asks the rooms below (SDK, local control plane, launcher) and prints the answer. What a
module imports at its top costs every command its time, so large libraries are imported in functions.
"""
