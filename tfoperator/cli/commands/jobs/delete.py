"""`tfoperator delete NAME... | -f FILE`: delete jobs and, with them, their pods and services."""

from __future__ import annotations

from typing import Annotated

import typer

from tfoperator.api.loading import load_manifests
from tfoperator.cli.cluster import Context, Kubeconfig, Namespace, connect
from tfoperator.cli.manifests import in_namespace, is_tfjob, title
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError, complain
from tfoperator.cli.terminal.output import ReportFormat, ReportOutput, note, print_object, say
from tfoperator.cli.waiting import await_deletion, optional_deadline


def delete(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="The jobs.")] = None,
    files: Annotated[
        list[str] | None, typer.Option("--filename", "-f", help="The TFJobs in this manifest.", metavar="FILE")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait until they are gone.")] = False,
    timeout: Annotated[str | None, typer.Option("--timeout", help="With --wait: how long at most.")] = None,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="A job that is not there is no failure.")
    ] = False,
    output: ReportOutput = ReportFormat.TEXT,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Delete TFJobs. Their pods and services go after them."""
    if bool(names) == bool(files):
        raise CliError("name either jobs or manifests (-f FILE)")
    deadline = optional_deadline(wait, timeout)
    with connect(kubeconfig, context, namespace) as client:
        targets = [(name, client.namespace) for name in names or ()]
        for file in files or ():
            targets += _in_file(file, namespace, client.namespace)
        deleted: list[tuple[str, str]] = []
        failures: list[Exception] = []
        from tfoperator.sdk import JobNotFound

        for name, where in targets:
            try:
                client.delete_job(name, where)
            except JobNotFound as error:
                if not ignore_not_found:
                    failures.append(error)
            else:
                deleted.append((name, where))
                if output is ReportFormat.TEXT:
                    say(f"tfjob.kubeflow.org/{name} deleted")
        if wait:
            for name, where in deleted:
                await_deletion(client, name, where, deadline)
    if output is ReportFormat.JSON:
        print_object({"deleted": [{"name": name, "namespace": where} for name, where in deleted]}, output)
    codes = [complain(error) for error in failures]
    if codes:
        raise typer.Exit(EXIT_FAILED)


def _in_file(file: str, asked: str | None, default: str) -> list[tuple[str, str]]:
    targets = []
    for manifest in load_manifests(file):
        if not is_tfjob(manifest.obj):
            note(f"{manifest.place()}: {title(manifest)} is left alone, as it is no TFJob")
            continue
        name = (manifest.obj.get("metadata") or {}).get("name")
        if not name:
            raise CliError(f"{manifest.place()}: the TFJob has no name, so it can't be found")
        targets.append((str(name), in_namespace(manifest, asked, default)))
    if not targets:
        raise CliError(f"{file}: no TFJob in there")
    return targets
