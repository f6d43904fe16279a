"""Shows a running pipeline: on a terminal as a live tree of its steps, elsewhere with a line for each change.

The threads that run steps only put messages into a queue. A separate thread prints them, so a slow terminal does not
delay a step.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfoperator.base.clock import SystemClock
from tfoperator.base.controlchars import printable, without_controls
from tfoperator.cli.terminal.output import note, state_colour, uses_colour
from tfoperator.cli.terminal.stdio import FragileStream
from tfoperator.cli.views.pipelines import view_text
from tfoperator.pipeline import Listener, StepView

if TYPE_CHECKING:
    from rich.live import Live
    from rich.tree import Tree

_DRAWINGS = 2.0  # drawings of the tree per second: the tree shows running times
_STOP_SECONDS = 10.0

_MARKS = {
    "succeeded": ("Succeeded", "✓"),
    "cached": ("Succeeded", "="),
    "failed": ("Failed", "✗"),
    "retryable": ("Failed", "✗"),
    "running": ("Running", "●"),
    "cancelled": ("Suspended", "-"),
}


class RunDisplay(Listener):
    """Shows the progress of one run of a pipeline. Use it as a context manager.

    With `logs_to_stdout`, log lines also go to standard output. Otherwise they go only to the log files.
    """

    def __init__(self, *, logs_to_stdout: bool) -> None:
        self.stream = FragileStream(sys.stdout)
        """Standard output."""
        self._logs = logs_to_stdout
        self._live_wanted = sys.stderr.isatty() and uses_colour(sys.stderr)
        self._clock = SystemClock()
        self._views: dict[str, StepView] = {}
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._live: Live | None = None
        self._thread = threading.Thread(target=self._print, name="pipeline-display", daemon=True)

    def __enter__(self) -> RunDisplay:
        if self._live_wanted:
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True)
            self._live = Live(console=console, get_renderable=self._tree, refresh_per_second=_DRAWINGS, transient=True)
            self._live.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.put(None)
        self._thread.join(_STOP_SECONDS)
        if self._live is not None:
            self._live.stop()

    def step(self, view: StepView) -> None:
        """Show a new state of a step, as `Listener.step` describes."""
        self._queue.put(lambda: self._show_step(view))

    def log(self, step: str, line: str) -> None:
        """Show a line of a step's log, as `Listener.log` describes."""
        if self._logs:
            text = without_controls(f"[{step}] {line}")
            self._queue.put(lambda: self._show_log(text))

    def tell(self, step: str, message: str) -> None:
        """Show a message about a step or the run, as `Listener.tell` describes."""
        self._queue.put(lambda: self._print_message(f"{step}: {message}" if step else message))

    # In the thread that prints.

    def _print(self) -> None:
        while (work := self._queue.get()) is not None:
            work()

    def _show_step(self, view: StepView) -> None:
        before = self._views.get(view.name)
        self._views[view.name] = view
        if self._live is not None:
            self._live.refresh()
        elif before is not None and before.state != view.state:
            self._print_message(f"{view.name}: {view_text(view, self._clock.now())}")

    def _show_log(self, line: str) -> None:
        if self._live is not None and self.stream.isatty():
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, file=self.stream, flush=True)

    def _print_message(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)
        else:
            note(text)

    def _tree(self) -> Tree:
        """Draw the steps as a tree: each step is below the last predecessor that its `after` names.

        If a step has several predecessors, its line names all predecessors. The thread of rich's Live also calls this
        method.
        """
        from rich.text import Text
        from rich.tree import Tree

        now = self._clock.now()
        root = Tree("", hide_root=True)
        nodes: dict[str, Any] = {}
        for name, view in tuple(self._views.items()):
            colour, mark = _MARKS.get(str(view.state), ("", "○"))
            label = Text(f"{mark} ", style=state_colour(colour) or "dim")
            label.append(printable(name), style="bold").append(f"  {view_text(view, now)}")
            if len(view.after) > 1:
                label.append(f"  (after {', '.join(map(printable, view.after))})", style="dim")
            above = nodes[view.after[-1]] if view.after and view.after[-1] in nodes else root
            nodes[name] = above.add(label)
        return root
