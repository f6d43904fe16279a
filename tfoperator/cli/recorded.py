"""Runs of `tfoperator run` that are kept in a folder: which there are, and commands on one that has ended.

A word names a run if this folder has one of that name, or if it has a slash, which no job's name has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tfoperator.base.files import is_locked
from tfoperator.cli.cluster import ClusterOptions
from tfoperator.cli.run_directory import LOG, RESULT, RUNS
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError
from tfoperator.cli.views.runs import KeptRun
from tfoperator.kube.errors import UNDECODABLE
from tfoperator.sdk import TFJobClient

if TYPE_CHECKING:
    from tfoperator.local.run.records import RecordedRun

_MAX_RESULT = 32 << 20  # bytes of a result that are read
_MAX_CHOICES = 5  # jobs of a run that are named
_STAMP = len("20260131-235959")  # of a name; in one second several can begin


def kept_runs() -> list[KeptRun]:
    """Return the runs of the current directory, the newest first."""
    try:
        found = [path for path in RUNS.iterdir() if path.name[:1].isdecimal() and _is_run(path)]
        found.sort(key=lambda path: (path.name[:_STAMP], path.stat().st_mtime_ns), reverse=True)
    except OSError:
        return []
    return [read_run(path) for path in found]


def read_run(directory: Path) -> KeptRun:
    """Return a run. One whose result can't be read is `Unreadable`."""
    from tfoperator.local.run.results import RunResult

    began = datetime.fromtimestamp(directory.stat().st_ctime).astimezone()
    try:
        with (directory / RESULT).open("rb") as stream:
            result = msgspec.json.decode(stream.read(_MAX_RESULT), type=RunResult)
    except FileNotFoundError:
        return KeptRun(directory, "Running" if is_locked(directory / LOG) else "Died", began)
    except (OSError, *UNDECODABLE):
        return KeptRun(directory, "Unreadable", began)
    return KeptRun(directory, str(result.outcome), result.began or began, result)


def find_run(word: str) -> KeptRun:
    """Return a run by its name, by `latest`, or by its directory. Raises CliError."""
    path = _directory(word)
    if not _is_run(path):
        raise CliError(f"{word}: there is no such run", "Which there are: tfoperator runs")
    return read_run(path.resolve() if path.is_symlink() else path)


@contextmanager
def client_of(word: str, cluster: ClusterOptions, archive_dir: str | None = None) -> Iterator[tuple[TFJobClient, str]]:
    """Return a client and the name of a job: of the cluster, or of a run (`RUN` or `RUN/JOB`). Raises CliError."""
    run, job = of_run(word, cluster)
    if run is None:
        with cluster.connect(archive_dir) as client:
            yield client, word
        return
    with opened(run) as recorded:
        namespaces = {meta["name"]: meta["namespace"] for meta in recorded.jobs}
        if not namespaces:
            raise CliError(f"{word}: no job of this run was created", f"Its log: {run.directory / LOG}")
        prefix = word.removesuffix(f"/{job}") if job else word.rstrip("/")
        if not job and len(namespaces) > 1:
            raise CliError(f"{word}: this run has several jobs", f"Say which: {_choices(run, prefix, namespaces)}")
        job = job or next(iter(namespaces))
        if job not in namespaces:
            problem = f"{prefix}: this run has no job {job}"
            raise CliError(problem, f"It has: {_choices(run, prefix, namespaces)}", exit_code=EXIT_FAILED)
        with TFJobClient(client=recorded.client, namespace=namespaces[job]) as client:
            yield client, job


def _choices(run: KeptRun, prefix: str, jobs: Iterable[str]) -> str:
    """Return some jobs of a run as words for commands, those first that have not succeeded."""
    good = {job.name for job in run.result.jobs if job.succeeded} if run.result is not None else set()
    words = [f"{prefix}/{job}" for job in sorted(jobs, key=good.__contains__)]
    more = f" and {len(words) - _MAX_CHOICES} more" if len(words) > _MAX_CHOICES else ""
    return ", ".join(words[:_MAX_CHOICES]) + more


@contextmanager
def opened(run: KeptRun) -> Iterator[RecordedRun]:
    """Serve what is kept of a run that has ended, for this process. Raises CliError."""
    from tfoperator.local.run.records import RecordedRun

    if run.result is None:
        says = {"Running": "has not ended yet", "Died": "died before its end"}.get(run.state, "can't be read")
        logs = run.directory / "logs"
        hint = f"Its logs: {logs}" if logs.is_dir() else f"What there is: {run.directory}"
        raise CliError(f"{run.name}: this run {says}", hint, exit_code=EXIT_FAILED)
    try:
        recorded = RecordedRun(run.directory)
    except FileNotFoundError:
        problem = f"{run.name}: an earlier release kept less of this run"
        raise CliError(problem, f"What there is: {run.directory}", exit_code=EXIT_FAILED) from None
    except (OSError, ValueError) as error:
        raise CliError(f"{run.name}: its records can't be read: {error}", exit_code=EXIT_FAILED) from None
    with recorded:
        yield recorded


def of_run(word: str, cluster: ClusterOptions) -> tuple[KeptRun | None, str]:
    """Return the run that a word names, and the job after it, if there is one; None for a job of a cluster.

    Raises CliError for a path that is no run's.
    """
    if cluster != ClusterOptions() or not word:
        return None, ""
    run, _, job = word.rpartition("/")
    for path, of_path in ((word, ""), (run, job)):
        if path and _is_run(_directory(path)):
            return find_run(path), of_path
    return (find_run(word), "") if "/" in word else (None, "")


def _directory(word: str) -> Path:
    return Path(word) if "/" in word else RUNS / word


def _is_run(path: Path) -> bool:
    try:
        return (path / LOG).is_file()
    except OSError:
        return False
