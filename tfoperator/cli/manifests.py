"""Manifests that commands are given: which objects are TFJobs, older versions, the check before anything is done."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from tfoperator.api.conversion import Conversion, check, older_version
from tfoperator.api.loading import Manifest, load_manifests
from tfoperator.api.problems import Severity
from tfoperator.api.v1.types import TFJOBS
from tfoperator.cli.terminal.errors import CliError
from tfoperator.cli.terminal.output import note


def is_tfjob(obj: dict[str, Any]) -> bool:
    """Whether an object is meant to be a TFJob: its kind or its group says so, or it doesn't say what it is."""
    kind, version = obj.get("kind"), obj.get("apiVersion")
    group = version.rpartition("/")[0] if isinstance(version, str) else None
    meant = kind == TFJOBS.kind or group == TFJOBS.group or not isinstance(kind, str)
    return meant or older_version(obj) is not None


def conversion_lines(manifest: Manifest, conversion: Conversion) -> Iterator[str]:
    """A line that says that the job was converted, and one for each note; none if it is v1 already.

    A note on something that v1 doesn't do is called a warning.
    """
    version = older_version(manifest.obj)
    if version is None or conversion.obj is manifest.obj:
        return
    yield f"{manifest.place()}: note: {version} is taken as {TFJOBS.api_version}"
    for said in conversion.notes:
        kind = "warning" if said.lost else "note"
        yield f"{manifest.place(said.field)}: {kind}: {said}"


def checked_manifests(
    files: Sequence[str], *, consequence: str, exit_code: int, idle: Collection[str] = ()
) -> list[Manifest]:
    """The objects of the files, in order, checked as by `checked`. Raises ManifestError besides."""
    # Every file is read before the first warning is printed.
    manifests = [manifest for file in files for manifest in load_manifests(file)]
    return checked(manifests, ", ".join(files), consequence=consequence, exit_code=exit_code, idle=idle)


def checked(
    manifests: Sequence[Manifest], source: str, *, consequence: str, exit_code: int, idle: Collection[str] = ()
) -> list[Manifest]:
    """The objects, in order, TFJobs as v1; warnings about them go to standard error, but for `idle` ones.

    Raises CliError with every problem, and with `exit_code`, if a TFJob is not valid; with EXIT_USAGE if there is none.
    `consequence` is the hint of either.
    """
    bad: list[str] = []
    good: list[Manifest] = []
    has_tfjob = False
    for manifest in manifests:
        if not is_tfjob(manifest.obj):
            good.append(manifest)
            continue
        has_tfjob = True
        conversion, problems = check(manifest.obj)
        good.append(Manifest(conversion.obj, manifest.source, manifest.line, manifest.lines))
        for line in conversion_lines(manifest, conversion):
            note(line)
        for problem in problems:
            if problem.severity is Severity.ERROR:
                bad.append(f"{manifest.place(problem.field)}: {problem}")
            elif problem.message not in idle:
                note(f"{manifest.place(problem.field)}: warning: {problem}")
    if bad:
        raise CliError("\n".join(["the manifest is not valid:", *bad]), consequence, exit_code=exit_code)
    if not has_tfjob:
        raise CliError(f"{source}: no TFJob in there", consequence)
    return good


def in_namespace(manifest: Manifest, asked: str | None, default: str) -> str:
    """The namespace that an object goes to. Raises CliError if the manifest and the option say different things."""
    metadata = manifest.obj.get("metadata") or {}
    named = metadata.get("namespace")
    if named and asked and named != asked:
        place = manifest.place("metadata.namespace")
        raise CliError(f"{place}: {title(manifest)} is for namespace {named}, but --namespace says {asked}")
    return str(named or asked or default)


def title(manifest: Manifest) -> str:
    """`TFJob mnist`."""
    metadata = manifest.obj.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    return f"{manifest.obj.get('kind', 'object')} {name}".strip()
