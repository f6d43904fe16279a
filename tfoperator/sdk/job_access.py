"""A client's connection to the cluster, and methods that return jobs, their pods and the pods' logs."""

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
    """The part of `TFJobClient` with the connection, and with the methods that read jobs, pods and logs."""

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
        """End all current calls and close the connections.

        If the constructor got a `client`, the connections of this `client` stay open.
        """
        if self._owns_client:
            self._client.close()

    @property
    def namespace(self) -> str:
        """The namespace that methods use if the caller names no namespace."""
        return self._namespace

    @property
    def api(self) -> Client:
        """The client of the API server that this object uses. Use it for operations that this class does not have."""
        return self._client

    def get_job(self, name: str, namespace: str | None = None) -> TFJob:
        """Return the current state of the job. Raises JobNotFound or NotInstalled."""
        where = self._where(namespace)
        with job_errors(where, name):
            return self._client.get(TFJOBS, where, name, decode_tfjob)

    def list_jobs(
        self, namespace: str | None = None, *, label_selector: str = "", all_namespaces: bool = False
    ) -> list[TFJob]:
        """Return all jobs of the namespace, or of all namespaces. Raises NotInstalled."""
        where = "" if all_namespaces else self._where(namespace)
        with job_errors(where):
            return self._list(TFJOBS, where, decode_tfjob, label_selector)

    def check_access(self, namespace: str | None = None) -> None:
        """Read one job, to check that this client can read jobs in the namespace ("" means all namespaces).

        Raises NotInstalled or KubeError.
        """
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
        """Return the pods that match all filters, in this order: chief, workers by index, evaluator, parameter servers.

        `is_master` selects the pod that leads the job. This pod is the chief or the master, or worker 0 if the job has
        neither. Raises JobNotFound.
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
        """Return the names of the pods that `get_job_pods` returns."""
        pods = self.get_job_pods(name, namespace, is_master, replica_type, replica_index)
        return [pod.metadata.name for pod in pods]

    # Logs: from the API server, or from the operator's log archive if the pod is deleted.

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

        By default, only the log of the pod that leads the job is read (chief, master or worker 0). With a replica type
        or index, the logs of these replicas are read, and `is_master` has no effect. With `is_master=False` and no type
        or index, the logs of all pods are read. The default of `container` is `tensorflow`. `previous` selects the run
        before the container's last restart. `since_seconds` omits lines that are older than this number of seconds.
        With `timestamps`, each line begins with the time at which it was written (RFC 3339).

        If the client has a log archive, the logs of deleted pods are included: see `get_replica_logs`.

        With `follow`, each line is passed to `on_line` when it is written, until the job has ended. By default,
        `on_line` prints the line to standard output, after the name of its pod. At the end, the method returns the
        whole log. `follow` together with `previous` raises ValueError.
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
        """Return the same logs as `get_job_logs`, with their pods and sources.

        There is a `ReplicaLog` for each replica, with its pod and the source of the log. `archive_dir` (or
        `$TFOPERATOR_ARCHIVE_DIR`) is the operator's log archive. With an archive, the method also finds the logs of
        deleted pods. If a replica has no pod, the result contains the replica's last archived log. With `previous`, it
        can contain the log of the replica's earlier pod. For a deleted job, the result contains the logs of the latest
        archived job with this name.

        The archive has no times of lines. So with `since_seconds`, the result contains the whole log of each pod that
        was archived in the last `since_seconds` seconds. With `tail_bytes`, only this number of bytes at the end of
        each pod's log is kept.

        Raises JobNotFound if the requested logs don't exist; the error names the available logs. Raises JobElsewhere if
        MultiKueue runs the job on another cluster, and OSError if the archive can't be read.
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
        """Return an iterator over `LogLine`s as they are written. It continues after restarts. See `JobLogStream`.

        Raises JobNotFound, and JobElsewhere if MultiKueue runs the job on another cluster. A `LogLine` contains the
        line as `text`, and its source: `replica` (`worker-0`), `pod` and `container`. `since_seconds` and `timestamps`
        have the same meaning as in `get_job_logs`. While the iterator waits, it calls `on_wait` with the reason.
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
        """Return `error`, or a more exact error.

        If the archive has logs of other replicas of this job, the more exact error names these replicas.
        """
        records = self._archived(error.name, error.namespace, None, ReplicaFilter())
        replicas = list(
            dict.fromkeys(map(replica_name, sorted((record.as_pod() for record in records), key=pod_order)))
        )
        if not replicas:
            return error
        what = f"is gone; the log archive has no logs of the selected replicas, but has logs of {', '.join(replicas)}"
        return JobNotFound(error.namespace, error.name, what, replicas)


def _show(line: LogLine) -> None:
    sys.stdout.write(f"[{line.pod}] {without_controls(line.text)}\n")
    sys.stdout.flush()
