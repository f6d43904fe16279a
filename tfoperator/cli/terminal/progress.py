"""Shows why a command waits, if it waits for more than two seconds: a spinner on a terminal, plain lines elsewhere.

The text goes to standard error, so it never mixes with the command's output.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from tfoperator.base.controlchars import printable
from tfoperator.cli.terminal.output import note, uses_colour

if TYPE_CHECKING:
    from rich.status import Status

_SILENT_SECONDS = 2.0  # seconds


class StatusLine:
    """The text that shows why a command waits. Use it as a context manager; any thread may call `update`.

    The text appears after `patience` seconds, because a short wait needs no explanation.
    """

    def __init__(self, text: str = "", *, patience: float = _SILENT_SECONDS) -> None:
        self._patience = patience
        self._lock = threading.Lock()  # guards everything below
        self._text = text
        self._timer: threading.Timer | None = None
        self._status: Status | None = None
        self._visible = False

    def __enter__(self) -> StatusLine:
        self.update(self._text)
        return self

    def __exit__(self, *_: object) -> None:
        self.update("")

    def update(self, text: str) -> None:
        """Set the text, for example `reading logs`. "" hides the text until the next call."""
        with self._lock:
            changed = text != self._text
            self._text = text
            timer = self._timer
            if not text:
                self._hide()
            elif self._visible:
                if changed:
                    self._show()
            elif timer is None:
                self._timer = threading.Timer(self._patience, self._due)
                self._timer.name, self._timer.daemon = "progress", True
                self._timer.start()
        if not text and timer is not None:
            timer.join()

    def _due(self) -> None:
        with self._lock:
            if self._text and self._timer is not None:
                self._visible = True
                self._show()

    def _hide(self) -> None:
        self._visible = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _show(self) -> None:
        if not sys.stderr.isatty():
            note(self._text)
        elif self._status is not None:
            self._status.update(self._escaped())
        else:
            from rich.console import Console

            console = Console(stderr=True, no_color=not uses_colour(sys.stderr))
            self._status = console.status(self._escaped())
            self._status.start()

    def _escaped(self) -> str:
        from rich.markup import escape

        return escape(printable(self._text))
