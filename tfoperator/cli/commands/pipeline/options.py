"""Options that commands which launch steps share, and those that compile what launches them."""

from __future__ import annotations

from typing import Annotated

import typer

from tfoperator.cli.commands.launch import CleanUpPolicy

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="A pipeline in Python; see docs/pipelines.md.")]
ParamOption = Annotated[list[str] | None, typer.Option("--param", help="A parameter.", metavar="NAME=VALUE")]
PlatformOption = Annotated[str, typer.Option("--platform", help="Which of the file's PLATFORMS.", metavar="NAME")]
CacheOption = Annotated[
    bool | None,
    typer.Option("--cache/--no-cache", help="Use again what is the same. Default: the pipeline's enable_cache."),
]
AttemptsOption = Annotated[
    int, typer.Option("--attempts", min=1, help="Executions of a step at most, where another try can help.")
]
CleanUpOption = Annotated[CleanUpPolicy, typer.Option("--clean-up", help="When a container that has ended is removed.")]
TmpPathOption = Annotated[
    str, typer.Option("--tmp-path", help="A directory that containers see under the same path.", metavar="DIR")
]
