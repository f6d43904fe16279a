"""Puts the commands together and runs one, turning every way to fail into a message and an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

import tfoperator
from tfoperator.cli import (
    convert,
    crd,
    delete,
    describe,
    events,
    get,
    launch,
    local,
    logs,
    run,
    scale,
    submit,
    suspend,
    validate,
    wait,
)
from tfoperator.cli.errors import EXIT_INTERRUPTED, complain
from tfoperator.cli.stdio import prepare

__all__ = ["make_app", "run_app"]


def make_app() -> typer.Typer:
    """The application with every command registered."""
    app = typer.Typer(
        name="tfoperator",
        help="Run distributed TensorFlow jobs (TFJob) on Kubernetes, or right here without a cluster.",
        no_args_is_help=True,
        rich_markup_mode="markdown",  # joins the lines of a docstring, whose width is not the terminal's
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    client = (submit, get, describe, logs, events, wait, suspend, scale, delete)
    for command in (run, *client, launch, local, validate, convert, crd):
        command.register(app)
    # `tfoperator operator` itself never comes here (see __main__); this puts it into the help.
    app.command(
        "operator",
        help="Run the controller, in a cluster or against a kubeconfig.",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    )(_operator)
    return app


def run_app(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code. Never raises."""
    prepare()
    try:
        # Typer itself words usage errors, aborts and broken pipes, and ends all of them with SystemExit.
        make_app()(list(arguments), prog_name="tfoperator")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last stop before a user would see a traceback
        return complain(error, debug="--debug" in arguments)
    return 0


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tfoperator {tfoperator.__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something goes wrong.")] = False,
) -> None:
    pass


def _operator(context: typer.Context) -> None:
    from tfoperator.operator.__main__ import main as operator_main

    raise typer.Exit(operator_main(context.args))
