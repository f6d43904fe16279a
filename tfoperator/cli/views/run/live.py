"""`tfoperator run` on a terminal: log lines with coloured prefixes, and a table of replicas that stays below them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.constrain import Constrain
from rich.live import Live
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from tfoperator.api.replicas.names import TENSORBOARD_REPLICA
from tfoperator.base.controlchars import without_controls
from tfoperator.cli.terminal.output import REPLICA_COLOURS
from tfoperator.cli.views.replica_rows import ReplicaRow, usage_by_pod, usage_cells, usage_header
from tfoperator.cli.views.run.bar import progress_line
from tfoperator.cli.views.run.plain import in_short
from tfoperator.cli.views.run.view import View
from tfoperator.local.usage import Usage
from tfoperator.sdk import PodUsage, total

_STATE_STYLES = {"Running": "green", "Succeeded": "bold green", "Failed": "bold red", "Pending": "yellow"}
_DRAW_PERIOD = 0.25  # seconds between two drawings of the table


class LiveView(View):
    """Shows log lines with coloured prefixes, and the table of replicas below them."""

    shows_usage = True

    def __init__(self, console: Console, *, verbose: bool = False) -> None:
        super().__init__(verbose=verbose)
        self._console = console
        self._began = self._drawn = time.monotonic()
        self._colours: dict[str, str] = {}
        self._usage: dict[str, PodUsage] = {}  # by pod uid
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()

    def show(self, lines: Iterable[tuple[str, str]]) -> None:
        """Print lines above the table."""
        self._console.print(self.styled(lines), end="", soft_wrap=True, highlight=False)

    def styled(self, lines: Iterable[tuple[str, str]]) -> _PrefixedLines:
        """Return the lines for rich. Each prefix has its own colour."""
        shown = []
        for prefix, content in lines:
            colour = self._colours.setdefault(prefix, REPLICA_COLOURS[len(self._colours) % len(REPLICA_COLOURS)])
            shown.append((f"{prefix:>10} ", Style(color=colour), content))
        return _PrefixedLines(shown)

    def used(self, usage: Usage) -> None:
        """Record the present usage of CPU, memory and GPUs, which the table shows."""
        self._usage = usage_by_pod(usage)

    def tick(self) -> None:
        """Redraw the table, a few times a second at most."""
        super().tick()
        if time.monotonic() - self._drawn >= _DRAW_PERIOD:
            self._drawn = time.monotonic()
            # After Ctrl-C, the terminal writes ^C at the cursor, after the last line of the table. If this line had the
            # full width, ^C would begin a new line, and rich would not remove the first line of the table.
            self._live.update(
                Constrain(Group(*self.bars(), self.table()), max(1, self._console.width - len("^C"))), refresh=True
            )

    def close(self) -> None:
        """Remove the table."""
        self._live.stop()

    def bars(self) -> list[Text]:
        """Return a line for each job that reports progress, but only as many lines as the screen has room for."""
        shown = list(self._progress.items())[: max(1, self._console.size.height // 6)]
        width = max((len(self._jobs.get(uid, "")) for uid, _ in shown), default=0)
        now = datetime.now(UTC)
        return [progress_line(f"{self._jobs.get(uid, ''):<{width}}", progress, now) for uid, progress in shown]

    def table(self) -> Table:
        """Return the table of the present replicas, with their usage, and a last row with the sums."""
        table = Table(box=None, pad_edge=False, header_style="dim")
        used = usage_header(usage for uid, usage in self._usage.items() if uid in self._rows)
        for title in ("REPLICA", "STATE", "READY", "RESTARTS", *used, ""):
            table.add_column(title, no_wrap=True)
        rows = sorted(self._rows.items(), key=lambda item: (item[1][0], item[1][1].name))
        urls = {
            (self._jobs[uid], TENSORBOARD_REPLICA): tensorboard.url for uid, tensorboard in self._tensorboards.items()
        }
        room = max(3, self._console.size.height // 2 - 3)
        for uid, (job, row) in rows[:room]:
            name = f"{job}/{row.name}" if len(self._jobs) > 1 else row.name
            style = _STATE_STYLES.get(row.state, "yellow")
            restarts = Text(str(row.restarts), style="yellow" if row.restarts else "")
            cells = usage_cells(self._usage.get(uid), used)
            detail = self._detail(uid, row, urls.get((job, row.name), ""))
            table.add_row(name, Text(row.state, style=style), "yes" if row.ready else "no", restarts, *cells, detail)
        if len(rows) > room:
            rest = [row.state for _, (_, row) in rows[room:]]
            counts = ", ".join(f"{rest.count(state)} {state}" for state in sorted(set(rest)))
            table.add_row(f"+{len(rest)} more", Text(counts, style="dim"))
        replicas = [row for _, (_, row) in rows if row.name != TENSORBOARD_REPLICA]
        ready = f"{sum(row.ready for row in replicas)}/{len(replicas)}"
        whole = usage_cells(total(self._usage.values()), used)
        table.add_row("", "", ready, "", *whole, Text(f"{time.monotonic() - self._began:.0f} s", style="dim"))
        return table

    def _detail(self, uid: str, row: ReplicaRow, url: str) -> Text:
        """Return the last cell of a replica's row.

        The cell contains the first of these texts that exists: the time until the replica is killed, the progress bar
        of a running replica, the replica's problem, the replica's URL.
        """
        if countdown := self.countdown(uid):
            return Text(countdown, style="yellow")
        bar = self.bar_of(uid)
        if bar and row.state == "Running":
            return Text(in_short(bar), overflow="ellipsis")
        return Text(row.detail or url, style="dim", overflow="ellipsis")


_MAX_SHOWN = 2000
"""The maximum number of characters of a line on a terminal, because longer lines would fill the screen. The log file
has the whole line.
"""

_SEPARATOR = Segment("| ", Style(dim=True))


class _PrefixedLines:
    """A renderable for rich: lines, each with its prefix, the style of the prefix, and the text."""

    def __init__(self, lines: Sequence[tuple[str, Style, str]]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for prefix, style, text in self._lines:
            yield Segment(prefix, style)
            yield _SEPARATOR
            if len(text) > _MAX_SHOWN:
                text = f"{text[:_MAX_SHOWN]} ... ({len(text) - _MAX_SHOWN} more characters in the log)"
            if text.isprintable():
                # Most lines have no control characters. `Text.from_ansi` would take 50 times as long.
                yield Segment(f"{text}\n")
            else:
                yield from Text.from_ansi(without_controls(text), end="\n").render(console, end="\n")
