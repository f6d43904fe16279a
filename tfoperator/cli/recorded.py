"""Runs of `tfoperator run` whose records are kept in a folder: lists the runs, and opens a run for a command.

In commands such as `tfoperator logs WORD`, the word names a run if `.tfoperator/runs` has a run with this name, or if
the word contains a slash. Names of jobs contain no slash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tfoperator.base.private_files import check_own_place
from tfoperator.cli.cluster import ClusterOptions
from tfoperator.cli.terminal.errors import EXIT_FAILED, EXIT_TIMEOUT, CliError
from tfoperator.local.run.kept import KUBECONFIG, LOG, RUNNING, RUNS, UNREADABLE, KeptRun, is_run, read_run
from tfoperator.sdk import JobFailed, TFJobClient, WaitTimeout

if TYPE_CHECKING:
    from tfoperator.local.run.recorded_run import RecordedRun

_MAX_CHOICES = 5  # the maximum number of jobs of a run in a message
_STAMP = len("20260131-235959")  # the time at the beginning of a run's name; several runs may begin in one second


def kept_runs(limit: int) -> tuple[list[KeptRun], int]:
    """Return the newest runs of the current directory, at most `limit`, and the total number of runs.

    Only the runs that are returned are read, because a folder may have thousands of runs. Raises CliError if another
    user may replace the files of the runs.
    """
    _check_own(RUNS)
    try:
        folders = [path for path in RUNS.iterdir() if path.name[:1].isdecimal() and is_run(path)]
        folders.sort(key=lambda path: (path.name[:_STAMP], path.stat().st_mtime_ns), reverse=True)
    except OSError:
        return [], 0
    return [read_run(path) for path in folders[:limit]], len(folders)


def find_run(word: str) -> KeptRun:
    """Return a run by its name, by `latest`, or by its directory.

    Raises CliError if the run does not exist, or if another user may replace its files.
    """
    path = _directory(word)
    if not is_run(path):
        raise CliError(f"{word}: this run does not exist in this folder", "To list the runs: tfoperator runs")
    _check_own(path)
    return read_run(path.parent / path.readlink() if path.is_symlink() else path)


def _check_own(place: Path) -> None:
    """Raise CliError if another user may replace files at this path in `.tfoperator`."""
    try:
        check_own_place(place.absolute())
    except PermissionError as error:
        raise CliError(f"{error.filename}: {error.strerror}", "Use a folder that only you can write to.") from None


@contextmanager
def client_of(word: str, cluster: ClusterOptions, archive_dir: str | None = None) -> Iterator[tuple[TFJobClient, str]]:
    """Return a client, and the name of the job for `word`: a job of the cluster, or of a run (`RUN` or `RUN/JOB`).

    Raises CliError if the records of the run can't be read, or if the run has no such job.
    """
    run, job = of_run(word, cluster)
    if run is None:
        with cluster.connect(archive_dir) as client:
            yield client, word
        return
    with opened(run) as recorded:
        job, namespace = _job_of(word, run, job, recorded)
        with TFJobClient(run=recorded, namespace=namespace) as client:
            try:
                yield client, job
            except (JobFailed, WaitTimeout) as error:
                code = EXIT_TIMEOUT if isinstance(error, WaitTimeout) else EXIT_FAILED
                raise CliError(str(error), f"To see why: tfoperator report {word}", exit_code=code) from None


@contextmanager
def client_to_change(word: str, cluster: ClusterOptions) -> Iterator[tuple[TFJobClient, str]]:
    """Return a client that can change the job that a word names: a job of the cluster, or of a run that still runs.

    Raises CliError if the word names a run that has ended, has no such job, or is starting or ending.
    """
    run, job = of_run(word, cluster)
    if run is not None:
        if run.state != RUNNING:
            problem = f"{word}: this run is over ({run.state}), so its job can't be changed"
            raise CliError(problem, "To run the job again: tfoperator run FILE", exit_code=EXIT_FAILED)
        with opened(run) as recorded:
            job, namespace = _job_of(word, run, job, recorded)
        way = run.directory / KUBECONFIG
        if not way.is_file():
            problem = f"{word}: this run is starting or ending, so its job can't be changed now"
            raise CliError(problem, f"The log of the run: {run.directory / LOG}", exit_code=EXIT_FAILED)
        cluster, word = ClusterOptions(namespace=namespace, kubeconfig=str(way)), job
    with cluster.connect() as client:
        yield client, word


def _job_of(word: str, run: KeptRun, job: str, recorded: RecordedRun) -> tuple[str, str]:
    """Return the name and the namespace of the job that `word` names. This job belongs to `run`.

    `job` is the part of `word` that names the job, or "" if `word` names only the run. In this case, the run must have
    exactly one job. Raises CliError if the run has no such job.
    """
    jobs = _jobs_by_word(recorded.jobs)
    if not jobs:
        raise CliError(f"{word}: this run did not create any job", f"The log of the run: {run.directory / LOG}")
    prefix = word.removesuffix(f"/{job}") if job else word.rstrip("/")
    if not job and len(jobs) > 1:
        raise CliError(f"{word}: this run has several jobs", f"Name one of the jobs: {_choices(run, prefix, jobs)}")
    job = job or next(iter(jobs))
    if job not in jobs:
        several = any(name == job for name, _ in jobs.values())
        problem = f"several jobs named {job}" if several else f"no job named {job}"
        hint = f"Its jobs: {_choices(run, prefix, jobs)}"
        raise CliError(f"{prefix}: this run has {problem}", hint, exit_code=EXIT_FAILED)
    return jobs[job]


def _jobs_by_word(jobs: Sequence[Mapping[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the name and the namespace of each job, by the word with which a command names the job.

    The word is the name of the job, or NAMESPACE.NAME if jobs in several namespaces have this name. Names of jobs and
    of namespaces contain no dots.
    """
    names = [meta["name"] for meta in jobs]
    return {
        meta["name"] if names.count(meta["name"]) == 1 else f"{meta['namespace']}.{meta['name']}": (
            meta["name"],
            meta["namespace"],
        )
        for meta in jobs
    }


