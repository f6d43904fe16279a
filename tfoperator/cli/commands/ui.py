"""`tfoperator ui`: a page of this machine that shows the cluster's jobs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfoperator.cli.cluster import AllNamespaces, ArchiveDir, ClusterOptions
from tfoperator.cli.page import DEFAULT_HOME, checked_home, is_local
from tfoperator.cli.recorded import find_run, opened
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError
from tfoperator.cli.terminal.interruptions import Interruptions
from tfoperator.cli.terminal.output import note, say

if TYPE_CHECKING:
    from tfoperator.kube.client import Client

PagePort = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of the page; 0 takes a free one.")]


def ui(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Show a run of tfoperator run that has ended, not a cluster.")
    ] = None,
    all_namespaces: AllNamespaces = False,
    port: PagePort = 0,
    archive_dir: ArchiveDir = None,
    pipelines: Annotated[
        str | None,
        typer.Option(
            "--pipelines", help="Show the pipeline runs kept there; by default those kept here.", metavar="DIR|URL"
        ),
    ] = None,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Serve a page that shows TFJobs as they train, and pipeline runs: state, replicas, progress, logs, resources.

    It listens on 127.0.0.1 only, uses your own rights in the cluster, and changes nothing. The link that is printed
    lets one browser in, once; another one follows. Ctrl-C ends it.
    """
    home = checked_home(str(pipelines or DEFAULT_HOME))
    if pipelines is not None:
        from tfoperator.cli.commands.pipeline.opening import opened as opened_home

        with opened_home(pipelines):
            pass  # it exists and is readable
    if run is not None:
        found = find_run(run)
        with opened(found) as recorded:
            source = f"run {found.name}, which has ended"
            _serve(recorded.client, port=port, source=source, pipelines=home, local=True, ended=recorded.curves)
        return
    with cluster.connect() as client:
        where = "" if all_namespaces else client.namespace
        # Report now, not on the page: no connection, no rights, no CRD.
        client.check_access(where)
        api, local = client.api, is_local(client.api)
        _serve(api, port=port, namespaces=(where,), archive_dir=archive_dir, pipelines=home, local=local)


def _serve(client: Client, **options: Any) -> None:
    """Serve a page until it is interrupted. Raises CliError."""
    from tfoperator.servers.http import ListenError
    from tfoperator.ui import UiServer

    ended = threading.Event()
    try:
        server = UiServer(client, on_link=say, **options)
    except ListenError as error:
        raise CliError(str(error), "Choose another --port, or none.", exit_code=EXIT_FAILED) from None
    with Interruptions(ended.set):
        server.start()
        try:
            ended.wait()
        finally:
            server.stop()
    note("the page has ended")
