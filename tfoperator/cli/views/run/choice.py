"""Chooses the view for a stream: the live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import TextIO, cast

from tfoperator.cli.terminal.stdio import FragileStream
from tfoperator.cli.views.run.plain import PlainView
from tfoperator.cli.views.run.view import View


def make_view(stream: TextIO | FragileStream | None = None, *, verbose: bool = False) -> View:
    """Return a live view if the stream (standard output by default) is a terminal, a plain one otherwise.

    `verbose` is as in `View.__init__`.
    """
    stream = cast(TextIO, sys.stdout if stream is None else stream)
    if stream.isatty():
        # Only the live view needs rich, which takes a twentieth of a second to import.
        from rich.console import Console

        from tfoperator.cli.views.run.live import LiveView

        console = Console(file=stream)
        if console.is_terminal and not console.is_dumb_terminal:
            return LiveView(console, verbose=verbose)
    return PlainView(stream, verbose=verbose)
