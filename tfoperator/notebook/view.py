"""Shows a run in a notebook's cell: the lines of all replicas, and a table of the replicas that is kept up to date."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import msgspec

from tfoperator.base.controlchars import without_controls
from tfoperator.base.html_table import html_table, html_text
from tfoperator.cli.views.replica_rows import ReplicaRow
from tfoperator.cli.views.run.plain import PlainView, in_short
from tfoperator.cli.views.run.view import View
from tfoperator.kube.views.objects import Pod
from tfoperator.local.run.results import RunOutcome, RunResult


def make_cell_view() -> View:
    """Return a view for the current cell.

    Outside of notebooks, for example in IPython on a terminal, the view prints plain lines.
    """
    display = _display()
    return PlainView(sys.stdout) if display is None else CellView(display)


class CellView(View):
    """Prints lines on `sys.stdout`. Above them, IPython's `display` shows a table."""

    def __init__(self, display: Any) -> None:
        super().__init__()
        self._stopping = False
        self._shown = rows_table([])
        self._handle = display(_Html(self._shown), display_id=True)

    def show(self, lines: Iterable[tuple[str, str]]) -> None:
        """Print the lines. The notebook shows them in the cell."""
        sys.stdout.write("".join([without_controls(f"[{prefix}] {text}") + "\n" for prefix, text in lines]))
        sys.stdout.flush()

    def stopping(self, outcome: RunOutcome) -> None:
        """Keep deleted pods in the table from now on.

        The end of the run deletes the pods, and the table should show their last state.
        """
        self._stopping = True
        super().stopping(outcome)

    def pod_gone(self, pod: Pod) -> None:
        """Remove a pod from the table, unless the run is stopping."""
        if not self._stopping:
            super().pod_gone(pod)

    def tick(self) -> None:
        """Redraw the table if it has changed."""
        super().tick()
        rows = sorted(self._rows.items(), key=lambda item: (item[1][0], item[1][1].name))
        table = rows_table(self._with_bar(uid, row) for uid, (_, row) in rows)
        if table != self._shown:
            self._shown = table
            self._handle.update(_Html(table))

    def close(self) -> None:
        """Update the table with the last state of the replicas."""
        self.tick()

    def _with_bar(self, uid: str, row: ReplicaRow) -> ReplicaRow:
        bar = self.bar_of(uid)
        return msgspec.structs.replace(row, detail=in_short(bar)) if bar and row.state == "Running" else row


class _Html:
    """An object that IPython displays as HTML. IPython need not be imported for this."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "<table of replicas>"


def rows_table(rows: Iterable[ReplicaRow]) -> str:
    """Return replicas as an HTML table."""
    cells = [[row.name, row.state, "yes" if row.ready else "no", str(row.restarts), row.detail] for row in rows]
    return html_table(("replica", "state", "ready", "restarts", ""), cells)


def result_table(result: RunResult) -> str:
    """Return the result of a run as HTML: a line for each job, and the job's replicas."""
    parts = []
    for job in result.jobs:
        word = job.condition or str(result.outcome)
        words = f"<b>{html_text(job.name)}</b> {html_text(word)} after {result.seconds:.1f} s"
        if job.condition and not job.succeeded:
            words += f"<br>{html_text(job.message)}"
        cells = [
            [
                replica.name,
                str(replica.state),
                str(replica.restarts),
                "" if replica.exit_code is None else str(replica.exit_code),
            ]
            for replica in job.replicas
        ]
        parts.append(f"<div>{words}{html_table(('replica', 'result', 'restarts', 'exit code'), cells)}</div>")
    where = html_text(result.run_directory)
    return "".join(parts) + f"<div>logs and events: <code>{where}</code></div>"


def _display() -> Any:
    """Return IPython's `display` function if this process is the kernel of a notebook. Otherwise return None."""
    module = sys.modules.get("IPython")  # a notebook has imported it
    shell = module.get_ipython() if module is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display
