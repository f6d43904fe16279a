"""`tfoperator run FILE ...`: run TFJobs on this machine, without a cluster, and watch them.

Whatever is imported here costs every other command its time, so the engine and the console are imported when they
are needed. Validation comes before both: a mistake in a manifest is answered in a fraction of a second.
"""

from __future__ import annotations

import json
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tfoperator.api.conversion import check
from tfoperator.api.loading import Manifest, load_manifests
from tfoperator.api.problems import Severity
from tfoperator.cli.errors import EXIT_FAILED, CliError, printable
from tfoperator.cli.interruptions import Interruptions
from tfoperator.cli.older import conversion_lines
from tfoperator.cli.run_directory import as_dict, keep_records, logging_to, make_run_dir
from tfoperator.cli.runtimes import Runtime, RuntimeOption
from tfoperator.cli.stdio import FragileStream
from tfoperator.cli.validate import is_tfjob

__all__ = ["parse_duration", "register", "run"]

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


class Format(StrEnum):
    """What goes to standard output."""

    TEXT = "text"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(run)


def parse_duration(text: str) -> float:
    """Seconds of `90`, `90s`, `1.5h` or `1h30m`, given with --timeout. Raises typer.BadParameter."""
    match = _DURATION.fullmatch(text.strip().lower())
    if not match or not any(match.groups()):
        raise typer.BadParameter(f"{text!r} is no duration; write it like 90s, 10m or 1h30m", param_hint="--timeout")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    total = hours * 3600 + minutes * 60 + seconds
    if total <= 0:
        raise typer.BadParameter("must be more than nothing", param_hint="--timeout")
    return total


def run(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Manifests (YAML or JSON); - is stdin.")],
    runtime: RuntimeOption = Runtime.PROCESS,
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

    Every container becomes a process, or a Docker container with --runtime docker. Exit code 0: all jobs succeeded. 1:
    a job failed. 2: bad input. 124: time is up. 130: interrupted (once: in order, twice: at once).
    """
    limit = parse_duration(timeout) if timeout else None
    manifests = _load(files)
    run_dir = make_run_dir(logs_dir, _jobs(manifests)[0])
    result = _execute(manifests, run_dir, namespace=namespace, limit=limit, keep=keep, output=output, runtime=runtime)
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


def _execute(
    manifests: list[Manifest],
    run_dir: Path,
    *,
    namespace: str,
    limit: float | None,
    keep: bool,
    output: Format,
    runtime: Runtime,
) -> int:
    with logging_to(run_dir / "tfoperator.log"):
        from tfoperator.cli.console import make_view
        from tfoperator.cli.summary import summary
        from tfoperator.kube.errors import ApiError
        from tfoperator.local.results import Outcome
        from tfoperator.local.run import ControlPlaneFailed, JobRun
        from tfoperator.local.runtime import RuntimeUnavailable
        from tfoperator.local.runtimes import RuntimeName

        stream = FragileStream(sys.stderr if output is Format.JSON else sys.stdout)
        view = make_view(stream)
        engine = JobRun(
            [manifest.obj for manifest in manifests],
            view,
            run_dir=run_dir,
            namespace=namespace,
            timeout=limit,
            keep_volumes=keep,
            runtime=RuntimeName(runtime),
        )
        interruptions = Interruptions(engine.interrupt)
        stream.when_lost(interruptions.hang_up)
        try:
            view.say("tfoperator", f"starting {', '.join(_jobs(manifests))}; logs go to {run_dir}")
            with interruptions:
                result = engine.execute()
        except RuntimeUnavailable as error:
            raise CliError(str(error), "Nothing was started.") from None
        except ApiError as error:
            raise CliError(f"the manifest was refused: {error}", "What had been started was stopped.") from None
        except ControlPlaneFailed as error:
            hint = f"Its log is {run_dir / 'tfoperator.log'}."
            raise CliError(f"the operator failed: {error}", hint, exit_code=EXIT_FAILED) from None
        finally:
            view.close()
        keep_records(run_dir, engine, result)
    print("\n".join(printable(line) for line in summary(result)), file=stream, flush=True)
    if output is Format.JSON:
        typer.echo(json.dumps(as_dict(result), indent=2))
    if result.outcome is Outcome.INTERRUPTED and interruptions.signals:
        return 128 + interruptions.signals[-1]
    if stream.error is not None:
        what = "error" if output is Format.JSON else "output"
        stopped = ": the job was stopped" if result.outcome is Outcome.INTERRUPTED else ""
        raise CliError(
            f"can't write to standard {what} any more ({stream.error.strerror}){stopped}",
            f"What it had to say is in {run_dir}.",
            exit_code=EXIT_FAILED,
        )
    return result.exit_code


def _note(text: str) -> None:
    print(printable(text), file=sys.stderr)  # noqa: T201 - the command line speaks to a person
