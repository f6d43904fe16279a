"""`tfoperator describe NAME`: everything about one job that helps to understand how it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tfoperator.api.v1.types import TFJOBS
from tfoperator.base.clock import SystemClock
from tfoperator.cli.cluster import Context, JobName, Kubeconfig, Namespace, connect, plain
from tfoperator.cli.terminal.output import ReportFormat, ReportOutput, print_object, without_noise
from tfoperator.kube import ListOptions
from tfoperator.kube.resources import PODS

if TYPE_CHECKING:
    from tfoperator.kube.objects import Pod
    from tfoperator.sdk import JobEvent, JobQueue, PodUsage, TFJobClient


def describe(
    name: JobName,
    output: ReportOutput = ReportFormat.TEXT,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show a TFJob with its replicas, conditions and events."""
    from tfoperator.cli.terminal.progress import StatusLine
    from tfoperator.cli.views.description import print_description

    with connect(kubeconfig, context, namespace) as client:
        with StatusLine(f"reading {name}"):
            job = client.get_job(name)
            pods = client.get_job_pods(name)
            events = client.get_job_events(name)
            usage = client.get_job_usage(name) if pods else {}
            queue = client.get_job_queue(job=job)
        if output is ReportFormat.TEXT:
            print_description(job, pods, events, SystemClock().now(), usage, queue)
        else:
            print_object(_report(client, name, pods, events, usage) | _queue_summary(queue), output)


def _queue_summary(queue: JobQueue | None) -> dict[str, Any]:
    return {} if queue is None else {"queue": msgspec.to_builtins(queue)}


def _report(
    client: TFJobClient, name: str, pods: list[Pod], events: list[JobEvent], usage: dict[str, PodUsage]
) -> dict[str, Any]:
    from tfoperator.api.names import job_selector
    from tfoperator.cli.views.events import event_summary

    uids = {pod.metadata.uid for pod in pods}
    page = client.api.list(PODS, client.namespace, plain, ListOptions(label_selector=job_selector(name)))
    kind = {"apiVersion": PODS.api_version, "kind": PODS.kind}
    return {
        "job": without_noise(client.api.get(TFJOBS, client.namespace, name, plain)),
        "pods": [without_noise(kind | pod) for pod in page.items if pod["metadata"]["uid"] in uids],
        "events": [event_summary(event) for event in events],
        "usage": {pod: msgspec.to_builtins(used) for pod, used in usage.items()},
    }
