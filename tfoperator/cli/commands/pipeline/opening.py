"""For all commands about pipelines: finds the records of pipelines, and turns errors into messages for users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from tfoperator.cli.commands.launch import EXIT_RETRYABLE, Launching
from tfoperator.cli.page import DEFAULT_HOME as DEFAULT_DIRECTORY
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError

if TYPE_CHECKING:
    from tfoperator.pipeline import Home, MetadataStore

__all__ = ["DEFAULT_HOME", "HomeOption", "RunArgument", "in_words", "opened"]

HomeOption = Annotated[
    str,
    typer.Option(
        "--home",
        envvar="TFOPERATOR_PIPELINE_HOME",
        help="Where pipeline runs are recorded: a directory, or a database postgresql://HOST/DB?folder=LOGS, where "
        "LOGS is the directory or object store for the logs.",
        metavar="DIR|URL",
    ),
]
DEFAULT_HOME = str(DEFAULT_DIRECTORY)

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="The run: its id, or the word latest for the newest run.")
]


@contextmanager
def in_words(hint: str = "Nothing was launched.", *, failed: int = EXIT_FAILED) -> Iterator[None]:
    """Convert errors of pipelines that the block raises into CliErrors, which have a message, a hint and an exit code.

    The exit code is 2 for bad input, 75 if a retry may help, and `failed` for other errors. `hint` is the hint for bad
    input.
    """
    if find_spec("sqlalchemy") is None:
        raise CliError("pipelines need SQLAlchemy: pip install 'tfoperator[pipeline]'")
    from tfoperator.launcher import ComponentError, OwnershipLost
    from tfoperator.pipeline import CannotStop, RunInProgress, StoreError

    try:
        yield
    except RunInProgress as error:
        raise CliError(str(error), "Nothing was launched.", exit_code=EXIT_RETRYABLE) from None
    except OwnershipLost as error:
        raise CliError(str(error), "The running steps were not stopped.", exit_code=EXIT_RETRYABLE) from None
    except ComponentError as error:
        raise CliError(str(error), hint) from None
    except CannotStop as error:
        raise CliError(str(error), "Run the command again when the store can be reached.", exit_code=failed) from None
    except StoreError as error:
        code = EXIT_RETRYABLE if error.passing else failed
        hint = (
            "Running steps continue. When the store can be reached, repeat the command, and add --resume RUN to "
            "`pipeline run`."
            if error.passing
            else ""
        )
        raise CliError(f"the metadata store: {error}", hint, exit_code=code) from None


@contextmanager
def opened(path: str) -> Iterator[tuple[Home, MetadataStore]]:
    """Open the records of pipelines at `path`. Raises CliError if they do not exist."""
    with in_words():
        from tfoperator.pipeline import Home

        with closing(Home(path)) as home:
            if not home.exists():
                raise CliError(
                    f"there are no records of pipeline runs: {home} does not exist",
                    "If the run was recorded in another place, name this place with --home.",
                )
            with home.store() as store:
                yield home, store


FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="A pipeline in Python, or a pipeline file of Kubeflow Pipelines; see docs/pipelines.md."
    ),
]
ParamOption = Annotated[
    list[str] | None,
    typer.Option("--param", help="Value of a parameter; repeat the option for more parameters.", metavar="NAME=VALUE"),
]


class StepLaunching(Launching, frozen=True):
    """The options for the launch of a pipeline's steps. `run`, `step` and `compile` have these options."""

    platform: Annotated[
        str,
        typer.Option(
            "--platform",
            help="Platform to use, if FILE has configs for several platforms. A Python file has these configs in its "
            "variable PLATFORMS.",
            metavar="NAME",
        ),
    ] = ""
    cache: Annotated[
        bool | None,
        typer.Option(
            "--cache/--no-cache",
            help="Skip each step that succeeded earlier with the same program, inputs and parameters, and use the "
            "earlier outputs. Default: the pipeline's enable_cache.",
        ),
    ] = None
