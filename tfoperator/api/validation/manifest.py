"""Validates handwritten TFJob manifests. Pure.

For most clients, an API server drops unknown members silently. For example, if `cleanPodPolicy` is one level too high,
the operator doesn't get it, and the job keeps its pods. So this module also compares a manifest with the fields of
TFJobs and pods, and the warning about a misspelt or misplaced member names the correct member.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from tfoperator.api.fields.problems import Problem, Severity, errors, member, shown
from tfoperator.api.fields.structure import drop_wrong, members, type_problems, unknown_members
from tfoperator.api.loading.templates import RENDER_FIRST, templated_fields
from tfoperator.api.pods.types import TEMPLATE, VOLUME_SOURCE, pod_types, unknown_fields, wrong_types
from tfoperator.api.replicas.templates import is_absent
from tfoperator.api.v1.types import TFJOBS, TFJob, TFJobSpec, decode_tfjob
from tfoperator.api.validation.job import validate
from tfoperator.api.validation.pod_fields import shape_problems
from tfoperator.api.validation.warnings import validate_grace, validate_tf_config
from tfoperator.kube.views.objects import ObjectMeta

_UNREAD_METADATA = frozenset({"managedFields", "selfLink"})
_TOP_LEVEL = ("apiVersion", "kind", "metadata", "spec")


def validate_manifest(obj: Mapping[str, Any]) -> tuple[Problem, ...]:
    """Return all problems of a TFJob manifest: problems that `validate` finds, wrong types, unknown members (warnings).

    `obj` is plain JSON data, as `load_manifests` yields it. The manifest's status is not checked, because API servers
    ignore it. There is one exception: a grace period that is shorter than the metric `save_seconds` in
    `status.progress` gives a warning.
    """
    manifest = {name: value for name, value in obj.items() if name != "status"}
    warnings = list(_unknown_warnings(manifest))
    wrong = type_problems(manifest, TFJob)
    problems = [*_identity_problems(manifest), *wrong]
    if len(problems) == len(wrong):
        # Encoded and decoded again, because a TFJob keeps its pod templates as undecoded JSON.
        job = decode_tfjob(msgspec.json.encode(drop_wrong(obj, TFJob)))
        job_problems = (*validate(job), *validate_grace(job), *validate_tf_config(job))
        problems += [
            problem
            for problem in job_problems
            if not any(_follows(problem.field, type_problem.field) for type_problem in wrong)
        ]
    for path, template in _templates(manifest):
        if is_absent(msgspec.Raw(msgspec.json.encode(template))):
            continue
        # If both find a problem, it is reported once, with the first message.
        reported = {problem.field for problem in problems if problem.severity is Severity.ERROR}
        problems += [problem for problem in shape_problems(template, path) if problem.field not in reported]
    reported = {problem.field for problem in problems}
    for path, value, kind in _pod_parts(manifest):
        problems += [problem for problem in wrong_types(value, kind, path) if problem.field not in reported]
    # A valid manifest may have such a text, for example as an argument of `docker inspect --format`.
    templated = next(templated_fields(manifest), None) if errors(tuple(problems)) else None
    if templated is not None:
        warnings.append(Problem(templated, f"has a template's expression: {RENDER_FIRST}", Severity.WARNING))
    return (*problems, *warnings)


def _follows(field: str, wrong: str) -> bool:
    """Return whether a problem of `field` may follow from the removal of the field `wrong`, whose type is wrong."""
    emptied = wrong.endswith("]") and field == wrong.rpartition("[")[0]
    return emptied or field == wrong or field.startswith((f"{wrong}.", f"{wrong}["))


def _identity_problems(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    for field, expected in (("apiVersion", TFJOBS.api_version), ("kind", TFJOBS.kind)):
        if field not in manifest:
            yield Problem(field, f"is required and must be {expected}")
        elif manifest[field] != expected:
            yield Problem(field, f"must be {expected}, but is {shown(manifest[field])}")


def _unknown_warnings(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    for name in manifest:
        if name not in _TOP_LEVEL:
            yield _unknown("", str(name), _TOP_LEVEL)
    for unknown in unknown_members({"spec": manifest.get("spec")}, TFJob):
        yield _unknown(unknown.path, unknown.name, unknown.members)
    metadata = manifest.get("metadata")
    if isinstance(metadata, dict):
        yield from _unknown_in(metadata, {*members(ObjectMeta), *_UNREAD_METADATA}, "metadata")
    for path, template in _templates(manifest):
        yield from _unknown_in_pod(template, TEMPLATE, path)
    for path, value, kind in _pod_parts(manifest):
        yield from _unknown_in_pod(value, kind, path)


def _pod_parts(manifest: Mapping[str, Any]) -> Iterator[tuple[str, object, str]]:
    """Yield path, value and type of the fields that `checkpoint` and `tensorBoard` have in common with pods."""
    types = pod_types()
    parts = {**types["Container"].fields, **types["PodSpec"].fields, "volume": VOLUME_SOURCE}
    for path in ("checkpoint", "tensorBoard"):
        owner = manifest["spec"].get(path) if isinstance(manifest.get("spec"), dict) else None
        for name, value in owner.items() if isinstance(owner, dict) else ():
            if kind := parts.get(name):
                yield f"spec.{path}.{name}", value, kind


def _templates(manifest: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    spec = manifest.get("spec")
    replicas = spec.get("tfReplicaSpecs") if isinstance(spec, dict) else None
    for key, replica in replicas.items() if isinstance(replicas, dict) else ():
        template = replica.get("template") if isinstance(replica, dict) else None
        if isinstance(template, dict):
            yield f"spec.tfReplicaSpecs[{key}].template", template
    data_service = spec.get("dataService") if isinstance(spec, dict) else None
    template = data_service.get("template") if isinstance(data_service, dict) else None
    if isinstance(template, dict):
        yield "spec.dataService.template", template


def _unknown_in_pod(value: object, kind: str, path: str) -> Iterator[Problem]:
    """Yield a problem for each unknown field, at every level, of a value of this Kubernetes type."""
    for unknown in unknown_fields(value, kind, path):
        yield _unknown(unknown.path, unknown.name, unknown.members)


def _unknown_in(value: dict[str, Any], members: Collection[str], path: str) -> Iterator[Problem]:
    for name in value:
        if name not in members:
            yield _unknown(path, str(name), members)


def _unknown(path: str, name: str, members: Iterable[str]) -> Problem:
    """Return the warning about one unknown member, with the best guess at the intended member."""
    hint = _hint(path, name, sorted(members))
    return Problem(
        member(path, name),
        f"is unknown: kubectl refuses it, other clients ignore it{hint}",
        Severity.WARNING,
    )


def _hint(path: str, name: str, siblings: list[str]) -> str:
    for sibling in siblings:
        if sibling.lower() == name.lower():
            return f"; did you mean {sibling}?"
    # It is more probable that a letter is missing than that the member belongs to another object.
    similar = difflib.get_close_matches(name, siblings, n=1, cutoff=0.9)
    homes = [home for home in _homes().get(name.lower(), ()) if home != path]
    homes = [home for home in homes if home.startswith(path.partition("[")[0])] or homes  # below this path, if possible
    if homes and not similar:
        moved = ", to which `tfoperator convert` moves it" if (path, homes) == ("spec", ["spec.runPolicy"]) else ""
        return f"; it belongs in {' or '.join(homes)}{moved}"
    similar = similar or difflib.get_close_matches(name, siblings, n=1, cutoff=0.7)
    if similar:
        return f"; did you mean {similar[0]}?"
    elsewhere = difflib.get_close_matches(name.lower(), _homes(), n=1, cutoff=0.8)
    return f"; did you mean {_proper(elsewhere[0])} in {' or '.join(_homes()[elsewhere[0]])}?" if elsewhere else ""


@cache
def _homes() -> Mapping[str, tuple[str, ...]]:
    """Return, for each member of a TFJob's spec (in lower case), the paths of the objects that have it."""
    return {name.lower(): tuple(paths) for name, paths in _spec_members().items()}


