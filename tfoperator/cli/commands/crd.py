"""`tfoperator crd`: the CustomResourceDefinition, ready for kubectl apply."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from tfoperator.api.schema.crd import crd, crd_yaml
from tfoperator.cli.terminal.output import ManifestFormat, ManifestOutput


class Versions(StrEnum):
    """The API versions that the CRD serves."""

    V1 = "v1"
    ALL = "all"


def print_crd(
    output: ManifestOutput = ManifestFormat.YAML,
    versions: Annotated[
        Versions,
        typer.Option(
            "--versions",
            help="Versions that the CRD serves. With `--versions all`, it also serves v1alpha2, which needs the "
            "conversion webhook.",
        ),
    ] = Versions.V1,
    webhook_url: Annotated[
        str,
        typer.Option(
            "--webhook-url", help="URL of the conversion webhook, for an operator that runs outside the cluster."
        ),
    ] = "",
    open_templates: Annotated[
        bool,
        typer.Option(
            "--open-templates",
            help=(
                "Let the API server keep fields of pod templates that this release does not know. Use this option if "
                "pods of your Kubernetes have such fields."
            ),
        ),
    ] = False,
) -> None:
    """Print the TFJob CustomResourceDefinition.

    Install it with: tfoperator crd | kubectl apply --server-side -f -
    """
    if webhook_url and versions is not Versions.ALL:
        raise typer.BadParameter("needs --versions all: a CRD with v1 alone has no webhook", param_hint="--webhook-url")
    every = versions is Versions.ALL
    if output is ManifestFormat.YAML:
        text = crd_yaml(all_versions=every, webhook_url=webhook_url, open_templates=open_templates)
        typer.echo(text, nl=False)
    else:
        made = crd(all_versions=every, webhook_url=webhook_url, open_templates=open_templates)
        typer.echo(json.dumps(made, indent=2))
