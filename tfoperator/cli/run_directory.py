"""The directory of a run of `tfoperator run`: pods' logs, events, the result, the final TFJobs, the operator's log."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import yaml

from tfoperator.base.controlchars import printable
from tfoperator.base.files import take_lock
from tfoperator.base.private_files import check_own, make_folders, private_opener, write_private
from tfoperator.cli.terminal.errors import CliError
from tfoperator.cli.terminal.output import note
from tfoperator.local.run.kept import LATEST, RECORDS, RESULT, RUNS

if TYPE_CHECKING:
    from tfoperator.local.run.job_run import JobRun
    from tfoperator.local.run.results import RunResult

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""PyYAML's dumper in C, if PyYAML was built with this dumper: it takes a tenth of the time of the Python dumper."""

_DIRECTORY_HINT = "Choose another directory for the run's logs with --logs-dir."


def make_run_dir(wanted: Path | None, job: str) -> Path:
    """Return the directory `wanted`, and create it if it does not exist.

    If `wanted` is None, create a directory such as `.tfoperator/runs/20260131-235959-mnist`. A new directory has the
    mode 0700. An existing directory keeps its mode, but the files of the run in it have the mode 0600. Raises CliError
    if the directory can't be created.
    """
    try:
        if wanted is not None:
            make_folders(wanted)
            return wanted
        return _new_run_dir(job)
    except (FileExistsError, NotADirectoryError) as error:
        raise CliError(f"{error.filename}: is not a directory", _DIRECTORY_HINT) from None
    except OSError as error:
        raise CliError(f"{error.filename}: {error.strerror}", _DIRECTORY_HINT) from None


def _new_run_dir(job: str) -> Path:
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    for folder in (RUNS.parent, RUNS):
        folder.mkdir(mode=0o755, exist_ok=True)  # even with the umask 0, other users can't replace a run's directory
        check_own(folder)
    ignore = RUNS.parent / ".gitignore"
    with suppress(FileExistsError), open(ignore, "x", opener=private_opener) as stream:
        stream.write("*\n")  # logs don't belong in a repository
    for attempt in range(1, 1000):
        path = RUNS / (f"{stamp}-{job.rstrip('-')}" + (f"-{attempt}" if attempt > 1 else ""))
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        _point_latest_to(path)
        return path
    raise CliError(f"{RUNS}: all names for a new run directory are in use", _DIRECTORY_HINT)


def _point_latest_to(path: Path) -> None:
    latest = path.parent / LATEST
    fresh = path.parent / f".latest-{os.getpid()}"
    try:
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(path.name)
        fresh.replace(latest)
    except OSError:  # `latest` is optional; not every file system has links
        fresh.unlink(missing_ok=True)


class _RunLog(logging.FileHandler):
    """The file with the operator's log of a run.

    If the disk is full, lines are lost without error messages on stderr, because such messages would hide the job's
    output.
    """

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding=self.encoding, opener=private_opener)

    def close(self) -> None:
        """Close the file, even if the disk has no room for the last lines."""
        with suppress(OSError):
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Send the log of the operator to a file. On the terminal, this log would hide the output of the user's code.

    Raises CliError if the file can't be opened, or if another run writes its log to this file.
    """
    from tfoperator.operator.logging import TextFormatter

    handler = None
    try:
        handler = _RunLog(path, encoding="utf-8")
        assert handler.stream is not None
        # The file, and with it the lock, stays open until the run ends.
        taken = take_lock(handler.stream.fileno())
    except OSError as error:
        if handler is not None:
            handler.close()
        raise CliError(f"{path}: {error.strerror}", _DIRECTORY_HINT) from None
    handler.setFormatter(TextFormatter())
    if not taken:
        handler.close()
        raise CliError(
            f"another run already writes its logs to {path.parent}", "Choose another directory with --logs-dir DIR."
        )
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        handler.close()


def execute(run_dir: Path, engine: JobRun) -> RunResult:
    """Run the jobs. Also write records during the run, so that other commands can show the run even if it is killed.

    After a normal end, the caller writes the final records (`keep_records`). If an error ends the run, this function
    writes the final records and raises the error: see `JobRun.execute`.
    """
    from tfoperator.local.run.journal import RunJournal

    try:
        with RunJournal(run_dir, engine.records):
            return engine.execute()
    except Exception as error:
        keep_records(run_dir, engine, engine.failure(printable(str(error))))
        raise


def keep_records(run_dir: Path, engine: JobRun, result: RunResult) -> None:
    """Write the final jobs, the events and the result; if the disk is full, write as much as possible."""
    try:
        _write_records(run_dir, engine, result)
    except OSError as error:  # the job has ended, and its result matters more
        note(f"warning: can't keep all records of the run in {run_dir}: {error.strerror}")


def _write_records(run_dir: Path, engine: JobRun, result: RunResult) -> None:
    from tfoperator.api.v1.types import TFJOBS

    records = engine.ended_records(result)
    for job in (obj for obj in records.objects if obj["kind"] == TFJOBS.kind):
        metadata = {name: value for name, value in job["metadata"].items() if name != "managedFields"}
        text = yaml.dump({**job, "metadata": metadata}, Dumper=_DUMPER, sort_keys=False)
        write_private(run_dir / f"{metadata['namespace']}.{metadata['name']}.yaml", text.encode())
    lines = []
    for event in engine.events:
        when = event.last_timestamp.isoformat() if event.last_timestamp else "-"
        lines.append(f"{when} {event.type} {event.reason} {event.subject}: {event.message}\n")
    write_private(run_dir / "events.txt", "".join(lines).encode())
    write_private(run_dir / RECORDS, msgspec.json.encode(records))
    write_private(run_dir / RESULT, (json.dumps(msgspec.to_builtins(result), indent=2) + "\n").encode())
