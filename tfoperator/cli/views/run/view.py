"""The messages of `tfoperator run`: conditions, restarts, events, and log lines with the name of their replica.

The output of a container is untrusted: it can set colours, but its other control characters are removed, and it is not
interpreted as markup of rich. Control characters are also removed if stdout is a pipe, because the next program may
show the output on a terminal.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from tfoperator.api.replicas.names import (
    ANNOTATION_RESTARTS,
    LABEL_JOB_NAME,
    LABEL_TENSORBOARD,
    annotated_count,
    replica_name,
)
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.api.v1.parts.tensorboard import TensorBoardStatus
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.types import TFJob
from tfoperator.cli.views.replica_rows import ReplicaRow, replica_row
from tfoperator.cli.views.run.folding import Folding
from tfoperator.kube.views.event import Event
from tfoperator.kube.views.objects import Pod
from tfoperator.local.run.container_output import LogChunk, RunListener
from tfoperator.local.run.results import RunOutcome
from tfoperator.sdk.states import container_status

_NO_NEWS = frozenset(condition for condition in ConditionType if not condition.traits.is_news)
"""Conditions that a job without problems also has. These conditions are shown only with `--verbose`."""

_QUIET = frozenset(reason for reason in JobReason if not reason.traits.is_news)
"""Reasons of events that are shown only with `--verbose`. These are events that a job without problems has, too, and
events that repeat a line about a condition or a restart.
"""

_ON_THIS_MACHINE = "http://127.0.0.1:"


class View(RunListener, ABC):
    """Converts changes of jobs and pods, events and log output into lines. A subclass shows the lines."""

    def __init__(self, *, verbose: bool = False) -> None:
        """With `verbose`, also show the creation of pods, and every line that TensorFlow itself prints."""
        self._verbose = verbose
        self._folding = Folding()
        self._rows: dict[str, tuple[str, ReplicaRow]] = {}  # pod uid: (job name, row)
        self._names: dict[tuple[str, str], str] = {}  # (namespace, pod): prefix
        self._jobs: dict[str, str] = {}  # uid: name
        self._shown_conditions: dict[str, tuple[str, ...]] = {}  # job uid: conditions that have been shown
        self._waits: dict[str, str] = {}  # job uid: why it does not run, as shown
        self._tensorboards: dict[str, TensorBoardStatus] = {}  # job uid: its TensorBoard, as shown
        self._progress: dict[str, TrainingProgress] = {}  # job uid: its last report
        self._messages: set[str] = set()
        self._restarts: dict[tuple[str, str], KnownRestarts] = {}  # (namespace, pod)
        self._bars: dict[tuple[str, str, str], str] = {}  # (namespace, pod, container): its progress bar
        self._places: dict[str, tuple[str, str]] = {}  # pod uid: (namespace, pod)
        self._killed_at: dict[str, datetime] = {}  # uid of a pod that stops: the end of its grace period
        self._early: list[LogChunk] = []  # output of pods that are not known yet

    def job_changed(self, job: TFJob) -> None:
        """Show each condition that has become true since the last call for this job.

        Conditions in `_NO_NEWS` are shown only with `verbose`. Also show a new reason why the job's pods are pending,
        and a new URL of its TensorBoard. Pass a new progress report to `progressed`.
        """
        name = self._jobs.setdefault(job.metadata.uid, job.metadata.name)
        shown = self._shown_conditions.get(job.metadata.uid, ())
        in_order = (*job.status.conditions, *job.status.operator_conditions)
        true = [condition for condition in in_order if condition.status == "True"]
        # The transition time distinguishes two restarts with the same message.
        facts = tuple(f"{condition.type}: {condition.message} {condition.last_transition_time}" for condition in true)
        for condition, fact in zip(true, facts, strict=True):
            if fact not in shown:
                self._messages.add(condition.message)
                if self._verbose or condition.type not in _NO_NEWS:
                    self.say(name, f"{condition.type}: {condition.message}")
        self._shown_conditions[job.metadata.uid] = facts
        self._say_why_it_waits(job)
        self._say_where_its_tensorboard_is(job)
        if job.status.progress is not None and job.status.progress != self._progress.get(job.metadata.uid):
            before = self._progress.get(job.metadata.uid)
            self._progress[job.metadata.uid] = job.status.progress
            self.progressed(name, before, job.status.progress)

    def progressed(self, name: str, before: TrainingProgress | None, now: TrainingProgress) -> None:
        """Receive a new progress report (`now`) of a job. A subclass may print it; this class does nothing.

        `before` is the previous report, or None for the first report.
        """

    def _say_where_its_tensorboard_is(self, job: TFJob) -> None:
        shown, tensorboard = self._tensorboards.get(job.metadata.uid), job.status.tensor_board
        # The first URL has the name of a service, which can't be resolved on this machine.
        if tensorboard is None or not tensorboard.url.startswith(_ON_THIS_MACHINE) or tensorboard == shown:
            return
        self._tensorboards[job.metadata.uid] = tensorboard
        how = "is ready at" if tensorboard.ready else "starts at"
        self.say(job.metadata.name, f"TensorBoard {how} {tensorboard.url}")

    def _say_why_it_waits(self, job: TFJob) -> None:
        running = next((c for c in job.status.conditions if c.type == ConditionType.RUNNING), None)
        waits = running is not None and running.status == "False" and running.reason == JobReason.PENDING
        message = running.message if waits and running is not None else ""
        if message != self._waits.get(job.metadata.uid, ""):
            self._waits[job.metadata.uid] = message
            if message:
                self.say(job.metadata.name, f"Pending: {message}")

    def pod_changed(self, pod: Pod) -> None:
        """Record the pod for the table and for the prefix of its lines; report a restart of the pod's program.

        Also show the output of the pod that came before this call: `logged` did not know the pod then.
        """
        name = replica_name(pod)
        job = pod.metadata.labels.get(LABEL_JOB_NAME) or pod.metadata.labels.get(LABEL_TENSORBOARD, "")
        prefix = f"{job}/{name}" if job and len(self._jobs) > 1 else name
        place = (pod.metadata.namespace, pod.metadata.name)
        self._names[place] = prefix
        self._show_early()
        self._places[pod.metadata.uid] = place
        row = replica_row(pod)
        self._rows[pod.metadata.uid] = (job, row)
        if pod.metadata.deletion_timestamp is not None and row.state == "Stopping":
            self._killed_at[pod.metadata.uid] = pod.metadata.deletion_timestamp
        else:
            self._killed_at.pop(pod.metadata.uid, None)
        self._restarts[place], sentence = after(self._restarts.get(place, KnownRestarts()), pod)
        if sentence:
            self.say(prefix, sentence)

    def pod_gone(self, pod: Pod) -> None:
        """Remove the pod from the table."""
        self._rows.pop(pod.metadata.uid, None)
        self._places.pop(pod.metadata.uid, None)
        self._killed_at.pop(pod.metadata.uid, None)

    def countdown(self, uid: str) -> str:
        """Return `killed in 7 s` for a pod that is being stopped; "" for any other pod."""
        at = self._killed_at.get(uid)
        return "" if at is None else f"killed in {max(0, math.ceil((at - datetime.now(UTC)).total_seconds()))} s"

    def event(self, event: Event) -> None:
        """Show the event, unless it only repeats the message of a condition.

        Events with a reason in `_QUIET` are shown only with `verbose`.
        """
        if event.message in self._messages or (event.reason in _QUIET and not self._verbose):
            return
        involved = event.involved_object
        prefix = self._names.get((involved.namespace, involved.name), involved.name or event.subject)
        kind = "warning" if event.type == "Warning" else "event"
        times = f" (x{event.count})" if event.count and event.count > 1 else ""
        self.say(prefix, f"{kind}: {event.reason}: {event.message}{times}")

    def logged(self, chunks: Sequence[LogChunk]) -> None:
        """Show log lines with the name of their replica, and the number of lines that are only in the log file.

        Output of a pod that is not known yet is shown after `pod_changed`, because the name of the replica comes from
        the pod.
        """
        lines: list[tuple[str, str]] = []
        for chunk in chunks:
            if (chunk.namespace, chunk.pod) not in self._names:
                self._early.append(chunk)
                continue
            prefix = self._prefix(chunk)
            if chunk.skipped:
                what = "line" if chunk.skipped == 1 else "lines"
                lines.append((prefix, f"... {chunk.skipped:,} more {what} in {chunk.path}"))
            lines += [(prefix, text) for text in chunk.lines if not self._is_held(prefix, text)]
            container = (chunk.namespace, chunk.pod, chunk.container)
            if chunk.bar:
                self._bars[container] = chunk.bar
            else:
                self._bars.pop(container, None)
        if lines:
            self.show(lines)

    def _is_held(self, prefix: str, text: str) -> bool:
        return not self._verbose and len(self._rows) > 1 and self._folding.holds(prefix, text, time.monotonic())

    def unfold(self, *, all_of_them: bool = False) -> None:
        """Show the lines of TensorFlow that were held back for `folding.WAIT` seconds, or all held lines."""
        if lines := self._folding.due(math.inf if all_of_them else time.monotonic()):
            self.show(lines)

    def bar_of(self, uid: str) -> str:
        """Return this pod's progress bar as the program wrote it; "" if the pod has none."""
        place = self._places.get(uid)
        return next((bar for container, bar in self._bars.items() if container[:2] == place), "")

    def stopping(self, outcome: RunOutcome) -> None:
        """Show all lines that were held back, and then why the run stops the remaining replicas.

        A reason is shown only for Ctrl-C and for the time limit.
        """
        for chunk in self._early:
            self._names.setdefault((chunk.namespace, chunk.pod), chunk.pod)
        self._show_early()
        self.unfold(all_of_them=True)
        if outcome is RunOutcome.INTERRUPTED:
            self.say("tfoperator", "stopping the job gracefully; press Ctrl-C again to stop it at once")
        elif outcome is RunOutcome.TIMED_OUT:
            self.say("tfoperator", "the time limit is over: stopping the job")

    def page_link(self, url: str) -> None:
        """Show the link to the page that `tfoperator run --ui` serves."""
        self.say("tfoperator", f"the page (the link works once, for one browser): {url}")

    def tick(self) -> None:
        """Show the lines of TensorFlow that were held back for `folding.WAIT` seconds.

        The run calls this method several times a second.
        """
        self.unfold()

    def say(self, prefix: str, text: str) -> None:
        """Show a line from tfoperator itself."""
        self.show([(prefix, text)])

    @abstractmethod
    def show(self, lines: Iterable[tuple[str, str]]) -> None:
        """Show lines, each under its prefix."""

    def close(self) -> None:
        """Remove everything that the view still draws on the terminal."""

    def _show_early(self) -> None:
        early, self._early = self._early, []
        self.logged(early)

    def _prefix(self, line: LogChunk) -> str:
        name = self._names[line.namespace, line.pod]
        return name if line.container in ("tensorflow", name.rpartition("/")[2]) else f"{name}/{line.container}"


class KnownRestarts(msgspec.Struct, frozen=True):
    """The number of restarts of a replica, and its last exit code (None if its program has not ended yet)."""

    count: int = 0
    exit_code: int | None = None


def after(before: KnownRestarts, pod: Pod) -> tuple[KnownRestarts, str]:
    """Return the restarts of a replica after a new state of its pod, and a sentence for a new restart.

    The sentence is "" if the state shows no new restart.
    """
    program = container_status(pod, "tensorflow")
    count = annotated_count(pod.metadata.annotations, ANNOTATION_RESTARTS)
    count += 0 if program is None else program.restart_count
    states = () if program is None else (program.last_state, program.state)
    ends = [state.terminated.exit_code for state in states if state is not None and state.terminated is not None]
    failed = [code for code in ends if code] or ends
    exit_code = failed[-1] if failed else before.exit_code
    if count <= before.count:
        return KnownRestarts(before.count, exit_code), ""
    how = "" if exit_code is None else f"exited with {exit_code}, "
    return KnownRestarts(count, None if program is None else exit_code), f"{how}started again ({count})"
