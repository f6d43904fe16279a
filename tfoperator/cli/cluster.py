"""How the client commands reach a cluster: the options that they share with kubectl, and the client made of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

if TYPE_CHECKING:
    from tfoperator.sdk import TFJobClient

_PANEL = "Cluster"

Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Default: that of the context.", metavar="NAME", rich_help_panel=_PANEL),
]
Kubeconfig = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig",
        help="Default: $KUBECONFIG, ~/.kube/config, or the cluster that this runs in.",
        metavar="FILE",
        rich_help_panel=_PANEL,
    ),
]
Context = Annotated[
    str | None,
    typer.Option("--context", help="A context of the kubeconfig.", metavar="NAME", rich_help_panel=_PANEL),
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Look into every namespace.")]
Selector = Annotated[
    str, typer.Option("--selector", "-l", help="Only those with these labels, e.g. team=vision.", metavar="LABELS")
]

JobName = Annotated[str, typer.Argument(metavar="NAME", help="The job.")]
Replica = Annotated[
    str | None,
    typer.Option("--replica", "-r", help="Of this one (worker-1), or of this type (worker).", metavar="REPLICA"),
]
ArchiveDir = Annotated[
    Path | None,
    typer.Option(
        "--archive-dir",
        envvar="TFOPERATOR_ARCHIVE_DIR",
        help="The operator's log archive, for pods that were deleted.",
        metavar="DIR",
    ),
]


def connect(
    kubeconfig: str | None, context: str | None, namespace: str | None, *, archive_dir: Path | None = None
) -> TFJobClient:
    """A client for the cluster that the options mean; use it as a context manager. Raises ConfigError."""
    # Imported here because other commands need no cluster.
    from tfoperator.sdk import TFJobClient

    return TFJobClient(kubeconfig, context, namespace, archive_dir=archive_dir)


def plain(data: bytes) -> dict[str, Any]:
    """Decode an object as it is, for commands that print all of it."""
    return msgspec.json.decode(data, type=dict[str, Any])
