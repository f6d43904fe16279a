"""`tfoperator crd`: the CustomResourceDefinition, ready for kubectl apply."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from tfoperator.api.crd import crd, crd_yaml

__all__ = ["register"]


class Format(StrEnum):
    """How to print it."""

    YAML = "yaml"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("crd")(print_crd)


def print_crd(
    output: Annotated[Format, typer.Option("--output", "-o", help="Output format.")] = Format.YAML,
) -> None:
    """Print the TFJob CustomResourceDefinition.

    Install it with: tfoperator crd | kubectl apply --server-side -f -
    """
    typer.echo(crd_yaml() if output is Format.YAML else json.dumps(crd(), indent=2), nl=output is Format.JSON)
