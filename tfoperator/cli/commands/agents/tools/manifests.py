"""The tools about manifests and fields. They read no files, and only `migrate` without a manifest reads the cluster."""

from __future__ import annotations

import difflib
import functools
import re
from typing import Any

from tfoperator.api.conversion import ConversionError
from tfoperator.api.loading import ManifestError, parse_manifests, to_yaml
from tfoperator.api.migration.reading import read_cluster
from tfoperator.api.schema.crd import openapi_schema
from tfoperator.api.schema.structs import Schema, type_words
from tfoperator.cli.commands.agents.messages import answers, arguments
from tfoperator.cli.commands.agents.tools.scope import Scope, Step
from tfoperator.cli.commands.convert import converted
from tfoperator.cli.commands.migrate import migration_report, subjects_of_cluster, subjects_of_manifests
from tfoperator.cli.commands.validate import CheckedObject, judged, validation_report
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError

_SOURCE = "manifest"
"""The name of the manifest in messages about a problem, for example `manifest:12` for a problem in line 12."""


def validate_manifest(_: Scope, asked: arguments.Validate, step: Step) -> answers.Validation:
    """Return the problems of a manifest, with their lines and fields."""
    step("checking the manifest")
    findings, failures = findings_of(asked.manifest)
    report = validation_report(findings, failures, strict=asked.strict)
    return answers.Validation(valid=report["valid"], objects=tuple(report["objects"]), errors=tuple(report["errors"]))


def findings_of(text: str) -> tuple[list[CheckedObject], list[ManifestError]]:
    """Return the objects of a manifest with their problems, and the errors of the whole manifest.

    There is at most one error: that the manifest can't be read (the first list is then empty), or has no TFJob.
    """
    try:
        findings = [judged(manifest) for manifest in parse_manifests(text, _SOURCE)]
    except ManifestError as error:
        return [], [error]
    without_job = all(finding.problems is None for finding in findings)
    return findings, [ManifestError(_SOURCE, "holds no TFJob")] if without_job else []


def convert_manifest(_: Scope, asked: arguments.WithManifest, step: Step) -> answers.Converted:
    """Return the manifest as kubeflow.org/v1."""
    step("converting the manifest")
    manifests = parse_manifests(asked.manifest, _SOURCE)
    try:
        results = [converted(manifest) for manifest in manifests]
    except ConversionError as error:
        raise CliError(str(error), "Correct this field first.", exit_code=EXIT_FAILED) from None
    return answers.Converted(
        manifest=to_yaml([result.obj for result in results]),
        notes=tuple(line for result in results for line in result.notes),
        errors=tuple(line for result in results for line in result.errors),
    )


def migrate(scope: Scope, asked: arguments.Migrate, step: Step) -> answers.Migration:
    """Return what must or can change in TFJobs before tfoperator replaces the Go operator.

    If the call contains a manifest, these are the TFJobs in the manifest. Without a manifest, these are the TFJobs in
    the cluster.
    """
    if asked.manifest is not None:
        step("reading the manifest")
        subjects = subjects_of_manifests(parse_manifests(asked.manifest, _SOURCE), _SOURCE)
    else:
        where = scope.namespace(asked.namespace, everywhere=asked.all_namespaces)
        step("reading the cluster")
        with scope.cluster_client(where) as client:
            subjects = subjects_of_cluster(read_cluster(client.api, client.namespace if where is None else where))
    report = migration_report(subjects)
    return answers.Migration(actions=report["actions"], cluster=tuple(report["cluster"]), jobs=tuple(report["jobs"]))


@functools.cache
def _schema() -> Schema:
    """Return the schema of a TFJob. All calls return the same object, so callers must not change the schema."""
    return openapi_schema()


_ITEM = re.compile(r"\[[^\]]*\]")


def explain_field(_: Scope, asked: arguments.ExplainField, step: Step) -> answers.FieldMeaning:
    """Return the meaning of a field of a TFJob. Raises CliError for a field that does not exist."""
    step("reading the schema")
    return field_meaning(asked.field)


def field_meaning(path: str) -> answers.FieldMeaning:
    """Return the meaning of the field at a path, for example `spec.tfReplicaSpecs.Worker.replicas`.

    The index of a list may be left out, or be `[*]`: `containers.image` or `containers[*].image`. Raises
    CliError if the field does not exist.
    """
    names = [name for name in _ITEM.sub(".*", path).split(".") if name]
    names = names[1:] if names[:1] in (["tfjob"], ["TFJob"]) else names
    schema = _schema()
    is_required = False
    done: list[str] = []
    for name in names:
        holder: Schema = schema.get("items", schema)  # the members of a list are the members of its items
        members, values = holder.get("properties", {}), schema.get("additionalProperties")
        if name in members:
            is_required = name in holder.get("required", ())
            schema = members[name]
            done.append(name)
        elif isinstance(values, dict):
            schema, is_required = values, False  # a key of a map, such as a replica type
            done.append(name)
        elif name == "*" and "items" in schema:
            schema, is_required = holder, False
            done[-1] += "[*]"
        else:
            raise _unknown(".".join(done), name, members)
    return answers.FieldMeaning(
        field=".".join(done) or "TFJob",
        type=type_words(schema),
        description=schema.get("description", ""),
        required=is_required,
        default=schema.get("default"),
        choices=tuple(str(choice) for choice in schema.get("enum", ()) if choice != ""),
        members=tuple(
            answers.FieldMember(name, type_words(member), member.get("description", ""))
            for name, member in schema.get("items", schema).get("properties", {}).items()
        ),
    )


def _unknown(parent: str, name: str, members: dict[str, Any]) -> CliError:
    close = difflib.get_close_matches(name, members, n=3)
    here = parent or "A TFJob"
    hint = f"Perhaps you mean {' or '.join(close)}." if close else f"It has: {', '.join(members) or 'no members'}."
    return CliError(f"{here} has no field {name}", hint, exit_code=EXIT_FAILED)
