"""`tfoperator ui`: serves a page that shows jobs and pipeline runs, for a browser on this machine."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from tfoperator.cli.cluster import AllNamespaces, ArchiveDir, ClusterOptions
from tfoperator.cli.commands.pipeline.opening import opened as opened_home
from tfoperator.cli.page import DEFAULT_HOME, checked_home, is_local, serve_until_interrupted
from tfoperator.cli.recorded import find_run, opened

PagePort = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of the page; 0 takes a free port.")]


def ui(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Show this run of `tfoperator run` instead of a cluster.")
    ] = None,
    all_namespaces: AllNamespaces = False,
    port: PagePort = 0,
    archive_dir: ArchiveDir = None,
    pipelines: Annotated[
        str | None,
        typer.Option(
            "--pipelines",
            help="Folder or database whose pipeline runs are shown. Default: the runs of the current folder.",
            metavar="DIR|URL",
        ),
    ] = None,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Serve a page that shows running TFJobs and pipeline runs: state, replicas, progress, logs, resources.

    The page listens on 127.0.0.1 only, uses your own rights in the cluster, and changes nothing. The printed link works
    once, for one browser. After a browser has used the link, the command prints a new link. Ctrl-C ends the command.
    """
    if pipelines is not None:
        with opened_home(pipelines):
            pass  # it exists and is readable
    home = checked_home(str(pipelines or DEFAULT_HOME))
    if run is not None:
        kept_run = find_run(run)
        with opened(kept_run) as recorded:
            options = {"source": f"run {kept_run.name}", "local": True, "run": recorded}
            serve_until_interrupted(recorded.client, port=port, pipelines=home, **options)
        return
    with cluster.connect() as client:
        where = "" if all_namespaces else client.namespace
        # Report now, not on the page: no connection, no rights, no CRD.
        client.check_access(where)
        options = {"namespaces": (where,), "archive_dir": archive_dir, "local": is_local(client.api)}
        typed = (
            word for name, value in cluster.place().items() if name != "namespace" for word in (f"--{name}", value)
        )
        options |= {"commands": shlex.join(typed)}
        serve_until_interrupted(client.api, port=port, pipelines=home, **options)
