"""`tfoperator validate FILE ...`: shows the errors of TFJobs, by file, line and field, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer

from tfoperator.api.conversion import Conversion, check
from tfoperator.api.conversion.result import Note
from tfoperator.api.fields.problems import Problem, Severity
from tfoperator.api.loading import Manifest, ManifestError, load_manifests
from tfoperator.cli.manifests import conversion_lines, is_tfjob, metadata_text, title
from tfoperator.cli.terminal.errors import EXIT_FAILED, EXIT_USAGE
from tfoperator.cli.terminal.output import ReportFormat, ReportOutput, note, say


class CheckedObject(msgspec.Struct, frozen=True):
    """An object and its problems. `problems` is None if the object is not a TFJob.

    A TFJob of an older version was converted to v1 before the check. But its problems name the fields of the older
    version.
    """

    manifest: Manifest
    problems: tuple[Problem, ...] | None
    conversion: Conversion


def validate(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Manifests (YAML or JSON); - is stdin.")],
    output: ReportOutput = ReportFormat.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Fail also if there are only warnings.")] = False,
) -> None:
    """Check TFJob manifests without a cluster.

    Exit code 0: all TFJobs are valid (there may be warnings). 1: problems. 2: a file can't be read or has no TFJob.
    """
    findings: list[CheckedObject] = []
    failures: list[ManifestError] = []
    for file in files:
        try:
            file_findings = [judged(manifest) for manifest in load_manifests(file)]
        except ManifestError as error:
            failures.append(error)
            continue
        findings += file_findings
        if all(finding.problems is None for finding in file_findings):
            failures.append(ManifestError(file_findings[0].manifest.source, "holds no TFJob"))
    if output is ReportFormat.JSON:
        typer.echo(json.dumps(validation_report(findings, failures, strict=strict), indent=2))
    else:
        _print(findings, failures, strict=strict)
    if failures:
        raise typer.Exit(EXIT_USAGE)
    if not all(_is_good(finding, strict=strict) for finding in findings):
        raise typer.Exit(EXIT_FAILED)


def judged(manifest: Manifest) -> CheckedObject:
    """Check an object. If the object is not a TFJob, `problems` of the result is None."""
    if not is_tfjob(manifest.obj):
        return CheckedObject(manifest, None, Conversion(manifest.obj))
    conversion, problems = check(manifest.obj)
    return CheckedObject(manifest, problems, conversion)


def _is_good(finding: CheckedObject, *, strict: bool) -> bool:
    if strict and any(note.lost for note in finding.conversion.notes):
        return False
    return not any(strict or problem.severity is Severity.ERROR for problem in finding.problems or ())


def _print(findings: list[CheckedObject], failures: list[ManifestError], *, strict: bool) -> None:
    for finding in findings:
        for line in _lines(finding, strict=strict):
            say(line)
    for error in failures:
        note(str(error))


def _lines(finding: CheckedObject, *, strict: bool) -> Iterator[str]:
    manifest = finding.manifest
    if finding.problems is None:
        yield f"{manifest.place()}: skipped: {title(manifest)} is not a TFJob"
        return
    yield from conversion_lines(manifest, finding.conversion)
    for problem in finding.problems:
        yield f"{manifest.place(problem.field)}: {problem.severity}: {problem}"
    if _is_good(finding, strict=strict):
        yield f"{manifest.place()}: {title(manifest)} is valid"


def _plain(manifest: Manifest, remark: Problem | Note) -> dict[str, Any]:
    return {**msgspec.to_builtins(remark), "line": manifest.line_of(remark.field)}


def validation_report(findings: list[CheckedObject], failures: list[ManifestError], *, strict: bool) -> dict[str, Any]:
    """Return the report of `tfoperator validate -o json`. With `strict`, warnings count as errors."""
    return {
        "valid": not failures and all(_is_good(finding, strict=strict) for finding in findings),
        "objects": [
            {
                "source": finding.manifest.source,
                "line": finding.manifest.line,
                "kind": finding.manifest.obj.get("kind"),
                "namespace": metadata_text(finding.manifest.obj, "namespace"),
                "name": metadata_text(finding.manifest.obj, "name"),
                "valid": _is_good(finding, strict=strict),
                "skipped": finding.problems is None,
                "problems": [_plain(finding.manifest, problem) for problem in finding.problems or ()],
                "apiVersion": finding.manifest.obj.get("apiVersion"),
                "notes": [_plain(finding.manifest, note) for note in finding.conversion.notes],
            }
            for finding in findings
        ],
        "errors": [
            {"source": error.source, "line": error.line, "column": error.column, "message": error.message}
            for error in failures
        ],
    }