def _proper(lower: str) -> str:
    return next(name for name in _spec_members() if name.lower() == lower)


@cache
def _spec_members() -> Mapping[str, list[str]]:
    paths: dict[str, list[str]] = {}

    def visit(struct: type, path: str) -> None:
        for name, field in members(struct).items():
            paths.setdefault(name, []).append(path)
            for option in field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,):
                descend(option, member(path, name))

    def descend(info: inspect.Type, path: str) -> None:
        if isinstance(info, inspect.StructType):
            visit(info.cls, path)
        elif isinstance(info, inspect.DictType):
            values = info.value_type.types if isinstance(info.value_type, inspect.UnionType) else (info.value_type,)
            for value in values:
                descend(value, f"{path}[...]")

    visit(TFJobSpec, "spec")
    spec = "spec.tfReplicaSpecs[...].template.spec"
    for kind, path, ambiguous in (
        ("Container", f"{spec}.containers[...]", {"name", "resources", "restartPolicy", "securityContext"}),
        ("PodSpec", spec, {"activeDeadlineSeconds", "restartPolicy", "resources", "os", "priority"}),
        ("VolumeMount", f"{spec}.containers[...].volumeMounts[...]", {"name"}),
    ):
        for name in pod_types()[kind].fields.keys() - ambiguous:
            paths.setdefault(name, []).append(path)
    return paths
