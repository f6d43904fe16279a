"""`tfoperator get [NAME...]`: jobs at a glance."""

from __future__ import annotations

from typing import Annotated

import typer

from tfoperator.cli.cluster import AllNamespaces, Context, Kubeconfig, Namespace, Selector, connect
from tfoperator.cli.errors import EXIT_FAILED, CliError, complain
from tfoperator.cli.output import ListFormat, ListOutput, note

__all__ = ["get", "register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("get")(get)


def get(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Default: all.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on and show every change.")] = False,
    selector: Selector = "",
    all_namespaces: AllNamespaces = False,
    output: ListOutput = ListFormat.TABLE,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show TFJobs and how they stand."""
    wanted = names or []
    if all_namespaces and wanted:
        raise CliError("a job is looked up by name in one namespace: leave out either the name or -A")
    if watch and len(wanted) > 1:
        raise CliError("--watch takes one name, or none for all")
    from tfoperator.cli.listing import JobPrinter, find_jobs, watch_jobs

    with connect(kubeconfig, context, namespace) as client:
        where = "" if all_namespaces else client.namespace
        printer = JobPrinter(output, with_namespace=all_namespaces)
        if watch:
            watch_jobs(client, where, wanted, selector, printer)
            return
        found, failures = find_jobs(client, where, wanted, selector)
        if found or not failures:
            printer.whole(found, single=len(wanted) == 1)
        if not found and not wanted and output in (ListFormat.TABLE, ListFormat.WIDE):
            note("There are no TFJobs" + (f" in namespace {where}." if where else "."))
    codes = [complain(error) for error in failures]
    if codes:
        raise typer.Exit(EXIT_FAILED)
