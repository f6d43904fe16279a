"""Changing jobs one by one: each that can be changed is, and each that can't is complained about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.cli.cluster import plain
from tfoperator.cli.terminal.errors import EXIT_FAILED, complain
from tfoperator.cli.terminal.output import ObjectFormat, as_list, print_object, say, without_noise

if TYPE_CHECKING:
    from tfoperator.sdk import TFJobClient


def apply_to_each(
    client: TFJobClient, names: Sequence[str], change: Callable[[str], TFJob], output: ObjectFormat, *, done: str
) -> None:
    """Change each job and print it; `done` is the word for the change. Raises typer.Exit if one of them failed."""
    from tfoperator.sdk import TFJobError

    changed: list[dict[str, Any]] = []
    code = 0
    for name in names:
        try:
            change(name)
        except TFJobError as error:
            complain(error)
            code = EXIT_FAILED
            continue
        if output is ObjectFormat.NAME:
            say(f"tfjob.kubeflow.org/{name}")
        elif output is ObjectFormat.TEXT:
            say(f"tfjob.kubeflow.org/{name} {done}")
        else:
            changed.append(without_noise(client.api.get(TFJOBS, client.namespace, name, plain)))
    if changed:
        print_object(changed[0] if len(names) == 1 else as_list(changed), output)
    if code:
        raise typer.Exit(code)
