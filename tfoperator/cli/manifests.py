"""Manifests of commands: finding TFJobs, converting older versions, checking them before any action."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfoperator.api.conversion import Conversion, check, older_version
from tfoperator.api.conversion.result import Note
from tfoperator.api.fields.limits import MANAGED_BY_OPERATOR
from tfoperator.api.fields.problems import Severity
from tfoperator.api.loading import Manifest, load_manifests
from tfoperator.api.pods.references import (
    SERVICE_ACCOUNT,
    Reference,
    references_of_account,
    references_of_containers,
    references_of_volumes,
)
from tfoperator.api.v1.types import TFJOBS
from tfoperator.cli.terminal.errors import CliError
from tfoperator.cli.terminal.output import note
from tfoperator.kube.protocol.resources import NAMESPACES


def is_tfjob(obj: dict[str, Any]) -> bool:
    """Return whether an object is meant to be a TFJob: by its kind, which may be misspelt, or for want of a kind.

    The group of TFJob has many other kinds, such as PyTorchJob, Experiment and Profile: these are other objects.
    """
    kind, version = obj.get("kind"), obj.get("apiVersion")
    if not isinstance(kind, str) or kind == TFJOBS.kind or older_version(obj) is not None:
        return True
    group = version.rpartition("/")[0] if isinstance(version, str) else None
    return group == TFJOBS.group and _is_misspelt(kind)


_OTHER_SPELLINGS = ("tensorflowjob", "tensorjob")
_MIN_SIMILARITY = 0.75
"""The least similarity of a misspelt kind to TFJob, by difflib: TFJobs and TJob are above it, TrainJob (0.6) is not."""


def _is_misspelt(kind: str) -> bool:
    """Return whether a kind of TFJob's group looks like another spelling of TFJob."""
    word = kind.lower()
    similarity = difflib.SequenceMatcher(None, word, TFJOBS.kind.lower()).ratio()
    return word in _OTHER_SPELLINGS or similarity >= _MIN_SIMILARITY


def conversion_lines(manifest: Manifest, conversion: Conversion) -> Iterator[str]:
    """Yield a line about the job's conversion, and one for each note; none if it is v1 already."""
    version = older_version(manifest.obj)
    if version is None or conversion.obj is manifest.obj:
        return
    yield f"{manifest.place()}: note: {version} is read as {TFJOBS.api_version}"
    yield from note_lines(manifest, conversion.notes)


