"""`tfoperator get [NAME...]`: jobs at a glance."""

from __future__ import annotations

from typing import Annotated

import typer

from tfoperator.cli.cluster import AllNamespaces, Context, Kubeconfig, Namespace, Selector, connect
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError, complain
from tfoperator.cli.terminal.output import ListFormat, ListOutput, note


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
    from tfoperator.cli.views.listing import JobPrinter, find_jobs, queues_of_jobs, usage_of_jobs, watch_jobs

    with connect(kubeconfig, context, namespace) as client:
        where = "" if all_namespaces else client.namespace
        # A watch shows changes of jobs; what they use changes all the time, and no event tells.
        usage = usage_of_jobs(client, where) if output is ListFormat.WIDE and not watch else {}
        if watch:
            printer = JobPrinter(output, with_namespace=all_namespaces, usage=usage)
            watch_jobs(client, where, wanted, selector, printer)
            return
        found, failures = find_jobs(client, where, wanted, selector)
        is_table = output in (ListFormat.TABLE, ListFormat.WIDE)
        queues = queues_of_jobs(client, found) if is_table else {}
        printer = JobPrinter(output, with_namespace=all_namespaces, usage=usage, queues=queues)
        if found or not failures:
            printer.whole(found, single=len(wanted) == 1)
        if not found and not wanted and is_table:
            note("There are no TFJobs" + (f" in namespace {where}." if where else "."))
    codes = [complain(error) for error in failures]
    if codes:
        raise typer.Exit(EXIT_FAILED)
