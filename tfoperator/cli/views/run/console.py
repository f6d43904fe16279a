"""Who shows a run: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import TextIO, cast

from rich.console import Console

from tfoperator.cli.terminal.stdio import FragileStream
from tfoperator.cli.views.run.live import LiveView
from tfoperator.cli.views.run.plain import PlainView
from tfoperator.cli.views.run.view import View


def make_view(stream: TextIO | FragileStream | None = None) -> View:
    """A live view if the stream (standard output by default) is a terminal, a plain one otherwise."""
    stream = cast(TextIO, sys.stdout if stream is None else stream)
    if stream.isatty():
        console = Console(file=stream)
        if console.is_terminal and not console.is_dumb_terminal:
            return LiveView(console)
    return PlainView(stream)
