"""The half of the client that only looks: jobs, conditions, pods, logs, events, and waiting."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from typing import TypeVar

from tfoperator.api.names import job_selector
from tfoperator.api.v1.types import TFJOBS, ConditionType, JobCondition, TFJob, decode_tfjob
from tfoperator.archive import ARCHIVE_VARIABLE, ArchivedPod, archived_pods
from tfoperator.clock import Clock, SystemClock
from tfoperator.kube.client import Client
from tfoperator.kube.config import load_config
from tfoperator.kube.objects import Pod, decode_pod
from tfoperator.kube.resources import EVENTS, PODS, Resource
from tfoperator.kube.verbs import Decoder
from tfoperator.sdk.errors import JobNotFound, job_errors
from tfoperator.sdk.events import JobEvent, decode_event, events_of
from tfoperator.sdk.history import ReplicaLog, add_archived
from tfoperator.sdk.log_stream import JobLogStream
from tfoperator.sdk.logs import LogLine, read_logs
from tfoperator.sdk.states import has_condition, pod_order, replica_name, select_pods
from tfoperator.sdk.waiting import checked_conditions, wait_for_conditions, wait_for_deletion

__all__ = ["DEFAULT_WAIT_TIMEOUT", "JobReader"]

T = TypeVar("T")

DEFAULT_WAIT_TIMEOUT = 600.0
"""Seconds, as TrainingClient has it."""

_PAGE = 500  # objects per list request


class JobReader:
    """See `TFJobClient`."""

    def __init__(
        self,
        config_file: str | None = None,
        context: str | None = None,
        namespace: str | None = None,
        *,
        client: Client | None = None,
        clock: Clock | None = None,
        archive_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self._archive = archive_dir if archive_dir is not None else os.environ.get(ARCHIVE_VARIABLE, "")
        self._owns_client = client is None
        self._client = client if client is not None else Client(load_config(config_file, context))
        self._namespace = namespace or self._client.namespace
        self._clock = clock or SystemClock()

    def close(self) -> None:
        """End every call under way and close the connections; those of a `client` that was given stay open."""
        if self._owns_client:
            self._client.close()

    @property
    def namespace(self) -> str:
        """The namespace of every method that is given none."""
        return self._namespace

    @property
    def api(self) -> Client:
        """The client of the API server below, for what this one doesn't do."""
        return self._client

    # Jobs.

    def get_job(self, name: str, namespace: str | None = None) -> TFJob:
        """The job as it is now. Raises JobNotFound, NotInstalled."""
        where = self._where(namespace)
        with job_errors(where, name):
            return self._client.get(TFJOBS, where, name, decode_tfjob)

    def list_jobs(
        self, namespace: str | None = None, *, label_selector: str = "", all_namespaces: bool = False
    ) -> list[TFJob]:
        """Every job of the namespace, or of all. Raises NotInstalled."""
        where = "" if all_namespaces else self._where(namespace)
        with job_errors(where):
            return self._list(TFJOBS, where, decode_tfjob, label_selector)

    def get_job_conditions(
        self, name: str = "", namespace: str | None = None, *, job: TFJob | None = None
    ) -> list[JobCondition]:
        """The conditions of a job, the latest last; those of `job` if it is given."""
        return list((job or self.get_job(name, namespace)).status.conditions)

    def is_job_created(self, name: str = "", namespace: str | None = None, *, job: TFJob | None = None) -> bool:
        """Whether the operator has taken notice of the job."""
        return self._has(ConditionType.CREATED, name, namespace, job)

    def is_job_running(self, name: str = "", namespace: str | None = None, *, job: TFJob | None = None) -> bool:
        """Whether the chief (or, without one, any worker) runs."""
        return self._has(ConditionType.RUNNING, name, namespace, job)

    def is_job_restarting(self, name: str = "", namespace: str | None = None, *, job: TFJob | None = None) -> bool:
        """Whether replicas are being started again."""
        return self._has(ConditionType.RESTARTING, name, namespace, job)

    def is_job_suspended(self, name: str = "", namespace: str | None = None, *, job: TFJob | None = None) -> bool:
        """Whether the job is suspended."""
        return self._has(ConditionType.SUSPENDED, name, namespace, job)

    def is_job_succeeded(self, name: str = "", namespace: str | None = None, *, job: TFJob | None = None) -> bool:
        """Whether the job has succeeded."""
        return self._has(ConditionType.SUCCEEDED, name, namespace, job)

    def is_job_failed(self, name: str = "", namespace: str | None = None, *, job: TFJob | None = None) -> bool:
        """Whether the job has failed."""
        return self._has(ConditionType.FAILED, name, namespace, job)

    # Waiting.

    def wait_for_job_conditions(
        self,
        name: str,
        namespace: str | None = None,
        expected_conditions: Collection[str] = (ConditionType.SUCCEEDED,),
        wait_timeout: float | None = DEFAULT_WAIT_TIMEOUT,
        callback: Callable[[TFJob], object] | None = None,
    ) -> TFJob:
        """Watch the job until one of the conditions is true; returns it as it is then.

        `wait_timeout` is in seconds (None: for ever, 0: look once). `callback` gets every state that the job goes
        through. A job that has succeeded counts as having been Running.

        Raises WaitTimeout (a TimeoutError), JobFailed if it fails and Failed isn't expected, JobEnded if it succeeds
        though something else is waited for, JobDeleted, JobNotFound; ValueError for conditions that don't exist.
        """
        expected = checked_conditions(expected_conditions)
        return wait_for_conditions(
            self._client,
            self._where(namespace),
            name,
            expected,
            timeout=wait_timeout,
            callback=callback,
            clock=self._clock,
        )

    def wait_for_job_deletion(
        self, name: str, namespace: str | None = None, wait_timeout: float | None = DEFAULT_WAIT_TIMEOUT
    ) -> None:
        """Watch until there is no such job (any more). Raises WaitTimeout."""
        wait_for_deletion(self._client, self._where(namespace), name, timeout=wait_timeout, clock=self._clock)

    # Pods, logs, events.

    def get_job_pods(
        self,
        name: str,
        namespace: str | None = None,
        is_master: bool = False,
        replica_type: str | None = None,
        replica_index: int | None = None,
    ) -> list[Pod]:
        """The job's pods that match every filter: chief first, then workers by index, evaluator, parameter servers.

        `is_master` picks the pod that leads the job (chief or master, else worker 0). Raises JobNotFound.
        """
        return self._pods_of(self.get_job(name, namespace), is_master, replica_type, replica_index)

    def get_job_pod_names(
        self,
        name: str,
        namespace: str | None = None,
        is_master: bool = False,
        replica_type: str | None = None,
        replica_index: int | None = None,
    ) -> list[str]:
        """The names of those pods."""
        pods = self.get_job_pods(name, namespace, is_master, replica_type, replica_index)
        return [pod.metadata.name for pod in pods]

    def get_job_logs(
        self,
        name: str,
        namespace: str | None = None,
        is_master: bool = True,
        replica_type: str | None = None,
        replica_index: int | None = None,
        container: str = "",
        follow: bool = False,
        *,
        previous: bool = False,
        tail_lines: int | None = None,
        on_line: Callable[[LogLine], object] | None = None,
    ) -> dict[str, str]:
        """What pods have logged, by pod name; those that have not started are left out.

        By default it is the pod that leads the job; with a replica type or index, whatever `is_master` says, those
        pods; with `is_master=False` alone all. `container` is `tensorflow` unless it is named. `previous` is the run
        before the container's last restart.

        With an archive, pods that were deleted count, too: see `get_replica_logs`.

        With `follow` each line is handed to `on_line` as it is written (by default to standard output, behind its
        pod's name), until the job has ended; the whole is returned then.
        """
        if not follow:
            logs = self.get_replica_logs(
                name,
                namespace,
                is_master,
                replica_type,
                replica_index,
                container,
                previous=previous,
                tail_lines=tail_lines,
            )
            return {log.pod.metadata.name: log.text for log in logs if log.text is not None}
        if previous:
            raise ValueError("the log of a previous run has ended, so it can't be followed")
        texts: dict[str, list[str]] = {}
        show = on_line or _show
        with self.stream_job_logs(
            name, namespace, is_master, replica_type, replica_index, container, tail_lines=tail_lines
        ) as stream:
            for line in stream:
                texts.setdefault(line.pod, []).append(line.text + "\n")
                show(line)
        return {pod: "".join(lines) for pod, lines in texts.items()}

    def get_replica_logs(
        self,
        name: str,
        namespace: str | None = None,
        is_master: bool = True,
        replica_type: str | None = None,
        replica_index: int | None = None,
        container: str = "",
        *,
        previous: bool = False,
        tail_lines: int | None = None,
    ) -> list[ReplicaLog]:
        """As `get_job_logs` without `follow`, one `ReplicaLog` per replica, which says whose it is and where it was.

        With `archive_dir` (or `$TFOPERATOR_ARCHIVE_DIR`), the operator's log archive, it also finds what pods have
        logged that were deleted since: the log of a replica without a pod, and with `previous` that of the pod before.
        A job that is gone itself is looked up there by its name alone. Raises JobNotFound, which says whose logs there
        are if not those asked for, and OSError if the archive can't be read.
        """
        filters = is_master and replica_type is None and replica_index is None, replica_type, replica_index
        try:
            job = self.get_job(name, namespace)
        except JobNotFound as error:
            archived = self._archived(name, namespace, None, *filters)
            if not archived:
                raise self._gone(error) from None
            return add_archived((), {}, archived, container=container, previous=previous, tail_lines=tail_lines)
        pods = self._pods_of(job, *filters)
        texts = read_logs(self._client, pods, container=container, previous=previous, tail_lines=tail_lines)
        archived = self._archived(name, namespace, job.metadata.uid, *filters)
        return add_archived(pods, texts, archived, container=container, previous=previous, tail_lines=tail_lines)

    def stream_job_logs(
        self,
        name: str,
        namespace: str | None = None,
        is_master: bool = True,
        replica_type: str | None = None,
        replica_index: int | None = None,
        container: str = "",
        *,
        tail_lines: int | None = None,
        on_wait: Callable[[str], object] | None = None,
    ) -> JobLogStream:
        """An iterator over log lines as they are written, through restarts; see `JobLogStream`. Raises JobNotFound."""
        job = self.get_job(name, namespace)
        master = is_master and replica_type is None and replica_index is None
        select_pods((), replica_type=replica_type)  # raises for a type that does not exist

        def select(pod: Pod) -> bool:
            return bool(select_pods((pod,), is_master=master, replica_type=replica_type, replica_index=replica_index))

        return JobLogStream(
            self._client,
            job,
            select,
            single=master or (replica_type is not None and replica_index is not None),
            container=container,
            tail_lines=tail_lines,
            on_wait=on_wait,
            clock=self._clock,
        )

    def get_job_events(self, name: str, namespace: str | None = None) -> list[JobEvent]:
        """Events about the job, its pods, services and pod group, the oldest first. Raises JobNotFound."""
        job = self.get_job(name, namespace)
        return events_of(job, self._list(EVENTS, job.metadata.namespace, decode_event, ""))

    # For both halves.

    def _where(self, namespace: str | None) -> str:
        return namespace or self._namespace

    def _pods_of(self, job: TFJob, is_master: bool, replica_type: str | None, replica_index: int | None) -> list[Pod]:
        pods = self._list(PODS, job.metadata.namespace, decode_pod, job_selector(job.metadata.name))
        own = [pod for pod in pods if _is_owned(pod, job)]
        return select_pods(own, is_master=is_master, replica_type=replica_type, replica_index=replica_index)

    def _archived(
        self,
        name: str,
        namespace: str | None,
        uid: str | None,
        is_master: bool,
        replica_type: str | None,
        replica_index: int | None,
    ) -> list[ArchivedPod]:
        if not self._archive:
            return []
        records = {pod.pod_uid: pod for pod in archived_pods(self._archive, self._where(namespace), name, uid)}
        chosen = {
            pod.metadata.uid
            for pod in select_pods(
                [record.as_pod() for record in records.values()],
                is_master=is_master,
                replica_type=replica_type,
                replica_index=replica_index,
            )
        }
        return [record for pod_uid, record in records.items() if pod_uid in chosen]

    def _gone(self, error: JobNotFound) -> JobNotFound:
        """The error, with what the archive has of the job, though it isn't what was asked for."""
        records = self._archived(error.name, error.namespace, None, False, None, None)
        replicas = list(dict.fromkeys(map(replica_name, sorted((one.as_pod() for one in records), key=pod_order))))
        if not replicas:
            return error
        message = f"TFJob {error.name} in namespace {error.namespace} is gone; the archive has logs of it, but only of "
        return JobNotFound(error.namespace, error.name, message + ", ".join(replicas), replicas)

    def _has(self, condition: ConditionType, name: str, namespace: str | None, job: TFJob | None) -> bool:
        return has_condition(job or self.get_job(name, namespace), condition)

    def _list(self, resource: Resource, namespace: str, decode: Decoder[T], selector: str) -> list[T]:
        items: list[T] = []
        token = ""
        while True:
            page = self._client.list(
                resource, namespace, decode, label_selector=selector, limit=_PAGE, continue_token=token
            )
            items += page.items
            token = page.continue_token
            if not token:
                return items


def _is_owned(pod: Pod, job: TFJob) -> bool:
    owner = pod.metadata.controller
    return owner is not None and owner.uid == job.metadata.uid


def _show(line: LogLine) -> None:
    sys.stdout.write(f"[{line.pod}] {line.text}\n")
    sys.stdout.flush()
