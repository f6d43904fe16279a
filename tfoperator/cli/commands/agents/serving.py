"""`tfoperator mcp [FILE ...]`: answers questions of agents, over the Model Context Protocol on stdin and stdout."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tfoperator.cli.cluster import ArchiveDir, ClusterOptions
from tfoperator.cli.page import DEFAULT_HOME, checked_home
from tfoperator.cli.terminal.errors import CliError


def mcp(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE ...]",
            help="With --allow-changes: Python programs that agents may run, and manifests that agents may run or "
            "submit.",
        ),
    ] = None,
    allow_changes: Annotated[
        bool,
        typer.Option(
            "--allow-changes",
            help="Allow agents to change jobs. The user sees the effect of each change first, and confirms the change. "
            "If the agent's program can't ask the user, the agent confirms the change.",
        ),
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--directory",
            help="Folder with the runs of `tfoperator run` that agents may read. Default: the current folder.",
            metavar="DIR",
        ),
    ] = None,
    pipelines: Annotated[
        str | None,
        typer.Option(
            "--pipelines",
            help="Directory or database of the pipeline runs that agents may read. Default: .tfoperator/pipelines in "
            "the folder of --directory.",
            metavar="DIR|URL",
        ),
    ] = None,
    archive_dir: ArchiveDir = None,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Serve agents over stdin and stdout (Model Context Protocol): they read reports, logs, progress, fields.

    It needs no cluster: it also reads the runs of tfoperator run in a folder. It uses your own rights in the cluster;
    --namespace limits it to one namespace. It changes nothing without --allow-changes.
    """
    if find_spec("mcp") is None:
        raise CliError("`tfoperator mcp` needs the package mcp: pip install 'tfoperator[mcp]'")
    if files and not allow_changes:
        raise CliError("FILE is for the tools run and submit, which need --allow-changes")
    named = {word: Path(word).absolute() for word in files or ()}
    missing = [word for word, path in named.items() if not path.is_file()]
    if missing:
        raise CliError(f"{missing[0]}: this file does not exist")
    home = DEFAULT_HOME if pipelines is None else _place_of_pipelines(pipelines)
    # Imported late: these modules need the package mcp.
    from tfoperator.cli.commands.agents.protocol.server import serve
    from tfoperator.cli.commands.agents.tools.changes import Changes
    from tfoperator.cli.commands.agents.tools.scope import Scope
    from tfoperator.cli.commands.agents.tools.tool_table import READING, changing

    kubeconfig = cluster.kubeconfig and str(Path(cluster.kubeconfig).absolute())
    archive = archive_dir if archive_dir is None or "://" in archive_dir else str(Path(archive_dir).absolute())
    if directory is not None:
        os.chdir(directory)  # the paths above are relative to the folder where the user typed them
    scope = Scope(
        msgspec.structs.replace(cluster, kubeconfig=kubeconfig), archive_dir=archive, pipelines=str(home), files=named
    )
    changes = Changes()

    def finish() -> None:
        changes.close()
        scope.close()

    serve(scope, (*READING, *(changing(changes) if allow_changes else ())), finish)


def _place_of_pipelines(place: str) -> Path | str:
    """Return the value of `--pipelines`: an absolute path, or a URL. Raises CliError for a URL that can't be used."""
    if "://" not in place:
        return Path(place).absolute()
    from tfoperator.cli.commands.pipeline.opening import in_words

    with in_words(""):
        return checked_home(place)
