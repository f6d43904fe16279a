"""Assembles the commands and runs one, converting every failure into a message and an exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

import tfoperator
from tfoperator.base.controlchars import in_utf8
from tfoperator.cli.commands import local
from tfoperator.cli.commands.convert import convert
from tfoperator.cli.commands.crd import print_crd
from tfoperator.cli.commands.jobs.changing import delete, resume, scale, suspend
from tfoperator.cli.commands.jobs.diagnosing import report, stacks
from tfoperator.cli.commands.jobs.logs import logs
from tfoperator.cli.commands.jobs.looking import describe, events, get
from tfoperator.cli.commands.jobs.submit import submit
from tfoperator.cli.commands.jobs.wait import wait
from tfoperator.cli.commands.launch import launch
from tfoperator.cli.commands.migrate import migrate
from tfoperator.cli.commands.pipeline import compiling, looking, running, stepping
from tfoperator.cli.commands.run import run
from tfoperator.cli.commands.runs import compare, runs
from tfoperator.cli.commands.ui import ui
from tfoperator.cli.commands.validate import validate
from tfoperator.cli.option_groups import flat
from tfoperator.cli.program_job import is_program
from tfoperator.cli.terminal.errors import EXIT_INTERRUPTED, CliError, complain
from tfoperator.cli.terminal.output import note
from tfoperator.cli.terminal.stdio import discard_unwritable, prepare

_COMMANDS: Mapping[str, Callable[..., None]] = {
    "run": run,
    "submit": submit,
    "get": get,
    "describe": describe,
    "logs": logs,
    "report": report,
    "stacks": stacks,
    "events": events,
    "ui": ui,
    "wait": wait,
    "suspend": suspend,
    "resume": resume,
    "scale": scale,
    "delete": delete,
    "launch": launch,
    "validate": validate,
    "convert": convert,
    "migrate": migrate,
    "crd": print_crd,
}
"""Commands by name, in the order of the help."""

_LOCAL_COMMANDS: Mapping[str, Callable[..., None]] = {"up": local.up, "down": local.down, "status": local.status}
"""The commands of `tfoperator local`."""

_PIPELINE_COMMANDS: Mapping[str, Callable[..., None]] = {
    "run": running.run,
    "runs": looking.runs,
    "show": looking.show,
    "logs": looking.logs,
    "lineage": looking.lineage,
    "graph": looking.graph,
    "ui": looking.ui,
    "stop": running.stop,
    "clean": running.clean,
    "compile": compiling.compile_pipeline,
    "step": stepping.step,
    "finish": stepping.finish,
}
"""The commands of `tfoperator pipeline`."""


def make_app() -> typer.Typer:
    """Return the application with every command registered."""
    app = typer.Typer(
        name="tfoperator",
        help="Run distributed TensorFlow jobs (TFJob) on Kubernetes, or right here without a cluster.",
        no_args_is_help=True,
        rich_markup_mode="markdown",  # joins the lines of a docstring, whose width is not the terminal's
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, command in _COMMANDS.items():
        app.command(name)(flat(command))
    group = typer.Typer(help="A control plane in the background, for kubectl and friends.", no_args_is_help=True)
    for name, command in _LOCAL_COMMANDS.items():
        group.command(name)(flat(command))
    app.add_typer(group, name="local")
    kept = typer.Typer()
    kept.callback(invoke_without_command=True)(flat(runs))
    kept.command("compare")(flat(compare))
    app.add_typer(kept, name="runs")
    pipelines = typer.Typer(help="Pipelines of components, and what came from what.", no_args_is_help=True)
    for name, command in _PIPELINE_COMMANDS.items():
        pipelines.command(name)(flat(command))
    app.add_typer(pipelines, name="pipeline")
    # `tfoperator operator` itself never gets here (see __main__); this adds it to the help.
    app.command(
        "operator",
        help="Run the controller, in a cluster or against a kubeconfig.",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    )(_operator)
    return app


def run_app(arguments: Sequence[str]) -> int:
    """Run one command; return the exit code. Never raises."""
    prepare()
    try:
        # Typer itself reports usage errors, aborts and broken pipes, and ends each of them with SystemExit.
        make_app()(list(arguments), prog_name="tfoperator")
    except SystemExit as done:
        # By its name, since new releases of Typer have a class of their own in place of Click's.
        if type(done.__context__).__name__ == "NoSuchOption":
            _explain(arguments)
        return done.code if isinstance(done.code, int) else 0
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last handler before a user would see a traceback
        discard_unwritable()
        return complain(_about_arguments(error, arguments), debug="--debug" in arguments)
    return 0


def _about_arguments(error: Exception, arguments: Sequence[str]) -> Exception:
    """Return the error, or the command-line error that caused it."""
    odd = [word for word in arguments if word != in_utf8(word)]
    if not isinstance(error, UnicodeEncodeError) or not odd:
        return error
    usage = CliError(f"{odd[0]}: is not UTF-8")
    usage.__cause__ = error
    return usage


def _explain(arguments: Sequence[str]) -> None:
    """Print a hint after the error of an unknown option, which Typer has reported."""
    programs = [word for word in arguments if is_program(word)]
    command = next((word for word in arguments if not word.startswith("-")), "")
    if command in ("run", "submit") and programs and "--" not in arguments:
        note(f"Options of {programs[0]} itself come after --: tfoperator {command} {programs[0]} -- --epochs 3")


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
