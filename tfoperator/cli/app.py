"""Assembles the commands and runs a command; converts each failure into a message and an exit code."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

import tfoperator
from tfoperator.base.controlchars import in_utf8
from tfoperator.cli.command_table import COMMANDS, GROUPS, Command, CommandGroup
from tfoperator.cli.option_groups import flat
from tfoperator.cli.terminal.errors import EXIT_INTERRUPTED, CliError
from tfoperator.cli.terminal.output import note
from tfoperator.cli.terminal.stdio import discard_unwritable, prepare

_NAME: Final = "tfoperator"
_COMPLETION_VARIABLE: Final = "_TFOPERATOR_COMPLETE"
"""The name that Typer gives to the variable with which a shell requests completions."""


def make_app(words: Sequence[str] | None = None) -> typer.Typer:
    """Return the Typer application.

    `words` are the command-line arguments without options. With `words`, only the module of the command that `words`
    name is imported. For every other command the application contains only the line for `--help`.
    """
    app = typer.Typer(
        name=_NAME,
        help="Run distributed TensorFlow jobs (TFJob) on Kubernetes, or on this machine without a cluster.",
        no_args_is_help=True,
        rich_markup_mode="markdown",  # joins the lines of a docstring, whose width is not the terminal's
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    _register(app, COMMANDS, words)
    # `tfoperator operator` itself never gets here (see __main__); this adds it to the help.
    app.command(
        "operator",
        help="Run the operator: in a cluster, or on this machine with a kubeconfig.",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    )(_operator)
    for name, group in GROUPS.items():
        if words is None or words[:1] == [name]:
            app.add_typer(_group(group, None if words is None else words[1:]), name=name)
        else:
            app.command(name, help=group.summary)(_not_loaded)
    return app


def _register(app: typer.Typer, commands: Mapping[str, Command], words: Sequence[str] | None) -> None:
    for name, command in commands.items():
        if words is None or words[:1] == [name]:
            app.command(name)(flat(command.load()))
        else:
            app.command(name, help=command.summary)(_not_loaded)


def _group(group: CommandGroup, words: Sequence[str] | None) -> typer.Typer:
    if group.itself is None:
        app = typer.Typer(help=group.summary, no_args_is_help=True)
        _register(app, group.commands, words)
        return app
    app = typer.Typer()
    app.callback(invoke_without_command=True)(flat(group.itself.load()))
    _register(app, group.commands, None)  # the words may be values of the group's own options
    return app


def _not_loaded() -> None:
    raise AssertionError("only loaded commands can run")


def _words(arguments: Sequence[str]) -> list[str] | None:
    """Return the arguments without options. Return None if a shell requests completions, which need all commands."""
    if _COMPLETION_VARIABLE in os.environ:
        return None
    return [word for word in arguments if not word.startswith("-")]


def run_app(arguments: Sequence[str]) -> int:
    """Run one command; return the exit code. Never raises."""
    prepare()
    try:
        # Typer itself reports usage errors, aborts and broken pipes, and ends each of them with SystemExit.
        make_app(_words(arguments))(list(arguments), prog_name=_NAME)
    except SystemExit as done:
        # Compare the name of the class, since new releases of Typer have their own NoSuchOption in place of Click's.
        if type(done.__context__).__name__ == "NoSuchOption":
            _explain(arguments)
        return done.code if isinstance(done.code, int) else 0
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last handler before a user would see a traceback
        discard_unwritable()
        from tfoperator.cli.terminal.complaints import complain

        return complain(_about_arguments(error, arguments), debug="--debug" in arguments)
    return 0


def _about_arguments(error: Exception, arguments: Sequence[str]) -> Exception:
    """Return a CliError that names the argument if an argument that is not UTF-8 caused the error, else the error."""
    odd = [word for word in arguments if word != in_utf8(word)]
    if not isinstance(error, UnicodeEncodeError) or not odd:
        return error
    usage = CliError(f"{odd[0]}: is not UTF-8")
    usage.__cause__ = error
    return usage


def _explain(arguments: Sequence[str]) -> None:
    """Print a hint after Typer has reported an unknown option: options of the user's program must come after `--`.

    Print nothing unless the command is `run` or `submit` with a program and without `--`.
    """
    from tfoperator.cli.program_job import is_program

    programs = [word for word in arguments if is_program(word)]
    command = next((word for word in arguments if not word.startswith("-")), "")
    if command in ("run", "submit") and programs and "--" not in arguments:
        note(f"Put options of {programs[0]} itself after --: tfoperator {command} {programs[0]} -- --epochs 3")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tfoperator {tfoperator.__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show Python's traceback of an error.")] = False,
) -> None:
    pass


def _operator(context: typer.Context) -> None:
    from tfoperator.operator.__main__ import main as operator_main

    raise typer.Exit(operator_main(context.args))
