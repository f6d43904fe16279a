"""`tfoperator run FILE ...`: run TFJobs on this machine, without a cluster, and watch them.

Whatever is imported here costs every other command its time, so the engine and the console are imported when they
are needed. Validation comes before both: a mistake in a manifest is answered in a fraction of a second.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfoperator.api.conversion import check
from tfoperator.api.loading import Manifest, load_manifests
from tfoperator.api.problems import Severity
from tfoperator.cli.errors import EXIT_FAILED, CliError, printable
from tfoperator.cli.older import conversion_lines
from tfoperator.cli.validate import is_tfjob

if TYPE_CHECKING:
    from tfoperator.local.results import RunResult
    from tfoperator.local.run import JobRun

__all__ = ["parse_duration", "register", "run"]

RUNS = Path(".tfoperator", "runs")
"""Where run directories are made, in the current directory."""

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


class Runtime(StrEnum):
    """What pods run as."""

    PROCESS = "process"


class Format(StrEnum):
    """What goes to standard output."""

    TEXT = "text"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(run)


def parse_duration(text: str) -> float:
    """Seconds of `90`, `90s`, `1.5h` or `1h30m`. Raises typer.BadParameter."""
    match = _DURATION.fullmatch(text.strip().lower())
    if not match or not any(match.groups()):
        raise typer.BadParameter(f"{text!r} is no duration; write it like 90s, 10m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    total = hours * 3600 + minutes * 60 + seconds
    if total <= 0:
        raise typer.BadParameter("must be more than nothing")
    return total


def run(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Manifests (YAML or JSON); - is stdin.")],
    runtime: Annotated[Runtime, typer.Option("--runtime", help="What pods run as.")] = Runtime.PROCESS,
    logs_dir: Annotated[
        Path | None,
        typer.Option("--logs-dir", help="Keep logs and events here instead of .tfoperator/runs/...", metavar="DIR"),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the pods' volumes (emptyDir), too.")] = False,
    timeout: Annotated[
        str | None, typer.Option("--timeout", help="Stop after this time, e.g. 90s or 1h30m (exit code 124).")
    ] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="For objects that don't name one.")] = "default",
    output: Annotated[
        Format, typer.Option("--output", "-o", help="json: the result on stdout, everything else on stderr.")
    ] = Format.TEXT,
) -> None:
    """Run TFJobs on this machine, without a cluster.

    Every pod becomes a process. Exit code 0: all jobs succeeded. 1: a job failed. 2: bad input. 124: time is up. 130:
    interrupted (once: in order, twice: at once).
    """
    del runtime  # there is one so far
    limit = parse_duration(timeout) if timeout else None
    manifests = _load(files)
    run_dir = _make_run_dir(logs_dir, _jobs(manifests)[0])
    result = _execute(manifests, run_dir, namespace=namespace, limit=limit, keep=keep, output=output)
    raise typer.Exit(result)


def _load(files: list[str]) -> list[Manifest]:
    """Read and validate everything; CliError with every problem if there is one that keeps a job from running."""
    from tfoperator.local.documents import KNOWN, resource_of

    manifests = [manifest for file in files for manifest in load_manifests(file)]
    bad: list[str] = []
    usable: list[Manifest] = []
    for manifest in manifests:
        place = f"{manifest.source}:"
        if is_tfjob(manifest.obj):
            conversion, problems = check(manifest.obj)
            for text in conversion_lines(manifest, conversion):
                _note(text)
            for problem in problems:
                line = f"{place}{manifest.line_of(problem.field)}: {problem}"
                if problem.severity is Severity.ERROR:
                    bad.append(line)
                else:
                    _note(f"{place}{manifest.line_of(problem.field)}: warning: {problem}")
            manifest = Manifest(conversion.obj, manifest.source, manifest.line, manifest.lines)
        elif resource_of(manifest.obj) is None:
            kinds = ", ".join(sorted(kind for _, kind in KNOWN))
            what = f"{manifest.obj.get('kind')} ({manifest.obj.get('apiVersion')})"
            _note(f"{place}{manifest.line}: warning: {what} is left out: locally there are {kinds}")
            continue
        usable.append(manifest)
    if bad:
        raise CliError("\n".join(["the manifest is not valid:", *bad]), "Nothing was started.")
    if not _jobs(usable):
        raise CliError(f"{', '.join(files)}: no TFJob in there", "tfoperator run needs at least one TFJob.")
    return usable


def _jobs(manifests: list[Manifest]) -> list[str]:
    jobs = [manifest.obj["metadata"] for manifest in manifests if is_tfjob(manifest.obj)]
    return [str(meta.get("name") or meta.get("generateName") or "job") for meta in jobs]


def _make_run_dir(wanted: Path | None, job: str) -> Path:
    if wanted is not None:
        wanted.mkdir(parents=True, exist_ok=True)
        return wanted
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    RUNS.mkdir(parents=True, exist_ok=True)
    ignore = RUNS.parent / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")  # logs are nobody's source code
    for attempt in range(1, 1000):
        path = RUNS / (f"{stamp}-{job}" + (f"-{attempt}" if attempt > 1 else ""))
        try:
            path.mkdir()
        except FileExistsError:
            continue
        _point_latest_to(path)
        return path
    raise CliError(f"{RUNS}: can't find a free name for the run directory", exit_code=EXIT_FAILED)


def _point_latest_to(path: Path) -> None:
    latest = path.parent / "latest"
    fresh = path.parent / f".latest-{os.getpid()}"
    try:
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(path.name)
        fresh.replace(latest)
    except OSError:  # a convenience; not every file system has links
        fresh.unlink(missing_ok=True)


def _execute(
    manifests: list[Manifest], run_dir: Path, *, namespace: str, limit: float | None, keep: bool, output: Format
) -> int:
    with _logging_to(run_dir / "tfoperator.log"):
        from tfoperator.cli.console import make_view
        from tfoperator.cli.summary import summary
        from tfoperator.kube.errors import ApiError
        from tfoperator.local.run import ControlPlaneFailed, JobRun

        stream = sys.stderr if output is Format.JSON else sys.stdout
        view = make_view(stream)
        try:
            view.say("tfoperator", f"starting {', '.join(_jobs(manifests))}; logs go to {run_dir}")
            engine = JobRun(
                [manifest.obj for manifest in manifests],
                view,
                run_dir=run_dir,
                namespace=namespace,
                timeout=limit,
                keep_volumes=keep,
            )
            with _interruptible(engine) as received:
                result = engine.execute()
        except ApiError as error:
            raise CliError(f"the manifest was refused: {error}", "What had been started was stopped.") from None
        except ControlPlaneFailed as error:
            hint = f"Its log is {run_dir / 'tfoperator.log'}."
            raise CliError(f"the operator failed: {error}", hint, exit_code=EXIT_FAILED) from None
        finally:
            view.close()
        _keep_records(run_dir, engine, result)
    print("\n".join(printable(line) for line in summary(result)), file=stream)
    if output is Format.JSON:
        print(json.dumps(_as_dict(result), indent=2))  # noqa: T201 - for a program
    if result.exit_code == 130 and received and received[-1] == signal.SIGTERM:
        return 128 + signal.SIGTERM
    return result.exit_code


@contextmanager
def _interruptible(engine: JobRun) -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM end the run: in order, then at once, and the third time without looking back."""
    received: list[int] = []

    def handle(number: int, _frame: object) -> None:
        received.append(number)
        if len(received) > 2:
            os._exit(128 + number)  # the guardian process ends what still runs
        engine.interrupt()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """The operator's own log goes to a file: on the terminal it would drown what the user's code says."""
    from tfoperator.operator.logging import TextFormatter

    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(TextFormatter())
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


def _keep_records(run_dir: Path, engine: JobRun, result: RunResult) -> None:
    import yaml

    for raw in engine.final_jobs:
        job = json.loads(raw)
        job["metadata"].pop("managedFields", None)
        name = f"{job['metadata']['namespace']}.{job['metadata']['name']}.yaml"
        (run_dir / name).write_text(yaml.safe_dump(job, sort_keys=False), encoding="utf-8")
    lines = []
    for event in engine.events:
        when = event.last_timestamp.isoformat() if event.last_timestamp else "-"
        lines.append(f"{when} {event.type} {event.reason} {event.subject}: {event.message}\n")
    (run_dir / "events.txt").write_text("".join(lines), encoding="utf-8")
    (run_dir / "result.json").write_text(json.dumps(_as_dict(result), indent=2) + "\n", encoding="utf-8")


def _as_dict(result: RunResult) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(result)
    return plain | {"exitCode": result.exit_code}


def _note(text: str) -> None:
    print(printable(text), file=sys.stderr)  # noqa: T201 - the command line speaks to a person
