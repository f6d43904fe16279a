"""The half of the client that only reads: jobs, conditions, pods, logs, events, and waiting."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import TypeVar

import msgspec

from tfoperator.api.job_conditions import has_condition
from tfoperator.api.names import job_selector, replica_name
from tfoperator.api.queues import is_multikueue
from tfoperator.api.v1.types import TFJOBS, ConditionType, JobCondition, TFJob, decode_tfjob
from tfoperator.archive import ARCHIVE_VARIABLE, ArchivedPod, archived_pods
from tfoperator.clock import Clock, SystemClock
from tfoperator.controlchars import without_controls
from tfoperator.kube import ListOptions, Selection, list_pages
from tfoperator.kube.client import Client
from tfoperator.kube.config import load_config
from tfoperator.kube.errors import KubeError
from tfoperator.kube.event import decode_event
from tfoperator.kube.objects import Pod, decode_pod
from tfoperator.kube.resources import EVENTS, PODS, Resource
from tfoperator.kube.verbs import Decoder
from tfoperator.report import Report, make_report
from tfoperator.sdk.culprit import Culprit, read_culprit
from tfoperator.sdk.errors import JobElsewhere, JobFailed, JobNotFound, WaitTimeout, job_errors
from tfoperator.sdk.events import JobEvent, events_of
from tfoperator.sdk.history import ReplicaLog, add_archived
from tfoperator.sdk.job_report import ClusterLogs, job_facts
from tfoperator.sdk.log_stream import JobLogStream
from tfoperator.sdk.pod_logs import LogLine, read_logs
from tfoperator.sdk.queues import JobQueue, cluster_of, job_queue
from tfoperator.sdk.stacks import ReplicaStacks, take_stacks
from tfoperator.sdk.states import ReplicaFilter, pod_order
from tfoperator.sdk.usage import PodUsage, measured_pods
from tfoperator.sdk.waiting import checked_conditions, wait_for_conditions, wait_for_deletion

T = TypeVar("T")

DEFAULT_WAIT_TIMEOUT = 600.0
"""Seconds, as TrainingClient has it."""


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

    def check_access(self, namespace: str | None = None) -> None:
        """Ask for one job: returns if jobs can be read there ("" is everywhere). Raises NotInstalled, KubeError."""
        where = self._where(namespace) if namespace is None else namespace
        with job_errors(where):
            self._client.list(TFJOBS, where, decode_tfjob, ListOptions(limit=1))

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

        Raises WaitTimeout (a TimeoutError), JobFailed if it fails and Failed isn't expected (with the last log lines of
        the replica that failed first, where they can be had), JobEnded if it succeeds
        though something else is waited for, JobDeleted, JobNotFound; ValueError for conditions that don't exist.
        """
        expected = checked_conditions(expected_conditions)
        try:
            return wait_for_conditions(
                self._client,
                self._where(namespace),
                name,
                expected,
                timeout=wait_timeout,
                callback=callback,
                clock=self._clock,
            )
        except JobFailed as error:
            raise JobFailed(error.job, error.condition, self._culprit(error.job)) from None
        except WaitTimeout as error:
            queue = None if error.job is None else job_queue(self._client, error.job)
            if queue is None or not queue.waits:
                raise
            raise WaitTimeout(error.namespace, error.name, f"{error}; queue {queue}", error.job) from None

    def wait_for_job_deletion(
        self, name: str, namespace: str | None = None, wait_timeout: float | None = DEFAULT_WAIT_TIMEOUT
    ) -> None:
        """Watch until there is no such job (any more). Raises WaitTimeout."""
        wait_for_deletion(self._client, self._where(namespace), name, timeout=wait_timeout, clock=self._clock)

    def get_job_queue(
        self, name: str = "", namespace: str | None = None, *, job: TFJob | None = None
    ) -> JobQueue | None:
        """Where the job stands in its queue of Kueue, and why it waits; None, without a request, for one without.

        What can't be read is said in the answer's `message`. Raises JobNotFound.
        """
        return job_queue(self._client, job or self.get_job(name, namespace))

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
        which = ReplicaFilter(is_master, replica_type, replica_index)
        return self._pods_of(self.get_job(name, namespace), which)

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
        since_seconds: int | None = None,
        timestamps: bool = False,
        on_line: Callable[[LogLine], object] | None = None,
    ) -> dict[str, str]:
        """What pods have logged, by pod name; those that have not started are left out.

        By default it is the pod that leads the job; with a replica type or index, whatever `is_master` says, those
        pods; with `is_master=False` alone all. `container` is `tensorflow` unless it is named. `previous` is the run
        before the container's last restart. `since_seconds` leaves out what was written earlier, and with `timestamps`
        each line begins with the time at which it was written (RFC 3339).

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
                since_seconds=since_seconds,
                timestamps=timestamps,
            )
            return {log.pod.metadata.name: log.text for log in logs if log.text is not None}
        if previous:
            raise ValueError("the log of a previous run has ended, so it can't be followed")
        texts: dict[str, list[str]] = {}
        show = on_line or _show
        with self.stream_job_logs(
            name,
            namespace,
            is_master,
            replica_type,
            replica_index,
            container,
            tail_lines=tail_lines,
            since_seconds=since_seconds,
            timestamps=timestamps,
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
        since_seconds: int | None = None,
        timestamps: bool = False,
    ) -> list[ReplicaLog]:
        """As `get_job_logs` without `follow`, one `ReplicaLog` per replica, which says whose it is and where it was.

        With `archive_dir` (or `$TFOPERATOR_ARCHIVE_DIR`), the operator's log archive, it also finds what pods have
        logged that were deleted since: the log of a replica without a pod, and with `previous` that of the pod before.
        A job that is gone itself is looked up there by its name alone. Raises JobNotFound, which says whose logs there
        are if not those asked for, JobElsewhere if MultiKueue has the job run on another cluster, and OSError if the
        archive can't be read. It keeps no times of lines: with `since_seconds` it has the whole log of a pod that was
        kept since then.
        """
        which = ReplicaFilter.or_master(is_master, replica_type, replica_index)
        try:
            job = self.get_job(name, namespace)
        except JobNotFound as error:
            archived = self._kept_since(self._archived(name, namespace, None, which), since_seconds)
            if not archived:
                raise self._gone(error) from None
            return add_archived((), {}, archived, container=container, previous=previous, tail_lines=tail_lines)
        pods = self._pods_of(job, which)
        texts = read_logs(
            self._client,
            pods,
            container=container,
            previous=previous,
            tail_lines=tail_lines,
            since_seconds=since_seconds,
            timestamps=timestamps,
        )
        archived = self._kept_since(self._archived(name, namespace, job.metadata.uid, which), since_seconds)
        if not pods and not archived:
            self._be_here(job)
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
        since_seconds: int | None = None,
        timestamps: bool = False,
        on_wait: Callable[[str], object] | None = None,
    ) -> JobLogStream:
        """An iterator over `LogLine`s as they are written, through restarts; see `JobLogStream`.

        Raises JobNotFound, and JobElsewhere if MultiKueue has the job run on another cluster.
        A `LogLine` has the line as `text`, and says whose it is: `replica` (`worker-0`), `pod` and `container`.
        `since_seconds` and `timestamps` are as for `get_job_logs`.
        """
        job = self.get_job(name, namespace)
        self._be_here(job)
        which = ReplicaFilter.or_master(is_master, replica_type, replica_index)
        return JobLogStream(
            self._client,
            job,
            which.matches,
            single=which.single,
            container=container,
            tail_lines=tail_lines,
            since_seconds=since_seconds,
            timestamps=timestamps,
            on_wait=on_wait,
            clock=self._clock,
        )

    def get_job_report(self, name: str, namespace: str | None = None) -> Report:
        """Why the job failed, or does not go on: see `tfoperator.report`. Raises JobNotFound, OSError as above.

        The archive is asked for the logs of pods that are gone. Of a job that is gone nothing is known here.
        """
        job = self.get_job(name, namespace)
        pods = self._pods_of(job, ReplicaFilter())
        archived = self._archived(name, namespace, job.metadata.uid, ReplicaFilter())
        report = make_report(job_facts(job, pods, archived, ClusterLogs(self._client)))
        if is_multikueue(job):
            elsewhere = JobElsewhere(job, cluster_of(self._client, job))
            report = msgspec.structs.replace(report, advice=(f"{elsewhere}: a report made there knows more.",))
        return report

    def get_job_stacks(
        self,
        name: str,
        namespace: str | None = None,
        replica_type: str | None = None,
        replica_index: int | None = None,
    ) -> list[ReplicaStacks]:
        """Where the Python threads of the replicas are that run now. Raises JobNotFound, JobElsewhere.

        Blocks for some seconds. In a cluster it runs a command in each pod, which needs the right `create pods/exec`.
        """
        which = ReplicaFilter(replica_type=replica_type, replica_index=replica_index)
        job = self.get_job(name, namespace)
        self._be_here(job)
        return take_stacks(self._client, self._pods_of(job, which))

    def get_job_events(self, name: str, namespace: str | None = None) -> list[JobEvent]:
        """Events about the job, its pods, services and pod group, the oldest first. Raises JobNotFound."""
        job = self.get_job(name, namespace)
        return events_of(job, self._list(EVENTS, job.metadata.namespace, decode_event, ""))

    def get_job_usage(self, name: str, namespace: str | None = None) -> dict[str, PodUsage]:
        """What each pod of the job uses, by the pod's name; empty where nobody measures. Never raises.

        A pod that has just started, or has ended, may be missing.
        """
        found = measured_pods(self._client, self._where(namespace), job_selector(name))
        return {one.name: one.usage for one in found}

    # For both halves.

    def _where(self, namespace: str | None) -> str:
        return namespace or self._namespace

    def _culprit(self, job: TFJob) -> Culprit | None:
        try:
            pods = self._pods_of(job, ReplicaFilter())
            meta = job.metadata
            archived = self._archived(meta.name, meta.namespace, meta.uid, ReplicaFilter())
            return read_culprit(self._client, job, pods, archived)
        except (KubeError, OSError):  # that the job has failed is what counts
            return None

    def _be_here(self, job: TFJob) -> None:
        """Raises JobElsewhere."""
        if is_multikueue(job):
            raise JobElsewhere(job, cluster_of(self._client, job))

    def _pods_of(self, job: TFJob, which: ReplicaFilter) -> list[Pod]:
        pods = self._list(PODS, job.metadata.namespace, decode_pod, job_selector(job.metadata.name))
        return which.select(pod for pod in pods if pod.metadata.is_controlled_by(job.metadata.uid))

    def _archived(self, name: str, namespace: str | None, uid: str | None, which: ReplicaFilter) -> list[ArchivedPod]:
        if not self._archive:
            return []
        records = {pod.pod_uid: pod for pod in archived_pods(self._archive, self._where(namespace), name, uid)}
        return [record for record in records.values() if which.matches(record.as_pod())]

    def _kept_since(self, archived: list[ArchivedPod], since_seconds: int | None) -> list[ArchivedPod]:
        if since_seconds is None:
            return archived
        since = self._clock.now() - timedelta(seconds=since_seconds)
        return [record for record in archived if record.archived >= since]

    def _gone(self, error: JobNotFound) -> JobNotFound:
        """The error, with what the archive has of the job, though it isn't what was asked for."""
        records = self._archived(error.name, error.namespace, None, ReplicaFilter())
        replicas = list(dict.fromkeys(map(replica_name, sorted((one.as_pod() for one in records), key=pod_order))))
        if not replicas:
            return error
        message = f"TFJob {error.name} in namespace {error.namespace} is gone; the archive has logs of it, but only of "
        return JobNotFound(error.namespace, error.name, message + ", ".join(replicas), replicas)

    def _has(self, condition: ConditionType, name: str, namespace: str | None, job: TFJob | None) -> bool:
        return has_condition(job or self.get_job(name, namespace), condition)

    def _list(self, resource: Resource, namespace: str, decode: Decoder[T], selector: str) -> list[T]:
        pages = list_pages(self._client, resource, namespace, decode, Selection(label_selector=selector))
        return [item for page in pages for item in page.items]


def _show(line: LogLine) -> None:
    sys.stdout.write(f"[{line.pod}] {without_controls(line.text)}\n")
    sys.stdout.flush()
