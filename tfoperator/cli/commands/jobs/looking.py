"""`tfoperator get`, `describe` and `events`: show the state of jobs, the details of a job, and its events."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Any

import msgspec
import typer

from tfoperator.api.replicas.names import job_selector
from tfoperator.api.v1.types import TFJOBS
from tfoperator.base.clock import SystemClock
from tfoperator.base.controlchars import json_text
from tfoperator.cli.cluster import AllNamespaces, ClusterOptions, JobName, Selector
from tfoperator.cli.recorded import client_of, of_run
from tfoperator.cli.terminal.complaints import complain
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError
from tfoperator.cli.terminal.output import (
    ListFormat,
    ListOutput,
    ReportFormat,
    ReportOutput,
    TableWriter,
    note,
    print_object,
    without_noise,
)
from tfoperator.cli.terminal.progress import StatusLine
from tfoperator.cli.views.jobs import EVENT_HEADER, event_row, event_summary
from tfoperator.kube import ListOptions
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import EVENTS, PODS
from tfoperator.kube.protocol.verbs import WatchEventType, decode_plain
from tfoperator.kube.views.event import decode_event
from tfoperator.kube.views.objects import Pod
from tfoperator.sdk import Follower, JobEvent, JobQueue, PodUsage, TFJobClient, job_queues
from tfoperator.sdk.events import concerns


def get(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Names of jobs. Default: all jobs.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep running, and show every change.")] = False,
    selector: Selector = "",
    all_namespaces: AllNamespaces = False,
    output: ListOutput = ListFormat.TABLE,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Show TFJobs and their states."""
    wanted = names or []
    if all_namespaces and wanted:
        raise CliError("a name needs one namespace: leave out either the name or -A")
    if watch and len(wanted) > 1:
        raise CliError("--watch takes at most one name; leave out the names to watch all jobs")
    from tfoperator.cli.views.listing import JobPrinter, ListedJob, find_jobs, usage_of_jobs, watch_jobs

    of_runs = [word for word in wanted if of_run(word, cluster)[0] is not None]
    groups = [[word] for word in wanted] if of_runs else [wanted]  # each run has its own API server
    listed_jobs: list[ListedJob] = []
    failures: list[Exception] = []
    usage: dict[tuple[str, str], PodUsage] = {}
    queues: dict[str, JobQueue] = {}
    is_table = output in (ListFormat.TABLE, ListFormat.WIDE)
    for words in groups:
        try:
            with client_of(next(iter(words), ""), cluster) as (client, name):
                asked = [name, *words[1:]] if words else []
                where = "" if all_namespaces else client.namespace
                if watch and not of_runs:
                    # A watch shows changes of jobs; their usage changes constantly, without events.
                    watch_jobs(client, where, asked, selector, JobPrinter(output, with_namespace=all_namespaces))
                    return
                usage |= usage_of_jobs(client, where) if output is ListFormat.WIDE else {}
                jobs, missing = find_jobs(client, where, asked, selector)
                listed_jobs, failures = listed_jobs + jobs, failures + missing
                queues |= job_queues(client.api, [listed.view for listed in jobs]) if is_table else {}
        except (CliError, KubeError) as error:
            if len(groups) == 1:
                raise
            failures.append(error)
    printer = JobPrinter(output, with_namespace=all_namespaces, usage=usage, queues=queues)
    if listed_jobs or not failures:
        printer.whole(listed_jobs, single=len(wanted) == 1)
    if not listed_jobs and not wanted and is_table:
        note("No TFJobs found" + (f" in namespace {where}." if where else "."))
    codes = [complain(error) for error in failures]
    if codes:
        raise typer.Exit(EXIT_FAILED)


def describe(
    name: JobName,
    output: ReportOutput = ReportFormat.TEXT,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Show a TFJob with its replicas, conditions and events."""
    from tfoperator.cli.views.description import print_description

    with client_of(name, cluster) as (client, name):
        with StatusLine(f"reading {name}"):
            job = client.get_job(name)
            pods = client.get_job_pods(name)
            events = client.get_job_events(name)
            usage = client.get_job_usage(name) if pods else {}
            queue = client.get_job_queue(job=job)
        if output is ReportFormat.TEXT:
            print_description(job, pods, events, SystemClock().now(), usage, queue)
        else:
            description = _report(client, name, pods, events, usage)
            print_object(description if queue is None else description | {"queue": msgspec.to_builtins(queue)}, output)


def _report(
    client: TFJobClient, name: str, pods: list[Pod], events: list[JobEvent], usage: dict[str, PodUsage]
) -> dict[str, Any]:
    uids = {pod.metadata.uid for pod in pods}
    page = client.api.list(PODS, client.namespace, decode_plain, ListOptions(label_selector=job_selector(name)))
    kind = {"apiVersion": PODS.api_version, "kind": PODS.kind}
    return {
        "job": without_noise(client.api.get(TFJOBS, client.namespace, name, decode_plain)),
        "pods": [without_noise(kind | pod) for pod in page.items if pod["metadata"]["uid"] in uids],
        "events": [event_summary(event) for event in events],
        "usage": {pod: msgspec.to_builtins(used) for pod, used in usage.items()},
    }


def events(
    name: JobName,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep running, and show every new event.")] = False,
    output: ReportOutput = ReportFormat.TEXT,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Show the events of a TFJob and of its pods and services, the oldest first."""
    watch = watch and of_run(name, cluster)[0] is None  # a run that has ended has no new events
    with client_of(name, cluster) as (client, name):
        table = TableWriter(EVENT_HEADER)
        if watch:
            _watch(client, name, table, output)
            return
        job_events = client.get_job_events(name)
    if output is ReportFormat.JSON:
        print_object([event_summary(event) for event in job_events], output)
    elif job_events:
        table.write(_rows(job_events))
    else:
        note(f"There are no events about TFJob {name} (API servers delete events after about an hour).")


def _rows(job_events: Sequence[JobEvent]) -> list[tuple[str, ...]]:
    now = SystemClock().now()
    return [event_row(event, now) for event in job_events]


def _watch(client: TFJobClient, name: str, table: TableWriter, output: ReportFormat) -> None:
    job = client.get_job(name)
    first: list[JobEvent] | None = []

    def show(job_events: Sequence[JobEvent]) -> None:
        if output is ReportFormat.JSON:
            for event in job_events:
                typer.echo(json_text(event_summary(event)))
        else:
            table.write(_rows(job_events))

    with closing(iter(Follower(client.api, EVENTS, client.namespace, decode_event))) as changes:
        for change in changes:
            if change.object is None:
                show(sorted(first or (), key=lambda event: event.last_seen))
                first = None
            elif change.type is WatchEventType.DELETED or not concerns(job, change.object):
                continue
            elif first is not None:
                first.append(change.object)
            else:
                show([change.object])
