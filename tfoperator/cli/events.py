"""`tfoperator events NAME`: what happened to a job, its pods and its services."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfoperator.cli.ages import age
from tfoperator.cli.cluster import Context, Kubeconfig, Namespace, connect
from tfoperator.cli.output import ReportFormat, ReportOutput, TableWriter, note, print_object
from tfoperator.clock import SystemClock
from tfoperator.kube.resources import EVENTS
from tfoperator.kube.verbs import WatchEventType

if TYPE_CHECKING:
    from tfoperator.sdk import JobEvent, TFJobClient

__all__ = ["EVENT_HEADER", "event_row", "event_summary", "events", "register"]

EVENT_HEADER = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("events")(events)


def events(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The job.")],
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


def event_row(event: JobEvent, now: datetime) -> tuple[str, ...]:
    """The cells under EVENT_HEADER."""
    seen = age(event.last_seen, now) + (f" (x{event.times})" if event.times > 1 else "")
    return (seen, event.type, event.reason, event.subject, event.message)


def event_summary(event: JobEvent) -> dict[str, Any]:
    """An event for a program: what it says, about what, when and how often."""
    return {
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "kind": event.involved_object.kind,
        "name": event.involved_object.name,
        "count": event.times,
        "lastSeen": event.last_seen.isoformat(),
        "source": event.reporter,
    }


def _rows(found: Sequence[JobEvent]) -> list[tuple[str, ...]]:
    now = SystemClock().now()
    return [event_row(event, now) for event in found]


def _watch(client: TFJobClient, name: str, table: TableWriter, output: ReportFormat) -> None:
    from tfoperator.sdk import Follower
    from tfoperator.sdk.events import EventFilter, decode_event

    concerns = EventFilter(client.get_job(name))
    first: list[JobEvent] | None = []

    def show(found: Sequence[JobEvent]) -> None:
        if output is ReportFormat.JSON:
            for event in found:
                typer.echo(json.dumps(event_summary(event), ensure_ascii=False))
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
