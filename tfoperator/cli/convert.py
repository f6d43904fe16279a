"""`tfoperator convert FILE ...`: TFJobs of older versions as `kubeflow.org/v1`, and what became of each field.

Manifests go to standard output and notes to standard error, so that the result can be piped into kubectl. Nothing is
printed unless every document could be converted: half a manifest applied is worse than none.
"""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from tfoperator.api.conversion import ConversionError, check, is_tfjob_kind, older_version, to_v1
from tfoperator.api.loading import Manifest, ManifestError, load_manifests
from tfoperator.api.problems import errors, shown
from tfoperator.api.v1.types import TFJOBS
from tfoperator.api.yaml_writing import to_yaml
from tfoperator.cli.errors import EXIT_FAILED, EXIT_USAGE, printable
from tfoperator.cli.older import conversion_lines

__all__ = ["register"]


class Format(StrEnum):
    """How to print manifests."""

    YAML = "yaml"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("convert")(convert)


def convert(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Manifests (YAML or JSON); - is stdin.")],
    output: Annotated[Format, typer.Option("--output", "-o", help="Output format.")] = Format.YAML,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if something can't be carried over.")] = False,
) -> None:
    """Print TFJobs of older versions (v1alpha1, v1alpha2) as kubeflow.org/v1.

    Other objects are printed as they are. Comments are lost. What becomes of a field that v1 says differently or not
    at all is noted on stderr.

    Exit code 0: converted. 1: with --strict, something couldn't be carried over. 2: a file or a TFJob can't be read.
    """
    objects: list[dict[str, Any]] = []
    lost = failed = False
    for file in files:
        try:
            manifests = load_manifests(file)
        except ManifestError as error:
            _say(str(error))
            failed = True
            continue
        for manifest in manifests:
            try:
                obj, lossy = _convert(manifest)
            except ConversionError as error:
                _say(f"{_place(manifest, error.problem.field)}: error: {error}")
                failed = True
                continue
            objects.append(obj)
            lost |= lossy
        if any(older_version(manifest.obj) for manifest in manifests):
            _say(f"{manifests[0].source}: note: comments in the file, if any, are lost")
    if failed:
        raise typer.Exit(EXIT_USAGE)
    typer.echo(_printed(objects, output), nl=False)
    if strict and lost:
        raise typer.Exit(EXIT_FAILED)


def _convert(manifest: Manifest) -> tuple[dict[str, Any], bool]:
    """The object to print, and whether something was lost. Says on stderr what there is to say."""
    obj = manifest.obj
    if older_version(obj) is None:
        if is_tfjob_kind(obj) and obj.get("apiVersion") != TFJOBS.api_version:
            raise ConversionError("apiVersion", f"{shown(obj.get('apiVersion'))} is no version of TFJob known here")
        return obj, False
    conversion = to_v1(obj)
    for line in conversion_lines(manifest, conversion):
        _say(line)
    for problem in errors(check(obj)[1]):
        _say(f"{_place(manifest, problem.field)}: warning: not valid yet: {problem}")
    return conversion.obj, any(note.lost for note in conversion.notes)


def _place(manifest: Manifest, field: str) -> str:
    return f"{manifest.source}:{manifest.line_of(field)}"


def _printed(objects: list[dict[str, Any]], output: Format) -> str:
    if output is Format.YAML:
        return to_yaml(objects)
    (value,) = objects if len(objects) == 1 else [{"apiVersion": "v1", "kind": "List", "items": objects}]
    return json.dumps(value, indent=2) + "\n"


def _say(text: str) -> None:
    print(printable(text), file=sys.stderr)  # noqa: T201 - the command line speaks to a person
