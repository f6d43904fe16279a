"""What `tfoperator run` shows: log lines with a prefix per replica, conditions, events, and a live table.

On a terminal the table of replicas stays below the lines; elsewhere, and in a pipe, there are plain lines only, one
per fact, so that they can be searched. Colours follow NO_COLOR. Container output is never taken as markup.
"""

from __future__ import annotations

import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TextIO, cast

import msgspec
from rich.console import Console
from rich.constrain import Constrain
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tfoperator.api.names import LABEL_JOB_NAME, LABEL_TENSORBOARD
from tfoperator.api.v1.types import ConditionType, TensorBoardStatus, TFJob
from tfoperator.cli.stdio import FragileStream
from tfoperator.kube.objects import ContainerStatus, Pod
from tfoperator.local.events_view import EventView
from tfoperator.local.log_follower import LogLine
from tfoperator.local.results import TENSORBOARD, Outcome, replica_name

__all__ = ["LiveView", "PlainView", "ReplicaRow", "View", "make_view", "replica_row"]

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta")
_STATE_STYLES = {"Running": "green", "Succeeded": "bold green", "Failed": "bold red", "Pending": "yellow"}
_REFRESH = 0.25  # seconds between two drawings of the table


_ON_THIS_MACHINE = "http://127.0.0.1:"

_LONGEST = 2000
"""Characters of a line that a terminal shows; the log has all. More would push everything else off the screen."""

_ESCAPES = re.compile(
    r"\x1b\](?:[^\x07\x1b]*(?:\x07|\x1b\\)|)"  # OSC: window titles, links
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS and other strings
    r"|\x1b\[[0-?]*[ -/]*[@-ln-~]"  # CSI, but for colours, which end in m
    r"|\x1b[ -/]+[0-~]|\x1b[0-OQ-WYZ\\`-~]"  # character sets, reset, ...
)
_CONTROLS = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\x1b"}


class ReplicaRow(msgspec.Struct, frozen=True):
    """One line of the table."""

    name: str
    state: str
    ready: bool
    restarts: int
    detail: str = ""


def replica_row(pod: Pod) -> ReplicaRow:
    """A pod in words: its state, and why it is in no better one."""
    statuses = pod.status.container_statuses
    state, detail = pod.status.phase or "Pending", ""
    for status in (*pod.status.init_container_statuses, *statuses):
        state, detail = _worse(status, state, detail)
    if pod.metadata.deletion_timestamp is not None and state not in ("Succeeded", "Failed"):
        state, detail = "Stopping", ""
    return ReplicaRow(
        name=replica_name(pod),
        state=state,
        ready=bool(statuses) and all(status.ready for status in statuses),
        restarts=sum(status.restart_count for status in statuses),
        detail=detail,
    )


def _worse(status: ContainerStatus, state: str, detail: str) -> tuple[str, str]:
    now = status.state
    if now is not None and now.waiting is not None and now.waiting.reason not in ("", "ContainerCreating"):
        return now.waiting.reason, now.waiting.message
    if now is not None and now.terminated is not None and now.terminated.exit_code != 0:
        return state, f"exit code {now.terminated.exit_code}"
    if not detail and status.last_state is not None and status.last_state.terminated is not None:
        return state, f"last exit code {status.last_state.terminated.exit_code}"
    return state, detail


def _without_controls(line: str) -> str:
    """A container's line without what would move the cursor, ring or garble the terminal; colours stay."""
    if len(line) > _LONGEST:
        line = f"{line[:_LONGEST]} ... ({len(line) - _LONGEST} more characters in the log)"
    return _ESCAPES.sub("", line).translate(_CONTROLS)


def _shown(line: str) -> Text:
    text = Text.from_ansi(_without_controls(line))
    if "\x1b" in text.plain:  # an escape sequence that breaks off
        text = Text(text.plain.replace("\x1b", "\ufffd"))
    return text


