"""`tfoperator describe NAME`: everything about one job that helps to understand how it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfoperator.api.v1.types import TFJOBS
from tfoperator.cli.cluster import Context, Kubeconfig, Namespace, connect, plain
from tfoperator.cli.output import ReportFormat, ReportOutput, print_object, without_noise
from tfoperator.clock import SystemClock
from tfoperator.kube.resources import PODS

if TYPE_CHECKING:
    from tfoperator.kube.objects import Pod
    from tfoperator.sdk import JobEvent, TFJobClient

__all__ = ["describe", "register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("describe")(describe)


def describe(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The job.")],
    output: ReportOutput = ReportFormat.TEXT,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show a TFJob with its replicas, conditions and events."""
    from tfoperator.cli.description import print_description
    from tfoperator.cli.progress import Progress

    with connect(kubeconfig, context, namespace) as client:
        with Progress(f"reading {name}"):
            job = client.get_job(name)
            pods = client.get_job_pods(name)
            events = client.get_job_events(name)
        if output is ReportFormat.TEXT:
            print_description(job, pods, events, SystemClock().now())
        else:
            print_object(_report(client, name, pods, events), output)


def _report(client: TFJobClient, name: str, pods: list[Pod], events: list[JobEvent]) -> dict[str, Any]:
    from tfoperator.api.names import job_selector
    from tfoperator.cli.events import event_summary

    uids = {pod.metadata.uid for pod in pods}
    page = client.api.list(PODS, client.namespace, plain, label_selector=job_selector(name))
    kind = {"apiVersion": PODS.api_version, "kind": PODS.kind}
    return {
        "job": without_noise(client.api.get(TFJOBS, client.namespace, name, plain)),
        "pods": [without_noise(kind | pod) for pod in page.items if pod["metadata"]["uid"] in uids],
        "events": [event_summary(event) for event in events],
    }
