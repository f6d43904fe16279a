"""Reads the manifests of a command that changes a cluster: all of them are checked before anything is done."""

from __future__ import annotations

from collections.abc import Sequence

from tfoperator.api.conversion import check
from tfoperator.api.loading import Manifest, load_manifests
from tfoperator.api.problems import Severity
from tfoperator.cli.errors import EXIT_FAILED, CliError
from tfoperator.cli.older import conversion_lines
from tfoperator.cli.output import note
from tfoperator.cli.validate import is_tfjob

__all__ = ["checked_manifests", "in_namespace", "title"]


def checked_manifests(files: Sequence[str], *, consequence: str) -> list[Manifest]:
    """The objects of the files, in order, TFJobs as v1; warnings about them go to standard error.

    Raises CliError with every problem if a TFJob is not valid; `consequence` is its hint.
    """
    manifests = [manifest for file in files for manifest in load_manifests(file)]
    bad: list[str] = []
    checked: list[Manifest] = []
    for manifest in manifests:
        if not is_tfjob(manifest.obj):
            checked.append(manifest)
            continue
        conversion, problems = check(manifest.obj)
        checked.append(Manifest(conversion.obj, manifest.source, manifest.line, manifest.lines))
        for line in conversion_lines(manifest, conversion):
            note(line)
        for problem in problems:
            place = f"{manifest.source}:{manifest.line_of(problem.field)}"
            if problem.severity is Severity.ERROR:
                bad.append(f"{place}: {problem}")
            else:
                note(f"{place}: warning: {problem}")
    if bad:
        raise CliError("\n".join(["the manifest is not valid:", *bad]), consequence, exit_code=EXIT_FAILED)
    if not any(is_tfjob(manifest.obj) for manifest in manifests):
        raise CliError(f"{', '.join(files)}: no TFJob in there")
    return checked


def in_namespace(manifest: Manifest, asked: str | None, default: str) -> str:
    """The namespace that an object goes to. Raises CliError if the manifest and the option say different things."""
    metadata = manifest.obj.get("metadata") or {}
    named = metadata.get("namespace")
    if named and asked and named != asked:
        place = f"{manifest.source}:{manifest.line_of('metadata.namespace')}"
        raise CliError(f"{place}: {title(manifest)} is for namespace {named}, but --namespace says {asked}")
    return str(named or asked or default)


def title(manifest: Manifest) -> str:
    """`TFJob mnist`."""
    metadata = manifest.obj.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    return f"{manifest.obj.get('kind', 'object')} {name}".strip()