class View(ABC):
    """A `RunListener` that turns what happens into lines; how a line is shown is up to the subclass."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[str, ReplicaRow]] = {}  # pod uid: (job name, row)
        self._names: dict[tuple[str, str], str] = {}  # (namespace, pod): prefix
        self._jobs: dict[str, str] = {}  # uid: name
        self._said: dict[str, tuple[str, ...]] = {}  # job uid: conditions that have been shown
        self._waits: dict[str, str] = {}  # job uid: why it does not run, as shown
        self._boards: dict[str, TensorBoardStatus] = {}  # job uid: its TensorBoard, as shown
        self._messages: set[str] = set()

    def job_changed(self, job: TFJob) -> None:
        """Show each condition that has become true since the last time."""
        name = self._jobs.setdefault(job.metadata.uid, job.metadata.name)
        said = self._said.get(job.metadata.uid, ())
        # The time makes a second restart another fact than the first.
        facts = tuple(
            f"{c.type}: {c.message} {c.last_transition_time}" for c in job.status.conditions if c.status == "True"
        )
        for condition, fact in zip((c for c in job.status.conditions if c.status == "True"), facts, strict=True):
            if fact not in said:
                self._messages.add(condition.message)
                self.say(name, f"{condition.type}: {condition.message}")
        self._said[job.metadata.uid] = facts
        self._say_why_it_waits(job)
        self._say_where_its_board_is(job)

    def _say_where_its_board_is(self, job: TFJob) -> None:
        board = job.status.tensor_board
        # Its name in the cluster comes first, and is of no use on this machine.
        if board is None or not board.url.startswith(_ON_THIS_MACHINE) or board == self._boards.get(job.metadata.uid):
            return
        self._boards[job.metadata.uid] = board
        self.say(job.metadata.name, f"TensorBoard {'is ready at' if board.ready else 'starts at'} {board.url}")

    def _say_why_it_waits(self, job: TFJob) -> None:
        running = next((c for c in job.status.conditions if c.type == ConditionType.RUNNING), None)
        waits = running is not None and running.status == "False" and running.reason == "TFJobPending"
        message = running.message if waits and running is not None else ""
        if message != self._waits.get(job.metadata.uid, ""):
            self._waits[job.metadata.uid] = message
            if message:
                self.say(job.metadata.name, f"Pending: {message}")

    def pod_changed(self, pod: Pod) -> None:
        """Remember the pod for the table and for its prefix."""
        name = replica_name(pod)
        job = pod.metadata.labels.get(LABEL_JOB_NAME) or pod.metadata.labels.get(LABEL_TENSORBOARD, "")
        prefix = f"{job}/{name}" if job and len(self._jobs) > 1 else name
        self._names[pod.metadata.namespace, pod.metadata.name] = prefix
        self._rows[pod.metadata.uid] = (job, replica_row(pod))

    def pod_gone(self, pod: Pod) -> None:
        """Take the pod off the table."""
        self._rows.pop(pod.metadata.uid, None)

    def event(self, event: EventView) -> None:
        """Show the event, unless it only repeats a condition."""
        if event.message in self._messages:
            return
        involved = event.involved_object
        prefix = self._names.get((involved.namespace, involved.name), involved.name or event.subject)
        kind = "warning" if event.type == "Warning" else "event"
        times = f" (x{event.count})" if event.count and event.count > 1 else ""
        self.say(prefix, f"{kind}: {event.reason}: {event.message}{times}")

    def logged(self, lines: Sequence[LogLine]) -> None:
        """Show log lines under their replica's name."""
        self.show([(self._prefix(line), line.text) for line in lines])

    def stopping(self, outcome: Outcome) -> None:
        """Say that the rest is being stopped, when that isn't obvious."""
        if outcome is Outcome.INTERRUPTED:
            self.say("tfoperator", "stopping the job in order; once more to stop it at once")
        elif outcome is Outcome.TIMED_OUT:
            self.say("tfoperator", "the time is up, stopping the job")

    def tick(self) -> None:  # noqa: B027 - most views have nothing to do here
        """Nothing, where there is nothing to redraw."""

    def say(self, prefix: str, text: str) -> None:
        """Show a line of our own."""
        self.show([(prefix, text)])

    @abstractmethod
    def show(self, lines: Iterable[tuple[str, str]]) -> None:
        """Show lines, each under its prefix."""

    def close(self) -> None:  # noqa: B027 - most views have taken nothing
        """Give the terminal back."""

    def _prefix(self, line: LogLine) -> str:
        known = self._names.get((line.namespace, line.pod)) or self._guessed(line.pod)
        return known if line.container in ("tensorflow", known.rpartition("/")[2]) else f"{known}/{line.container}"

    def _guessed(self, pod: str) -> str:
        """The prefix of a pod whose lines come before the news that it is there: its name begins with its job's."""
        jobs = [job for job in self._jobs.values() if pod.startswith(f"{job}-")]
        job = max(jobs, key=len, default="")
        name = pod.removeprefix(f"{job}-") if job else pod
        return f"{job}/{name}" if job and len(self._jobs) > 1 else name


