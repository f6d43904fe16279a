"""A client's connection to the cluster, and its plain contents: jobs, their pods and the logs of these."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from tfoperator.api.kueue.queues import is_multikueue
from tfoperator.api.replicas.names import job_selector, replica_name
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.base.clock import Clock, SystemClock
from tfoperator.base.controlchars import without_controls
from tfoperator.kube import ListOptions, ListWatch, Selection, list_all
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.resources import PODS, Resource
from tfoperator.kube.protocol.verbs import Decoder
from tfoperator.kube.views.objects import Pod, decode_pod
from tfoperator.logs.archive.layout import ArchivedPod
from tfoperator.logs.archive.reader import ARCHIVE_VARIABLE, archived_pods
from tfoperator.sdk.errors import JobElsewhere, JobNotFound, job_errors
from tfoperator.sdk.logs.history import ReplicaLog, add_archived
from tfoperator.sdk.logs.log_stream import JobLogStream
from tfoperator.sdk.logs.pod_logs import LogLine, LogOptions, read_logs
from tfoperator.sdk.queues import cluster_of
from tfoperator.sdk.states import ReplicaFilter, pod_order

if TYPE_CHECKING:
    from tfoperator.local.run.recorded_run import RecordedRun

T = TypeVar("T")


class JobAccess:
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
        run: RecordedRun | None = None,
    ) -> None:
        self._run = run
        client = run.client if run is not None else client
        self._archive = archive_dir if archive_dir is not None else os.environ.get(ARCHIVE_VARIABLE, "")
        self._owns_client = client is None
        self._client = client if client is not None else Client(load_config(config_file, context))
        self._namespace = namespace or self._client.namespace
        self._clock = clock or SystemClock()

    def close(self) -> None:
        """End every current call and close the connections; the connections of a given `client` stay open."""
        if self._owns_client:
            self._client.close()

    @property
    def namespace(self) -> str:
        """The default namespace of every method."""
        return self._namespace

    @property
    def api(self) -> Client:
        """The client of the API server below, for other operations."""
        return self._client

    def get_job(self, name: str, namespace: str | None = None) -> TFJob:
        """Return the job as it is now. Raises JobNotFound, NotInstalled."""
        where = self._where(namespace)
        with job_errors(where, name):
            return self._client.get(TFJOBS, where, name, decode_tfjob)

    def list_jobs(
        self, namespace: str | None = None, *, label_selector: str = "", all_namespaces: bool = False
    ) -> list[TFJob]:
        """Return every job of the namespace, or of all. Raises NotInstalled."""
        where = "" if all_namespaces else self._where(namespace)
        with job_errors(where):
            return self._list(TFJOBS, where, decode_tfjob, label_selector)

    def check_access(self, namespace: str | None = None) -> None:
        """Read one job to check that jobs can be read there ("" is everywhere). Raises NotInstalled, KubeError."""
        where = self._where(namespace) if namespace is None else namespace
        with job_errors(where):
            self._client.list(TFJOBS, where, decode_tfjob, ListOptions(limit=1))

    def get_job_pods(
        self,
        name: str,
        namespace: str | None = None,
        is_master: bool = False,
        replica_type: str | None = None,
        replica_index: int | None = None,
    ) -> list[Pod]:
        """Return the pods that match every filter: chief first, then workers by index, evaluator, parameter servers.

        `is_master` selects the pod that leads the job (chief or master, else worker 0). Raises JobNotFound.
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
        """Return the names of those pods."""
        pods = self.get_job_pods(name, namespace, is_master, replica_type, replica_index)
        return [pod.metadata.name for pod in pods]

    # Logs: from the API server, and from the archive where a pod is gone.

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
        """Return the logs of pods, by pod name; pods that have not started are left out.

        By default the pod that leads the job is read; with a replica type or index, regardless of `is_master`, those
        pods; with `is_master=False` alone all. `container` defaults to `tensorflow`. `previous` is the run
        before the container's last restart. `since_seconds` omits earlier lines, and with `timestamps`
        each line begins with its time of writing (RFC 3339).

        With an archive, deleted pods count, too: see `get_replica_logs`.

        With `follow` each line is passed to `on_line` as it is written (by default to standard output, after its
        pod's name), until the job has ended; the whole log is returned then.
        """
        which = ReplicaFilter.or_master(is_master, replica_type, replica_index)
        wanted = LogOptions(container, previous, tail_lines, since_seconds, timestamps)
        if not follow:
            logs = self._logs(name, namespace, which, wanted)
            return {log.pod.metadata.name: log.text for log in logs if log.text is not None}
        if previous:
            raise ValueError("the log of a previous run can't be followed, because it does not grow any more")
        texts: dict[str, list[str]] = {}
        show = on_line or _show
        with self._stream(name, namespace, which, wanted) as stream:
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
        tail_bytes: int | None = None,
    ) -> list[ReplicaLog]:
        """Return the logs as `get_job_logs` without `follow` does: a `ReplicaLog` per replica, with its pod and origin.

        With `archive_dir` (or `$TFOPERATOR_ARCHIVE_DIR`), the operator's log archive, it also finds the logs of
        deleted pods: the log of a replica without a pod, and with `previous` the log of the pod before.
        In the archive, a deleted job is found by its name alone. Raises JobNotFound, which names the available
        logs if the requested logs don't exist, JobElsewhere if MultiKueue runs the job on another cluster, OSError if
        the archive can't be read. It keeps no times of lines: with `since_seconds` it returns the whole log of a pod
        archived since then. With `tail_bytes` only so many bytes at the end of each pod's log are kept.
        """
        which = ReplicaFilter.or_master(is_master, replica_type, replica_index)
        wanted = LogOptions(container, previous, tail_lines, since_seconds, timestamps, tail_bytes)
        return self._logs(name, namespace, which, wanted)

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
        """Return an iterator over `LogLine`s as they are written, through restarts; see `JobLogStream`.

        Raises JobNotFound, and JobElsewhere if MultiKueue runs the job on another cluster.
        A `LogLine` has the line as `text`, and its origin: `replica` (`worker-0`), `pod` and `container`.
        `since_seconds` and `timestamps` are as for `get_job_logs`.
        """
        which = ReplicaFilter.or_master(is_master, replica_type, replica_index)
        return self._stream(
            name, namespace, which, LogOptions(container, False, tail_lines, since_seconds, timestamps), on_wait
        )

    # Shared by all parts of the client.

    def _where(self, namespace: str | None) -> str:
        return namespace or self._namespace

    def _be_here(self, job: TFJob) -> None:
        """Raise JobElsewhere if MultiKueue runs the job on another cluster."""
        if is_multikueue(job):
            raise JobElsewhere(job, cluster_of(self._client, job))

    def _pods_of(self, job: TFJob, which: ReplicaFilter) -> list[Pod]:
        pods = self._list(PODS, job.metadata.namespace, decode_pod, job_selector(job.metadata.name))
        return which.select(pod for pod in pods if pod.metadata.is_controlled_by(job.metadata.uid))

    def _list(self, resource: Resource, namespace: str, decode: Decoder[T], selector: str) -> list[T]:
        return list_all(ListWatch(self._client, resource, namespace, decode, Selection(label_selector=selector))).items

    def _logs(self, name: str, namespace: str | None, which: ReplicaFilter, wanted: LogOptions) -> list[ReplicaLog]:
        try:
            job = self.get_job(name, namespace)
        except JobNotFound as error:
            archived = self._kept_since(self._archived(name, namespace, None, which), wanted.since_seconds)
            if not archived:
                raise self._gone(error) from None
            return add_archived((), {}, archived, wanted)
        pods = self._pods_of(job, which)
        texts = read_logs(self._client, pods, wanted)
        archived = self._kept_since(self._archived(name, namespace, job.metadata.uid, which), wanted.since_seconds)
        if not pods and not archived:
            self._be_here(job)
        return add_archived(pods, texts, archived, wanted)

    def _stream(
        self,
        name: str,
        namespace: str | None,
        which: ReplicaFilter,
        wanted: LogOptions,
        on_wait: Callable[[str], object] | None = None,
    ) -> JobLogStream:
        job = self.get_job(name, namespace)
        self._be_here(job)
        return JobLogStream(self._client, job, which, wanted, on_wait=on_wait, clock=self._clock)

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
        """Return the error, with the job's archived logs that can be requested instead."""
        records = self._archived(error.name, error.namespace, None, ReplicaFilter())
        replicas = list(
            dict.fromkeys(map(replica_name, sorted((record.as_pod() for record in records), key=pod_order)))
        )
        if not replicas:
            return error
        what = f"is gone; the archive has logs of it, but only of {', '.join(replicas)}"
        return JobNotFound(error.namespace, error.name, what, replicas)


def _show(line: LogLine) -> None:
    sys.stdout.write(f"[{line.pod}] {without_controls(line.text)}\n")
    sys.stdout.flush()
