"""The code of `tfoperator get`: reads jobs from a cluster, once or at each change, and prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import msgspec
import typer

from tfoperator.api.replicas.names import MANAGED_SELECTOR
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.base.clock import SystemClock
from tfoperator.base.controlchars import json_text
from tfoperator.cli.terminal.output import ListFormat, TableWriter, print_object, print_objects, say, without_noise
from tfoperator.cli.views.jobs import HEADER, QUEUE_HEADER, STATE_COLUMN, WIDE_HEADER, job_row, queue_cell
from tfoperator.cli.views.replica_rows import usage_cells, usage_header
from tfoperator.kube import ListWatch, Selection, list_all
from tfoperator.kube.protocol.verbs import WatchEventType, WithJson, with_json
from tfoperator.sdk import (
    Change,
    Follower,
    JobNotFound,
    JobQueue,
    PodUsage,
    TFJobClient,
    job_queues,
    measured_pods,
    total,
)
from tfoperator.sdk.errors import job_errors

ListedJob = WithJson[TFJob]
_decode = with_json(decode_tfjob)


def find_jobs(
    client: TFJobClient, where: str, names: Sequence[str], selector: str
) -> tuple[list[ListedJob], list[Exception]]:
    """Return the jobs with these names, and an error for each unknown name.

    If `names` is empty, return all jobs that the selector matches. `where` is the namespace, or "" for all namespaces.
    """
    if not names:
        with job_errors(where):
            listed = ListWatch(client.api, TFJOBS, where, _decode, Selection(label_selector=selector))
            return list_all(listed).items, []
    jobs: list[ListedJob] = []
    failures: list[Exception] = []
    for name in names:
        try:
            with job_errors(where, name):
                jobs.append(client.api.get(TFJOBS, where, name, _decode))
        except JobNotFound as error:
            failures.append(error)
    return jobs, failures


def usage_of_jobs(client: TFJobClient, where: str) -> dict[tuple[str, str], PodUsage]:
    """Return the CPUs and the memory that the pods of each job use now, by the job's namespace and name.

    The function makes one request. The result is empty if the cluster has no metrics API.
    """
    pods: dict[tuple[str, str], list[PodUsage]] = {}
    for pod in measured_pods(client.api, where, MANAGED_SELECTOR):
        pods.setdefault((pod.namespace, pod.job), []).append(pod.usage)
    return {job: total(usages) for job, usages in pods.items()}


def watch_jobs(client: TFJobClient, where: str, names: Sequence[str], selector: str, printer: JobPrinter) -> None:
    """Print the existing jobs, and then every change, until interrupted.

    `names` has at most one name: with a name, only this job is printed, and an error is raised if it does not exist.

    If the table has a column for queues, each change of a job in a queue costs one more request, which reads the job's
    state in the queue.
    """
    by_name = f"metadata.name={names[0]}" if names else ""
    selection = Selection(label_selector=selector, field_selector=by_name)
    follower = Follower(client.api, TFJOBS, where, _decode, selection)
    first: list[ListedJob] | None = []
    with job_errors(where), closing(iter(follower)) as changes:
        for change in changes:
            if change.object is None:
                if names and not first:
                    client.get_job(names[0])  # reports that it does not exist
                listed = first or []
                if printer.shows_queues:
                    printer.place(listed, job_queues(client.api, [job.view for job in listed]))
                printer.rows(listed)
                first = None
            elif first is not None:
                first.append(change.object)
            else:
                if printer.shows_queues and change.type is not WatchEventType.DELETED:
                    printer.place([change.object], job_queues(client.api, [change.object.view]))
                printer.change(change)


class JobPrinter:
    """Prints jobs in one of the formats, all at once or one after another."""

    def __init__(
        self,
        output: ListFormat,
        *,
        with_namespace: bool,
        usage: Mapping[tuple[str, str], PodUsage] | None = None,
        queues: Mapping[str, JobQueue] | None = None,
    ) -> None:
        """`usage` is the result of `usage_of_jobs`, for the wide table.

        With `with_namespace`, the table has a column for the namespace. `queues` has the states of jobs in queues, by
        UID; the table shows these states in a column.
        """
        self._queues = dict(queues or {})
        self._usage = usage or {}
        self._used = usage_header(self._usage.values())
        self._output = output
        self._with_namespace = with_namespace
        self._wide = output is ListFormat.WIDE
        self._with_queue = bool(self._queues)
        self._table = self._new_table()

    @property
    def shows_queues(self) -> bool:
        """Whether the format has a column for queues."""
        return self._output in (ListFormat.TABLE, ListFormat.WIDE)

    def place(self, found: Sequence[ListedJob], queues: Mapping[str, JobQueue]) -> None:
        """Replace the known queue states of the jobs `found` by `queues`, which has the new states by UID.

        When the first job with a queue appears, a new table begins, which has the column for queues.
        """
        for job in found:
            self._queues.pop(job.metadata.uid, None)
        self._queues |= queues
        if queues and not self._with_queue:
            self._with_queue = True
            self._table = self._new_table()

    def whole(self, found: list[ListedJob], *, single: bool) -> None:
        """Print all jobs: in JSON and YAML as a list, in other formats as rows.

        With `single`, `found` has only one job: JSON and YAML show the job itself and not a list.
        """
        if self._output in (ListFormat.JSON, ListFormat.YAML):
            objects = [_plain(job) for job in found]
            print_objects(objects, self._output, single=single)
        elif found:
            self.rows(found)

    def rows(self, found: list[ListedJob], state: str = "") -> None:
        """Print some jobs, each on its own: as JSON, YAML, a name, or a row of the table.

        In the table, `state` replaces the state of the jobs, unless it is "".
        """
        if self._output is ListFormat.JSON:
            for job in found:
                typer.echo(json_text(_plain(job)))
        elif self._output is ListFormat.YAML:
            for job in found:
                typer.echo("---")
                print_object(_plain(job), self._output)
        elif self._output is ListFormat.NAME:
            for job in found:
                say(f"tfjob.kubeflow.org/{job.metadata.name}")
        else:
            self._table.write([self._row(job, state) for job in found])

    def change(self, change: Change[ListedJob]) -> None:
        """Print a job that has changed. In the table, the state of a deleted job is `Deleted`."""
        assert change.object is not None
        self.rows([change.object], "Deleted" if change.type is WatchEventType.DELETED else "")

    def _new_table(self) -> TableWriter:
        queue = (QUEUE_HEADER,) if self._with_queue else ()
        header = (*WIDE_HEADER[:-1], *self._used, *queue, WIDE_HEADER[-1]) if self._wide else (*HEADER, *queue)
        shift = int(self._with_namespace)
        return TableWriter(("NAMESPACE", *header) if shift else header, state_column=STATE_COLUMN + shift)

    def _row(self, job: ListedJob, state: str) -> tuple[str, ...]:
        row = job_row(job.view, SystemClock().now(), wide=self._wide, state=state)
        queue = self._queues.get(job.metadata.uid)
        cell = (queue_cell(queue),) if self._with_queue else ()
        if self._wide:
            used = self._usage.get((job.metadata.namespace, job.metadata.name))
            message = queue.message if queue is not None and queue.waits else row[-1]
            row = (*row[:-1], *usage_cells(used, self._used), *cell, message)
        else:
            row = (*row, *cell)
        return (job.metadata.namespace, *row) if self._with_namespace else row


def _plain(job: ListedJob) -> dict[str, Any]:
    # In a list of the API server, only the list itself has `apiVersion` and `kind`, and its items do not.
    kind = {"apiVersion": TFJOBS.api_version, "kind": TFJOBS.kind}
    return without_noise(kind | msgspec.json.decode(job.raw, type=dict[str, Any]))
