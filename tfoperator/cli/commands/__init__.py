"""One module per command, with the function of the Typer command; `tfoperator.cli.command_table` lists them.

`jobs` has the commands for the jobs of a cluster, `pipeline` has the commands of `tfoperator pipeline`.

A command reads its options, calls lower packages (SDK, local control plane, launcher) and prints the result. Only the
module of the command that runs is imported. If an import is large and not always needed, a module has it inside
functions, so that `--help` and error messages appear at once.
"""
