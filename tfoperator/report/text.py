"""Makes text lines from a report, for a terminal, a log or a page.

The module is pure. Lines can contain control characters from logs. The caller that prints lines to a terminal must
remove them (`tfoperator.base.controlchars`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from tfoperator.report.facts import POD_GONE, FinalState
from tfoperator.report.report import OUTLASTED, Failure, Others, Report, Restart
from tfoperator.report.traceback_text import Frame, Traceback, folded

_STATES = {
    FinalState.WAITING: "waits",
    FinalState.RUNNING: "runs",
    FinalState.SUCCEEDED: "has succeeded",
    FinalState.FAILED: "has failed",
    FinalState.STOPPED: "was stopped when the job was over",
    FinalState.NEVER_RAN: "never ran",
}
_PLURAL = {"waits": "wait", "runs": "run", "has": "have", "was": "were", "never": "never"}
_PLURAL_DETAIL = {
    POD_GONE: "their pods are gone",
    OUTLASTED: "they did not end within their grace periods, and were killed",
}
_MAX_LINE_LENGTH = 1000
_NOT_ENDED = ("Running", "Pending")
_CUT_OFF = ("TimedOut", "Died")
"""The outcomes of a job that was ended while it ran. For these, the report shows the last line of each replica."""
_GIB = 1 << 30
_NUMBERED = re.compile(r"^(?P<type>.+)-(?P<index>\d+)$")


def report_lines(report: Report) -> list[str]:
    """Return the lines of a report without the headline. Callers print the headline or another line before them."""
    sections = [
        [report.no_number] if report.no_number else [],
        list(_stall(report)),
        *(list(_failure(failure)) for failure in report.failures),
        list(_others(report)),
        list(_restarts(report)),
        [f"Next: {advice[0].lower()}{advice[1:]}" for advice in report.advice],
    ]
    lines: list[str] = []
    for section in sections:
        if section:
            lines += ["", *section] if lines else section
    return [line if len(line) <= _MAX_LINE_LENGTH else line[:_MAX_LINE_LENGTH] + " ..." for line in lines]


def used_lines(report: Report) -> list[str]:
    """Return lines with the time that an ended job used, and the cost of each change of its number of workers."""
    lines = [f"Time: {report.usage}"] if report.usage else []
    if report.resized:
        lines += ["Changes of the number of workers:", *(f"  {change}" for change in report.resized)]
    return lines


def headline(report: Report) -> str:
    """Return a line with the job's name, its outcome and its message: `TFJob default/mnist FAILED: ...`."""
    words = {
        "Failed": "FAILED",
        "Succeeded": "succeeded",
        "TimedOut": "did not end within the time limit",
        "Interrupted": "was interrupted",
        "Died": "ended when the run died",
    }
    text = f": {report.message}" if report.message else ""
    return f"TFJob {report.namespace}/{report.name} {words.get(report.outcome, f'is {report.outcome.lower()}')}{text}"


def names_in_short(names: Sequence[str]) -> str:
    """Return the names of replicas in a short form: `worker-1..3, worker-7, ps-0`."""
    parts: list[str] = []
    for _, row in groupby(enumerate(names), _in_a_row):
        some = [name for _, name in row]
        parts += [f"{some[0]}..{some[-1].rpartition('-')[2]}"] if len(some) > 2 else some
    return ", ".join(parts)


def _in_a_row(numbered: tuple[int, str]) -> tuple[str, int]:
    """Return the key by which `groupby` groups a position in a list and the name at this position.

    If `worker-2` follows `worker-1` in the list, both have the same key.
    """
    position, name = numbered
    match = _NUMBERED.match(name)
    return (match["type"], int(match["index"]) - position) if match is not None else ("", position)


def _stall(report: Report) -> Iterator[str]:
    if report.stalled:
        yield report.stalled
    if report.stacks:
        yield "The stacks of its threads are kept:"
        for replica, place in report.stacks.items():
            yield f"  {replica}: {place}"
            if replica in report.waits:
                yield f"    it was in {report.waits[replica]}"