def _choices(run: KeptRun, prefix: str, jobs: Mapping[str, tuple[str, str]]) -> str:
    """Return the words for some jobs of a run, as a command accepts them; jobs that have not succeeded come first."""
    good = {(job.name, job.namespace) for job in run.result.jobs if job.succeeded} if run.result is not None else set()
    words = [f"{prefix}/{word}" for word in sorted(jobs, key=lambda word: jobs[word] in good)]
    more = f" and {len(words) - _MAX_CHOICES} more" if len(words) > _MAX_CHOICES else ""
    return ", ".join(words[:_MAX_CHOICES]) + more


@contextmanager
def opened(run: KeptRun) -> Iterator[RecordedRun]:
    """Open the records of a run. In the `with` block, clients read from the records, as from the API server of the run.

    Raises CliError if the records can't be read.
    """
    from tfoperator.local.run.recorded_run import RecordedRun

    logs = run.directory / "logs"
    hint = f"Its logs: {logs}" if logs.is_dir() else f"Its files are in {run.directory}"
    if run.state == UNREADABLE:
        raise CliError(f"{run.name}: its result can't be read", hint, exit_code=EXIT_FAILED)
    try:
        recorded = RecordedRun(run.directory)
    except FileNotFoundError:
        raise CliError(f"{run.name}: this run has no records", hint, exit_code=EXIT_FAILED) from None
    except (OSError, ValueError) as error:
        raise CliError(f"{run.name}: its records can't be read: {error}", hint, exit_code=EXIT_FAILED) from None
    with recorded:
        yield recorded


def of_run(word: str, cluster: ClusterOptions) -> tuple[KeptRun | None, str]:
    """Return the run that a word names, and the name of the job if the word has the form `RUN/JOB`.

    Return None in place of the run if the word names a job of a cluster, or if the user has given cluster options.
    Raises CliError for a path that is not the directory of a run.
    """
    if cluster != ClusterOptions() or not word:
        return None, ""
    run, _, job = word.rpartition("/")
    for path, of_path in ((word, ""), (run, job)):
        if path and is_run(_directory(path)):
            return find_run(path), of_path
    return (find_run(word), "") if "/" in word else (None, "")


def _directory(word: str) -> Path:
    return Path(word) if "/" in word else RUNS / word
