"""Changing jobs one by one: each that can be changed is, and each that can't is complained about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.cli.cluster import plain
from tfoperator.cli.errors import EXIT_FAILED, complain
from tfoperator.cli.output import ObjectFormat, as_list, print_object, say, without_noise

if TYPE_CHECKING:
    from tfoperator.sdk import TFJobClient

__all__ = ["Change", "apply_to_each"]


class Change(msgspec.Struct, frozen=True):
    """What is done to a job of some name, and the word for it."""

    done: str
    apply: Callable[[str], TFJob]


def apply_to_each(client: TFJobClient, names: Sequence[str], change: Change, output: ObjectFormat) -> None:
    """Apply and print. Raises typer.Exit if one of them failed."""
    from tfoperator.sdk import TFJobError

    changed: list[dict[str, Any]] = []
    code = 0
    for name in names:
        try:
            change.apply(name)
        except TFJobError as error:
            complain(error)
            code = EXIT_FAILED
            continue
        if output is ObjectFormat.NAME:
            say(f"tfjob.kubeflow.org/{name}")
        elif output is ObjectFormat.TEXT:
            say(f"tfjob.kubeflow.org/{name} {change.done}")
        else:
            changed.append(without_noise(client.api.get(TFJOBS, client.namespace, name, plain)))
    if changed:
        print_object(changed[0] if len(names) == 1 else as_list(changed), output)
    if code:
        raise typer.Exit(code)
