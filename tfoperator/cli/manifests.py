"""Manifests of commands: finding TFJobs, converting older versions, checking them before any action."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tfoperator.api.conversion import Conversion, check, older_version
from tfoperator.api.loading import Manifest, load_manifests
from tfoperator.api.problems import Severity
from tfoperator.api.v1.types import TFJOBS
from tfoperator.api.validation.limits import MANAGED_BY_OPERATOR
from tfoperator.cli.terminal.errors import CliError
from tfoperator.cli.terminal.output import note
from tfoperator.kube.resources import NAMESPACES


def is_tfjob(obj: dict[str, Any]) -> bool:
    """Return whether an object is meant to be a TFJob: by its kind or group, or because it has neither."""
    kind, version = obj.get("kind"), obj.get("apiVersion")
    group = version.rpartition("/")[0] if isinstance(version, str) else None
    meant = kind == TFJOBS.kind or group == TFJOBS.group or not isinstance(kind, str)
    return meant or older_version(obj) is not None


def conversion_lines(manifest: Manifest, conversion: Conversion) -> Iterator[str]:
    """Yield a line about the job's conversion, and one for each note; none if it is v1 already.

    A note on a feature that v1 lacks is called a warning.
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
    """Return the objects of the files, in order, checked as by `checked`. Also raises ManifestError."""
    # Every file is read before the first warning is printed.
    manifests = [manifest for file in files for manifest in load_manifests(file)]
    return checked(manifests, ", ".join(files), consequence=consequence, exit_code=exit_code, idle=idle)


def checked(
    manifests: Sequence[Manifest], source: str, *, consequence: str, exit_code: int, idle: Collection[str] = ()
) -> list[Manifest]:
    """Return the objects, in order, TFJobs as v1; warnings about them go to standard error, except `idle` ones.

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
    """Return the namespace of an object. Raises CliError if the manifest and the option differ."""
    metadata = manifest.obj.get("metadata") or {}
    named = metadata.get("namespace")
    if named and asked and named != asked:
        place = manifest.place("metadata.namespace")
        raise CliError(f"{place}: {title(manifest)} is for namespace {named}, but --namespace says {asked}")
    return str(named or asked or default)


def metadata_text(obj: dict[str, Any], field: str) -> str:
    """Return a member of the object's metadata; empty if there is no such text."""
    metadata = obj.get("metadata")
    value = metadata.get(field) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""


def title(manifest: Manifest) -> str:
    """Return `TFJob mnist`."""
    metadata = manifest.obj.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    return f"{manifest.obj.get('kind', 'object')} {name}".strip()


_NAMESPACE = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def check_runnable(manifests: Sequence[Manifest], namespace: str = "default") -> None:
    """Refuse jobs that never start, so that no command waits for their end, and duplicate objects.

    `manifests` are as `checked` returns them; `namespace` is for objects that don't name one. Raises CliError with
    every reason.
    """
    if not _NAMESPACE.fullmatch(namespace):
        raise CliError(f"--namespace: {namespace!r} can't be the name of a namespace", "Nothing was started.")
    found = [*_wrong_places(manifests, namespace)]
    found += [
        f"{manifest.place(field)}: {field}: {title(manifest)} would never {what}"
        for manifest in manifests
        if is_tfjob(manifest.obj)
        for field, what in _obstacles(manifest.obj.get("spec") or {})
    ]
    found += _missing_accounts(manifests, namespace)
    if found:
        raise CliError("\n".join(found), "Nothing was started.")


_DEFAULT_ACCOUNT = "default"
"""The service account that every namespace has."""


def _missing_accounts(manifests: Sequence[Manifest], namespace: str) -> Iterator[str]:
    """Return the jobs that name a service account which is not among the objects: API servers refuse their pods."""

    def home(obj: Mapping[str, Any]) -> str:
        return metadata_text(dict(obj), "namespace") or namespace

    objects = [manifest.obj for manifest in manifests]
    there = {(home(one), metadata_text(one, "name")) for one in objects if one.get("kind") == "ServiceAccount"}
    for manifest in manifests:
        for field, account in _accounts(manifest.obj.get("spec") or {}) if is_tfjob(manifest.obj) else ():
            if account != _DEFAULT_ACCOUNT and (home(manifest.obj), account) not in there:
                yield (
                    f"{manifest.place(field)}: {field}: {title(manifest)} would never start: the ServiceAccount "
                    f"{account} is in none of the files; add it, or remove the field"
                )


def _accounts(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the service accounts that a job names, each with its field."""
    owners = {
        f"spec.tfReplicaSpecs[{key}].template.spec": ((replica or {}).get("template") or {}).get("spec")
        for key, replica in (spec.get("tfReplicaSpecs") or {}).items()
    }
    for path, owner in {**owners, "spec.tensorBoard": spec.get("tensorBoard")}.items():
        account = (owner or {}).get("serviceAccountName") or (owner or {}).get("serviceAccount")
        if isinstance(account, str):
            yield f"{path}.serviceAccountName", account


def _wrong_places(manifests: Sequence[Manifest], namespace: str) -> Iterator[str]:
    """Return objects with the name of another one of their kind, or in an invalid namespace."""
    from tfoperator.local.manifest_resources import resource_of

    first: dict[tuple[str, str, str], Manifest] = {}
    for manifest in manifests:
        resource, metadata = resource_of(manifest.obj), manifest.obj.get("metadata")
        if resource is None or resource == NAMESPACES or not isinstance(metadata, dict):
            continue
        where = str(metadata.get("namespace") or namespace)
        if not _NAMESPACE.fullmatch(where):
            yield f"{manifest.place('metadata.namespace')}: {where!r} can't be the name of a namespace"
        name = metadata.get("name")
        if not name:
            continue  # it is generated
        before = first.setdefault((resource.plural, where, str(name)), manifest)
        if before is not manifest:
            yield f"{manifest.place('metadata.name')}: {title(manifest)} is there already, at {before.place()}"


def _obstacles(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the fields that prevent a job's end, and how."""
    policy = spec.get("runPolicy") or {}
    if policy.get("suspend"):
        yield (
            "spec.runPolicy.suspend",
            "begin: it is suspended, and nobody here resumes it. Set it to false",
        )
    manager = policy.get("managedBy")
    if manager and manager != MANAGED_BY_OPERATOR:
        yield "spec.runPolicy.managedBy", f"begin: it is left to {manager}, which is not here. Remove managedBy"
    replicas = [(replica or {}).get("replicas") for replica in (spec.get("tfReplicaSpecs") or {}).values()]
    if replicas and all(number == 0 for number in replicas):
        yield "spec.tfReplicaSpecs", "end: it asks for no replica at all. Ask for one or more"