def note_lines(manifest: Manifest, notes: Iterable[Note]) -> Iterator[str]:
    """Yield a line for each note on an object. A note on a feature that v1 lacks is called a warning."""
    for said in notes:
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
    """Return the objects, in order, TFJobs as v1. Warnings about them, except `idle` warnings, go to standard error.

    Raises CliError: with every problem and with `exit_code` if a TFJob is not valid, with EXIT_USAGE if there is no
    TFJob. `consequence` is the hint of both errors.
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
        raise CliError(f"{source}: the file contains no TFJob", consequence)
    return good


def in_namespace(manifest: Manifest, asked: str | None, default: str) -> str:
    """Return the namespace of an object. Raises CliError if the manifest and the option differ."""
    metadata = manifest.obj.get("metadata") or {}
    named = metadata.get("namespace")
    if named and asked and named != asked:
        place = manifest.place("metadata.namespace")
        raise CliError(f"{place}: {title(manifest)} has namespace {named}, but --namespace is {asked}: make them equal")
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
        raise CliError(f"--namespace: {namespace!r} is not a valid name of a namespace", "Nothing was started.")
    found = [*_wrong_places(manifests, namespace)]
    found += [
        f"{manifest.place(field)}: {field}: {title(manifest)} would never {what}"
        for manifest in manifests
        if is_tfjob(manifest.obj)
        for field, what in _obstacles(manifest.obj.get("spec") or {})
    ]
    missing = [*_missing_objects(manifests, namespace)]
    found += [f"{place}: {said}" for place, kind, said in missing if kind != _CLAIM]
    if found:
        raise CliError("\n".join(found), "Nothing was started.")
    for place, _, said in missing:
        note(f"{place}: note: {said}")


_CLAIM = "PersistentVolumeClaim"


def _missing_objects(manifests: Sequence[Manifest], namespace: str) -> Iterator[tuple[str, str, str]]:
    """Yield place, kind and message for each object that a job's pods need, and that no file has.

    On this machine nothing else makes one: without a ConfigMap or a Secret the pods would wait for ever, and without
    their service account API servers refuse them. An empty directory stands for a claim.
    """
    present = {
        (
            str(manifest.obj.get("kind")),
            metadata_text(manifest.obj, "namespace") or namespace,
            metadata_text(manifest.obj, "name"),
        )
        for manifest in manifests
    }
    reported: set[tuple[str, str, str]] = set()
    for manifest in manifests:
        if not is_tfjob(manifest.obj):
            continue
        where = metadata_text(manifest.obj, "namespace") or namespace
        for path, pod in _pods(manifest.obj.get("spec") or {}):
            for reference in (*references_of_volumes(pod), *references_of_containers(pod), *references_of_account(pod)):
                key = (reference.kind, where, reference.name)
                if key in present or key in reported:
                    continue
                reported.add(key)
                field = f"{path}.{reference.field}"
                yield manifest.place(field), reference.kind, f"{field}: {_missing(reference)}"


def _pods(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path and the spec of each pod that a job describes: of its replicas, and of its TensorBoard."""
    for kind, replica in (spec.get("tfReplicaSpecs") or {}).items():
        yield f"spec.tfReplicaSpecs[{kind}].template.spec", ((replica or {}).get("template") or {}).get("spec") or {}
    yield "spec.tensorBoard", spec.get("tensorBoard") or {}


def _missing(reference: Reference) -> str:
    if reference.kind == _CLAIM:
        return f"{reference} is in none of the files: the run uses an empty directory instead"
    if reference.kind == SERVICE_ACCOUNT:
        return (
            f"{reference} is in none of the files, so its pods can't be created. Add it to this file, or remove the "
            "field"
        )
    return (
        f"{reference} is in none of the files, so its pods would wait for it without end. Add it to this file, or "
        "name the file that has it on the command line, or make the reference optional (optional: true)"
    )


def _wrong_places(manifests: Sequence[Manifest], namespace: str) -> Iterator[str]:
    """Return objects that have the name of another object of their kind, or an invalid namespace."""
    from tfoperator.local.manifest_resources import resource_of

    first: dict[tuple[str, str, str], Manifest] = {}
    for manifest in manifests:
        resource, metadata = resource_of(manifest.obj), manifest.obj.get("metadata")
        if resource is None or resource == NAMESPACES or not isinstance(metadata, dict):
            continue
        where = str(metadata.get("namespace") or namespace)
        if not _NAMESPACE.fullmatch(where):
            yield f"{manifest.place('metadata.namespace')}: {where!r} is not a valid name of a namespace"
        name = metadata.get("name")
        if not name:
            continue  # it is generated
        before = first.setdefault((resource.plural, where, str(name)), manifest)
        if before is not manifest:
            yield f"{manifest.place('metadata.name')}: {title(manifest)} is already defined at {before.place()}"


def _obstacles(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the fields that prevent a job's end, and how."""
    policy = spec.get("runPolicy") or {}
    if policy.get("suspend"):
        yield (
            "spec.runPolicy.suspend",
            "begin: it is suspended, and a local run can't resume it. Set the field to false",
        )
    manager = policy.get("managedBy")
    if manager and manager != MANAGED_BY_OPERATOR:
        yield (
            "spec.runPolicy.managedBy",
            f"begin: the controller {manager} manages it, and a local run has no such controller. Remove managedBy",
        )
    replicas = [(replica or {}).get("replicas") for replica in (spec.get("tfReplicaSpecs") or {}).values()]
    if replicas and all(number == 0 for number in replicas):
        yield "spec.tfReplicaSpecs", "end: it has no replicas. Set replicas to 1 or more"