class PlainView(View):
    """One plain line per fact: `[worker-0] text`."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def show(self, lines: Iterable[tuple[str, str]]) -> None:
        """Write and flush: somebody may be reading along."""
        self._stream.write("".join(f"[{prefix}] {text}\n" for prefix, text in lines))
        self._stream.flush()


class LiveView(View):
    """Lines with coloured prefixes, and the table of replicas below them."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._began = self._drawn = time.monotonic()
        self._colours: dict[str, str] = {}
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()

    def show(self, lines: Iterable[tuple[str, str]]) -> None:
        """Print above the table."""
        self._console.print(self.styled(lines), end="", soft_wrap=True, highlight=False)

    def styled(self, lines: Iterable[tuple[str, str]]) -> Text:
        """The lines as they are shown, each prefix in a colour of its own."""
        text = Text(end="")
        for prefix, content in lines:
            colour = self._colours.setdefault(prefix, _COLOURS[len(self._colours) % len(_COLOURS)])
            text.append(f"{prefix:>10} ", style=colour).append("| ", style="dim")
            text.append_text(_shown(content)).append("\n")
        return text

    def tick(self) -> None:
        """Draw the table anew, a few times a second at most."""
        if time.monotonic() - self._drawn >= _REFRESH:
            self._drawn = time.monotonic()
            # A terminal writes ^C where the cursor is: behind a full line it would wrap, and a line of the table stay.
            self._live.update(Constrain(self.table(), max(1, self._console.width - len("^C"))), refresh=True)

    def close(self) -> None:
        """Remove the table."""
        self._live.stop()

    def table(self) -> Table:
        """The replicas as they are now."""
        table = Table(box=None, pad_edge=False, header_style="dim")
        for title in ("REPLICA", "STATE", "READY", "RESTARTS", ""):
            table.add_column(title, no_wrap=True)
        rows = sorted(self._rows.values(), key=lambda item: (item[0], item[1].name))
        urls = {(self._jobs[uid], TENSORBOARD): board.url for uid, board in self._boards.items()}
        room = max(3, self._console.size.height // 2 - 3)
        for job, row in rows[:room]:
            name = f"{job}/{row.name}" if len(self._jobs) > 1 else row.name
            style = _STATE_STYLES.get(row.state, "yellow")
            restarts = Text(str(row.restarts), style="yellow" if row.restarts else "")
            detail = Text(row.detail or urls.get((job, row.name), ""), style="dim", overflow="ellipsis")
            table.add_row(name, Text(row.state, style=style), "yes" if row.ready else "no", restarts, detail)
        if len(rows) > room:
            rest = [row.state for _, row in rows[room:]]
            counts = ", ".join(f"{rest.count(state)} {state}" for state in sorted(set(rest)))
            table.add_row(f"+{len(rest)} more", Text(counts, style="dim"))
        replicas = [row for _, row in rows if row.name != TENSORBOARD]
        ready = f"{sum(row.ready for row in replicas)}/{len(replicas)}"
        table.add_row("", "", ready, "", Text(f"{time.monotonic() - self._began:.0f} s", style="dim"))
        return table


def make_view(stream: TextIO | FragileStream | None = None) -> View:
    """A live view if the stream (standard output by default) is a terminal, a plain one otherwise."""
    stream = cast(TextIO, sys.stdout if stream is None else stream)
    if stream.isatty():
        console = Console(file=stream)
        if console.is_terminal and not console.is_dumb_terminal:
            return LiveView(console)
    return PlainView(stream)
