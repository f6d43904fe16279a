"""Reads the directory of a run, for example of a run in another process.

The directory shows whether the run goes on, how it ended, or when its process died. A run holds the lock on its log
(`tfoperator.log`) until the run has ended. While the run is alive, it regularly updates the modification time of its
log. The functions in this module only read.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tfoperator.base.clock import utc
from tfoperator.base.files import is_locked, open_regular
from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.local.run.ending import DIED, RunEnd

if TYPE_CHECKING:
    from tfoperator.local.run.results import RunResult

RUNS = Path(".tfoperator", "runs")
"""The directory of all runs, relative to the folder in which `tfoperator run` is called."""

LATEST = "latest"
"""The name of a symbolic link in RUNS. It leads to the directory of the run that began last."""

KUBECONFIG = "kubeconfig"
"""The name of a file in the directory of a run. Commands use this file to reach the API server of the run. The file
exists while the run goes on.
"""

RESULT, LOG, RECORDS = "result.json", "tfoperator.log", "records.json"
"""Files in a run's directory. RESULT is written at the end of the run. LOG is the operator's log, which is locked until
the end. RECORDS contains the records of the run.
"""

MAX_RECORDS = 256 << 20
"""The maximum number of bytes of the records that are read. This is enough for about 50,000 pods."""

RUNNING, UNREADABLE = "Running", "Unreadable"

_MAX_RESULT = 32 << 20  # bytes of a result that are read
_MAX_PROCESS = 64 << 10  # bytes of the record of a process that are read
_STAMP = "%Y%m%d-%H%M%S"
_STAMP_LENGTH = len("20260131-235959")


class _Began(msgspec.Struct):
    """The only member of `records.json` that `_began` reads. The decoder skips the other members."""

    began: datetime


class KeptRun(msgspec.Struct, frozen=True):
    """One run. `result` is None before the run's end, and also for a run that has died.

    `state` is the state of the result, or Running, Died, Unreadable. `ended` is when the run ended. For a run that has
    died, it is the last time at which the run showed that it was alive. `ended` is None while the run continues, or if
    the time of its end is unknown. `left` contains the IDs of processes that still run after the run has died.
    This happens if the run's guardian (a process that kills the programs of a run that has died) was killed, too.
    """

    directory: Path
    state: str
    began: datetime
    ended: datetime | None = None
    result: RunResult | None = None
    left: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The directory's name."""
        return self.directory.name

    @property
    def end(self) -> RunEnd | None:
        """The end of the run, from which the last state of the run's jobs is made. None while the run continues, or if
        the time of the end is unknown.
        """
        if self.ended is None:
            return None
        return RunEnd(self.state, self.ended, left=self.left) if self.result is None else self.result.end

    def seconds(self, now: datetime) -> float | None:
        """Return how long the run took, or how long it has been running until `now`. Return None if this is unknown."""
        if self.result is not None:
            return self.result.seconds
        until = now if self.state == RUNNING else self.ended
        return None if until is None else max((until - self.began).total_seconds(), 0.0)


def is_run(directory: Path) -> bool:
    """Return whether a directory is a run's directory."""
    try:
        return (directory / LOG).is_file()
    except OSError:
        return False


def read_run(directory: Path) -> KeptRun:
    """Return the state of the run in this directory.

    If its result can't be read, its state is Unreadable. Raises OSError if the directory is missing.
    """
    goes_on = is_locked(directory / LOG)
    run = _read_result(directory)
    if run is None and not goes_on:
        run = _read_result(directory)  # the run may have ended between the two looks
    if run is not None:
        return run
    if goes_on:
        return KeptRun(directory, RUNNING, _began(directory))
    began = _began(directory)
    return KeptRun(directory, DIED, began, max(_last_sign_of_life(directory), began), left=_left(directory))


def _read_result(directory: Path) -> KeptRun | None:
    from tfoperator.local.run.results import RunResult

    try:
        with (directory / RESULT).open("rb") as stream:
            result = msgspec.json.decode(stream.read(_MAX_RESULT), type=RunResult)
    except FileNotFoundError:
        return None
    except (OSError, *UNDECODABLE):
        return KeptRun(directory, UNREADABLE, _began(directory))
    lasted = timedelta(seconds=result.seconds)
    began = utc(result.began)
    return KeptRun(directory, str(result.outcome), began, began + lasted, result)


def _began(directory: Path) -> datetime:
    """Return when a run without a readable result began.

    The time is from the run's records. Without readable records, it is from the folder's name, or the folder's ctime.
    """
    try:
        with (directory / RECORDS).open("rb") as stream:
            return utc(msgspec.json.decode(stream.read(MAX_RECORDS), type=_Began).began)
    except (OSError, *UNDECODABLE):
        pass
    try:
        return datetime.strptime(directory.name[:_STAMP_LENGTH], _STAMP).astimezone()
    except ValueError:
        return datetime.fromtimestamp(directory.stat().st_ctime, UTC)


def _last_sign_of_life(directory: Path) -> datetime:
    times = []
    for name in (LOG, RECORDS):
        try:
            times.append((directory / name).stat().st_mtime)
        except OSError:
            continue
    return datetime.fromtimestamp(max(times, default=0.0), UTC)


def _left(directory: Path) -> tuple[int, ...]:
    """Return the IDs of a run's processes that still run.

    The run's runtime has recorded the start of these processes, but not their end.
    """
    from tfoperator.local.identity import ProcessIdentity, is_alive
    from tfoperator.local.runtime.process.cleanup.records import RECORDS as PROCESSES

    pids = []
    for file in sorted((directory / PROCESSES).glob("*.json")):
        try:
            with open_regular(file) as stream:
                process = msgspec.json.decode(stream.read(_MAX_PROCESS), type=ProcessIdentity)
        except (OSError, *UNDECODABLE):
            continue
        if is_alive(process):
            pids.append(process.pid)
    return tuple(pids)
