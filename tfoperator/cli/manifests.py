"""Handles manifests for commands: finds TFJobs, converts older versions, and checks the jobs before any action."""

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
    """Return whether the author of an object probably means a TFJob.

    Return True if the kind is TFJob or a misspelling of TFJob, or if the object has no kind. TFJob's API group
    `kubeflow.org` has many other kinds, for example PyTorchJob and Experiment. For these kinds, return False.
    """
    kind, version = obj.get("kind"), obj.get("apiVersion")
    if not isinstance(kind, str) or kind == TFJOBS.kind or older_version(obj) is not None:
        return True
    group = version.rpartition("/")[0] if isinstance(version, str) else None
    return group == TFJOBS.group and _is_misspelt(kind)


_OTHER_SPELLINGS = ("tensorflowjob", "tensorjob")
_MIN_SIMILARITY = 0.75
"""The minimum similarity (by difflib) between TFJob and a kind that counts as a misspelling of TFJob. TFJobs and TJob
are above this minimum, TrainJob (0.6) is below.
"""


def _is_misspelt(kind: str) -> bool:
    """Return whether a kind in TFJob's API group looks like a misspelt TFJob."""
    word = kind.lower()
    similarity = difflib.SequenceMatcher(None, word, TFJOBS.kind.lower()).ratio()
    return word in _OTHER_SPELLINGS or similarity >= _MIN_SIMILARITY


def conversion_lines(manifest: Manifest, conversion: Conversion) -> Iterator[str]:
    """Yield a line about the job's conversion to v1, and a line for each note.

    If the job is already v1, yield nothing.
    """
    version = older_version(manifest.obj)
    if version is None or conversion.obj is manifest.obj:
        return
    yield f"{manifest.place()}: note: {version} is read as {TFJOBS.api_version}"
    yield from note_lines(manifest, conversion.notes)


def note_lines(manifest: Manifest, notes: Iterable[Note]) -> Iterator[str]:
    """Yield a line for each note on an object.

    The line contains "warning" if v1 does not have the field of the note, and otherwise "note".
    """
    for remark in notes:
        kind = "warning" if remark.lost else "note"
        yield f"{manifest.place(remark.field)}: {kind}: {remark}"


def checked_manifests(
    files: Sequence[str], *, consequence: str, exit_code: int, idle: Collection[str] = ()
) -> list[Manifest]:
    """Read manifest files, and return their objects in order, after `checked` has checked them.

    Raises the errors of `checked`, and ManifestError if a file can't be read.
    """
    # Every file is read before the first warning is printed.
    manifests = [manifest for file in files for manifest in load_manifests(file)]
    return checked(manifests, ", ".join(files), consequence=consequence, exit_code=exit_code, idle=idle)


def checked(
    manifests: Sequence[Manifest], source: str, *, consequence: str, exit_code: int, idle: Collection[str] = ()
) -> list[Manifest]:
    """Check TFJobs. Return all objects in the same order, with TFJobs converted to v1.

    Warnings about the TFJobs go to standard error, except warnings with a message in `idle`. If a TFJob is not valid,
    raises CliError with all problems and with `exit_code`. If there is no TFJob, raises CliError with EXIT_USAGE.
    `consequence` is the hint in both errors.
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
    """Return the namespace of an object: from the manifest, from the option `--namespace` (`asked`), or `default`.

    Raises CliError if the manifest and the command's option name different namespaces.
    """
    metadata = manifest.obj.get("metadata") or {}
    named = metadata.get("namespace")
    if named and asked and named != asked:
        place = manifest.place("metadata.namespace")
        raise CliError(f"{place}: {title(manifest)} has namespace {named}, but --namespace is {asked}: make them equal")
    return str(named or asked or default)


def metadata_text(obj: dict[str, Any], field: str) -> str:
    """Return a field of the object's metadata, for example `name`; "" if the field is missing or not a string."""
    metadata = obj.get("metadata")
    value = metadata.get(field) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""


def title(manifest: Manifest) -> str:
    """Return the kind and the name of the object, such as `TFJob mnist`."""
    metadata = manifest.obj.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    return f"{manifest.obj.get('kind', 'object')} {name}".strip()


_NAMESPACE = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def check_runnable(manifests: Sequence[Manifest], namespace: str = "default") -> None:
    """Raise CliError if a job can't start or end in a local run, a namespace is invalid, or an object is defined twice.

    Without this check, `tfoperator run` could wait without end. `manifests` come from `checked`; `namespace` applies to
    objects without a namespace. The error contains every reason.
    """
    if not _NAMESPACE.fullmatch(namespace):
        raise CliError(f"--namespace: {namespace!r} is not a valid name of a namespace", "Nothing was started.")
    reasons = [*_wrong_places(manifests, namespace)]
    reasons += [
        f"{manifest.place(field)}: {field}: {title(manifest)} would never {what}"
        for manifest in manifests
        if is_tfjob(manifest.obj)
        for field, what in _obstacles(manifest.obj.get("spec") or {})
    ]
    missing = [*_missing_objects(manifests, namespace)]
    reasons += [f"{place}: {reason}" for place, kind, reason in missing if kind != _CLAIM]
    if reasons:
        raise CliError("\n".join(reasons), "Nothing was started.")
    for place, _, reason in missing:
        note(f"{place}: note: {reason}")


_CLAIM = "PersistentVolumeClaim"


def _missing_objects(manifests: Sequence[Manifest], namespace: str) -> Iterator[tuple[str, str, str]]:
    """Yield the place, the kind and a message for each object that a job's pods need and that has no manifest.

    In a local run, only `manifests` create objects. Without a ConfigMap or a Secret, the pods would wait for ever.
    Without the service account, the API server refuses the pods. For a missing claim, the run uses an empty directory.
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
    """Yield the path and the spec of each pod that a job describes: the pods of replicas and of the TensorBoard."""
    for kind, replica in (spec.get("tfReplicaSpecs") or {}).items():
        yield f"spec.tfReplicaSpecs[{kind}].template.spec", ((replica or {}).get("template") or {}).get("spec") or {}
    yield "spec.tensorBoard", spec.get("tensorBoard") or {}


def _missing(reference: Reference) -> str:
    if reference.kind == _CLAIM:
        return f"{reference} is in none of the files: the run uses an empty directory instead"
    if reference.kind == SERVICE_ACCOUNT:
        return (
            f"{reference} is in none of the files, so the pods can't be created. Add the ServiceAccount to "
            "this file, or remove the field"
        )
    return (
        f"{reference} is in none of the files, so the pods would wait for this object without end. Add the object to "
        "this file, or also give its file on the command line, or make the reference optional (optional: true)"
    )


def _wrong_places(manifests: Sequence[Manifest], namespace: str) -> Iterator[str]:
    """Yield a message for each object with an invalid namespace, or with the name of an earlier object of its kind.

    Objects in different namespaces may have the same name.
    """
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
            continue  # the API server generates the name
        before = first.setdefault((resource.plural, where, str(name)), manifest)
        if before is not manifest:
            yield f"{manifest.place('metadata.name')}: {title(manifest)} is already defined at {before.place()}"


def _obstacles(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each field that keeps a job from beginning or from ending, with an explanation.

    For example, a job with `spec.runPolicy.suspend` never begins in a local run.
    """
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
