"""`tfoperator convert FILE ...`: converts older TFJobs to `kubeflow.org/v1`, and shows what happened to each field.

Manifests go to standard output and notes to standard error, so that the result can be piped into kubectl. The command
prints manifests only if it could convert every document. Otherwise a user could apply a part of a manifest without
noticing it, which is worse than an error.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import typer

from tfoperator.api.conversion import (
    ConversionError,
    is_tfjob_kind,
    move_policies,
    older_version,
    to_v1,
    without_server_fields,
)
from tfoperator.api.fields.problems import errors, shown
from tfoperator.api.loading import Manifest, ManifestError, load_manifests, to_yaml
from tfoperator.api.v1.types import TFJOBS
from tfoperator.api.validation.manifest import validate_manifest
from tfoperator.cli.manifests import conversion_lines, note_lines
from tfoperator.cli.terminal.errors import EXIT_FAILED, EXIT_USAGE
from tfoperator.cli.terminal.output import ManifestFormat, ManifestOutput, note


def convert(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Manifests (YAML or JSON); - is stdin.")],
    output: ManifestOutput = ManifestFormat.YAML,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if a field can't be converted.")] = False,
) -> None:
    """Print TFJobs of older versions (v1alpha1, v1alpha2) as kubeflow.org/v1.

    In a job of v1, policies in spec move to spec.runPolicy. Metadata that API servers write is removed. Other objects
    are printed unchanged. Comments are lost. A note on stderr names each field that v1 has in another form, or does not
    have.

    Exit code 0: all TFJobs were converted. 1: a TFJob is not valid (it is printed nevertheless), or, with --strict, a
    field could not be converted. 2: a file or a TFJob can't be read; nothing is printed.
    """
    objects: list[dict[str, Any]] = []
    bad = failed = False
    for file in files:
        try:
            manifests = load_manifests(file)
        except ManifestError as error:
            note(str(error))
            failed = True
            continue
        for manifest in manifests:
            try:
                result = converted(manifest)
            except ConversionError as error:
                note(f"{manifest.place(error.problem.field)}: error: {error}")
                failed = True
                continue
            for line in (*result.notes, *result.errors):
                note(line)
            objects.append(result.obj)
            bad |= bool(result.errors) or (strict and not result.is_lossless)
        if any(older_version(manifest.obj) for manifest in manifests):
            note(f"{manifests[0].source}: note: comments in this file, if any, are not in the output")
    if failed:
        raise typer.Exit(EXIT_USAGE)
    typer.echo(_printed(objects, output), nl=False)
    if bad:
        raise typer.Exit(EXIT_FAILED)


class ConvertedManifest(msgspec.Struct, frozen=True):
    """An object that was converted to `kubeflow.org/v1`.

    `notes` and `errors` are lines for the user, each with file, line and field. A job with errors can't run.
    """

    obj: dict[str, Any]
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    is_lossless: bool = True


def converted(manifest: Manifest) -> ConvertedManifest:
    """Convert an object to `kubeflow.org/v1`. An object that is not a TFJob stays unchanged.

    Raises ConversionError if a TFJob has an unknown version, or can't be converted.
    """
    obj = manifest.obj
    if not is_tfjob_kind(obj):
        return ConvertedManifest(obj)
    if older_version(obj) is None and obj.get("apiVersion") != TFJOBS.api_version:
        raise ConversionError("apiVersion", f"{shown(obj.get('apiVersion'))} is not a version of TFJob in this release")
    conversion = to_v1(obj)
    moved = move_policies(conversion.obj)
    plain = without_server_fields(moved.obj)
    lines = (*conversion_lines(manifest, conversion), *note_lines(manifest, (*moved.notes, *plain.notes)))
    wrong = []
    for problem in errors(validate_manifest(plain.obj)):
        written = msgspec.structs.replace(problem, field=conversion.origin(moved.origin(problem.field)))
        wrong.append(f"{manifest.place(written.field)}: error: {written}")
    is_lossless = not any(remark.lost for remark in (*conversion.notes, *moved.notes))
    return ConvertedManifest(plain.obj, lines, tuple(wrong), is_lossless)


def _printed(objects: list[dict[str, Any]], output: ManifestFormat) -> str:
    if output is ManifestFormat.YAML:
        return to_yaml(objects)
    (value,) = objects if len(objects) == 1 else [{"apiVersion": "v1", "kind": "List", "items": objects}]
    return json.dumps(value, indent=2) + "\n"
