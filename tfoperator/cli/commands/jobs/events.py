"""`tfoperator events NAME`: what happened to a job, its pods and its services."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from tfoperator.base.clock import SystemClock
from tfoperator.base.controlchars import json_text
from tfoperator.cli.cluster import Context, JobName, Kubeconfig, Namespace, connect
from tfoperator.cli.terminal.output import ReportFormat, ReportOutput, TableWriter, note, print_object
from tfoperator.cli.views.events import EVENT_HEADER, event_row, event_summary
from tfoperator.kube.resources import EVENTS
from tfoperator.kube.verbs import WatchEventType

if TYPE_CHECKING:
    from tfoperator.sdk import JobEvent, TFJobClient


def events(
    name: JobName,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on and show every new one.")] = False,
    output: ReportOutput = ReportFormat.TEXT,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show the events of a TFJob, its pods and services, the oldest first."""
    with connect(kubeconfig, context, namespace) as client:
        table = TableWriter(EVENT_HEADER)
        if watch:
            _watch(client, name, table, output)
            return
        found = client.get_job_events(name)
    if output is ReportFormat.JSON:
        print_object([event_summary(event) for event in found], output)
    elif found:
        table.write(_rows(found))
    else:
        note(f"There are no events about TFJob {name} (an API server forgets them after an hour or so).")


def _rows(found: Sequence[JobEvent]) -> list[tuple[str, ...]]:
    now = SystemClock().now()
    return [event_row(event, now) for event in found]


def _watch(client: TFJobClient, name: str, table: TableWriter, output: ReportFormat) -> None:
    from tfoperator.kube.event import decode_event
    from tfoperator.sdk import Follower
    from tfoperator.sdk.events import EventFilter

    concerns = EventFilter(client.get_job(name))
    first: list[JobEvent] | None = []

    def show(found: Sequence[JobEvent]) -> None:
        if output is ReportFormat.JSON:
            for event in found:
                typer.echo(json_text(event_summary(event)))
        else:
            table.write(_rows(found))

    with closing(iter(Follower(client.api, EVENTS, client.namespace, decode_event))) as changes:
        for change in changes:
            if change.object is None:
                show(sorted(first or (), key=lambda event: event.last_seen))
                first = None
            elif change.type is WatchEventType.DELETED or not concerns(change.object):
                continue
            elif first is not None:
                first.append(change.object)
            else:
                show([change.object])
