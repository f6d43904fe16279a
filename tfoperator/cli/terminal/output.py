"""The output of commands: tables and facts for people, JSON and YAML for programs; colours on a terminal only."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, TextIO

import typer

from tfoperator.base.controlchars import json_text, printable, reorders


class ListFormat(StrEnum):
    """The formats in which `get` prints jobs."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


class ObjectFormat(StrEnum):
    """The formats in which a command that changes a job reports the change."""

    TEXT = "text"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


class ReportFormat(StrEnum):
    """The formats of output for people and for programs."""

    TEXT = "text"
    JSON = "json"


class ManifestFormat(StrEnum):
    """The formats in which a command prints manifests."""

    YAML = "yaml"
    JSON = "json"


ListOutput = Annotated[ListFormat, typer.Option("--output", "-o", help="Output format.")]
ObjectOutput = Annotated[ObjectFormat, typer.Option("--output", "-o", help="Output format.")]
ReportOutput = Annotated[ReportFormat, typer.Option("--output", "-o", help="Output format.")]
ManifestOutput = Annotated[ManifestFormat, typer.Option("--output", "-o", help="Output format.")]

REPLICA_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta")
"""The colours for the prefixes of log lines; each new replica gets the next colour."""

_STATE_COLOURS = {
    "Succeeded": "green",
    "Completed": "green",
    "Running": "cyan",
    "Failed": "red",
    "TimedOut": "red",
    "Died": "red",
    "Interrupted": "yellow",
    "CrashLoopBackOff": "red",
    "Restarting": "yellow",
    "Suspended": "blue",
}
_GAP = "   "


def say(text: str) -> None:
    """Print a line on standard output."""
    typer.echo(printable(text))


def note(text: str) -> None:
    """Print a line for the user on standard error, so that standard output contains only the result of the command."""
    typer.echo(printable(text), err=True)


def uses_colour(stream: TextIO | None = None) -> bool:
    """Return whether to use colours: on a terminal that supports them, unless NO_COLOR is set."""
    stream = stream or sys.stdout
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str | None, *, enabled: bool) -> str:
    """Return the text in a colour."""
    return typer.style(text, fg=colour) if enabled and colour else text


def state_colour(state: str) -> str | None:
    """Return the colour of a job's or pod's state."""
    return _STATE_COLOURS.get(state)


class TableWriter:
    """Prints rows in columns. The first call of `write` determines the widths of all columns except the last.

    The cells of column `state_column` are printed in the colour of the state that they contain.
    """

    def __init__(self, header: Sequence[str], *, state_column: int | None = None) -> None:
        self._header = header
        self._state = state_column
        self._widths: list[int] | None = None
        self._colour = uses_colour()

    def write(self, rows: Sequence[Sequence[str]], *, indent: str = "") -> None:
        """Print rows; the first call also prints the header."""
        if not rows:
            return
        shown = [self._header, *rows] if self._widths is None else rows
        if self._widths is None:
            self._widths = [max(len(printable(row[column])) for row in shown) for column in range(len(self._header))]
        for number, row in enumerate(shown):
            typer.echo(indent + self._line(row, is_header=shown is not rows and number == 0))

    def _line(self, row: Sequence[str], *, is_header: bool) -> str:
        assert self._widths is not None
        cells = []
        for column, (text, width) in enumerate(zip(row, self._widths, strict=True)):
            clean = printable(text).replace("\n", " ")
            padding = " " * (width - len(clean)) if column < len(row) - 1 else ""
            is_state = column == self._state and not is_header
            cells.append(paint(clean, state_colour(text) if is_state else None, enabled=self._colour) + padding)
        return _GAP.join(cells).rstrip()


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, state_column: int | None = None, indent: str = ""
) -> None:
    """Print a whole table."""
    TableWriter(header, state_column=state_column).write(rows, indent=indent)


def without_noise(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the object without `managedFields`, as kubectl prints it."""
    metadata = {key: value for key, value in obj.get("metadata", {}).items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def print_object(obj: Any, output: str) -> None:
    """Print plain data as `json` or `yaml`."""
    if output == "yaml":
        import yaml

        text = yaml.safe_dump(obj, sort_keys=False, allow_unicode=True)
        typer.echo(yaml.safe_dump(obj, sort_keys=False) if reorders(text) else text, nl=False)
    else:
        typer.echo(json_text(obj, indent=2))


def print_objects(objects: Sequence[dict[str, Any]], output: str, *, single: bool) -> None:
    """Print Kubernetes objects as `json` or `yaml`: as one List, as kubectl does.

    With `single`, print the only object itself.
    """
    print_object(objects[0] if single else {"apiVersion": "v1", "kind": "List", "items": list(objects)}, output)