def _failure(failure: Failure) -> Iterator[str]:
    restarts = 0 if failure.lost_by else failure.restarts
    times = f" after {restarts} restart{'s' if restarts != 1 else ''}" if restarts else ""
    yield f"{failure.replica} failed with exit code {failure.exit_code}{failure.meaning}{times}."
    if failure.lost_by:
        others = names_in_short(failure.lost_by)
        yield f"{failure.replica} was restarted, but {others} had lost the connection to {failure.replica}, and failed."
    if failure.times > 1:
        yield f"{failure.replica} failed {failure.times} times in a row in the same way."
    yield from _memory(failure)
    if failure.traceback is not None:
        yield f"Its last traceback ({failure.log}):" if failure.log else "Its last traceback:"
        yield from (f"  | {line}" for line in (failure.place, *_traceback(failure.traceback)) if line)
    elif failure.last_lines:
        yield f"Its last log lines ({failure.log}):" if failure.log else "Its last log lines:"
        yield from (f"  | {line}" for line in failure.last_lines)
    else:
        yield "It has written no log."
    if failure.same:
        yield f"{names_in_short(failure.same)}: the same."


def _memory(failure: Failure) -> Iterator[str]:
    if failure.kernel:
        yield f"The kernel says: {failure.kernel}"
    peak, limit = failure.peak_memory, failure.memory_limit
    if peak is not None:
        of = f" of its limit of {_bytes(limit)}" if limit is not None else ""
        yield f"It used up to {_bytes(peak)} of memory{of}."
    elif limit is not None and (failure.reason == "OOMKilled" or failure.exit_code == 137):
        yield f"Its memory limit is {_bytes(limit)}."


def _traceback(traceback: Traceback) -> Iterator[str]:
    before = traceback.before
    if before is not None:
        yield from _traceback(before)
        yield "which led to:" if traceback.relation == "cause" else "and while this exception was handled:"
    for frame in folded(traceback.frames):
        if isinstance(frame, Frame):
            yield f'File "{frame.file}", line {frame.line}' + (f", in {frame.function}" if frame.function else "")
            if frame.code:
                yield f"    {frame.code}"
        else:
            yield frame
    yield traceback.exception
    yield from traceback.more


def _others(report: Report) -> Iterator[str]:
    # Only the last lines can show a reason.
    unexplained = report.outcome in (*_CUT_OFF, "Failed") and not report.failures
    waits = report.outcome in _NOT_ENDED and any(
        other.detail or other.state is FinalState.WAITING for other in report.others
    )
    killed = any(OUTLASTED in other.detail for other in report.others)
    shown = report.failures or report.stalled or report.outcome in _CUT_OFF or unexplained or waits or killed
    if not report.others or not shown:
        return
    yield "The others:" if report.failures else "The replicas:"
    for other in report.others:
        yield f"  {_other(other)}"
        if (report.outcome in _CUT_OFF or unexplained) and other.log:
            yield f"    {other.log}"


def _other(other: Others) -> str:
    words = _STATES[other.state]
    if len(other.replicas) > 1:
        verb, space, rest = words.partition(" ")
        words = f"{_PLURAL[verb]}{space}{rest}"
    note = _PLURAL_DETAIL.get(other.detail, other.detail) if len(other.replicas) > 1 else other.detail
    waits = other.state in (FinalState.WAITING, FinalState.RUNNING)
    detail = (f": {note}" if waits else f" ({note})") if note else ""
    line = f"; last line: {other.last_line}" if other.last_line else ""
    return f"{names_in_short(other.replicas)} {words}{detail}{line}"


def _restarts(report: Report) -> Iterator[str]:
    if not report.restarts:
        return
    not_listed = report.restarts_in_all - len(report.restarts)
    yield "Restarts:" if not_listed <= 0 else f"Restarts (without {not_listed} earlier or unknown restarts):"
    yield from (f"  {_restart(restart)}" for restart in report.restarts)


def _restart(restart: Restart) -> str:
    when = f"{restart.when.astimezone():%H:%M:%S} " if restart.when is not None else ""
    return f"{when}{restart.replica}: {restart.cause}"


def _bytes(count: int) -> str:
    if count >= _GIB:
        return f"{count / _GIB:.1f} GiB"
    return f"{count / (1 << 20):.0f} MiB"
