"""A client's connection to the cluster, and its plain contents: jobs and their pods."""

from __future__ import annotations

import os
from typing import TypeVar

from tfoperator.api.names import job_selector
from tfoperator.api.queues import is_multikueue
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube import ListOptions, ListWatch, Selection, list_all
from tfoperator.kube.client import Client
from tfoperator.kube.config import load_config
from tfoperator.kube.objects import Pod, decode_pod
from tfoperator.kube.resources import PODS, Resource
from tfoperator.kube.verbs import Decoder
from tfoperator.logs.archive import ARCHIVE_VARIABLE
from tfoperator.sdk.errors import JobElsewhere, job_errors
from tfoperator.sdk.queues import cluster_of
from tfoperator.sdk.states import ReplicaFilter

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
    ) -> None:
        self._archive = archive_dir if archive_dir is not None else os.environ.get(ARCHIVE_VARIABLE, "")
        self._owns_client = client is None
        self._client = client if client is not None else Client(load_config(config_file, context))
        self._namespace = namespace or self._client.namespace
        self._clock = clock or SystemClock()

    def close(self) -> None:
        """End every current call and close the connections; those of a given `client` stay open."""
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
