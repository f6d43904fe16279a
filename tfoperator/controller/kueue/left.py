"""Releases Workloads that outlive their jobs, so that the quota of a deleted job is given back after its last pod.

A Workload has a finalizer, so it waits for the operator when its job is deleted. The watches of jobs, pods and
Workloads are independent: any of the three may be the last to show the deletion. So each of their events leads to a
look at the Workloads that are left (`controller`, `watch_pods`, `KueueInformers.queue_jobs`). A new leader begins with
such a look, and the second check makes a look for each Workload whose job the cache does not have. A look costs no
request before the last pod is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfoperator.api.kueue.queues import WORKLOAD_ANNOTATION
from tfoperator.api.kueue.workloads import Workload
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.controller.kueue.decide import occupies
from tfoperator.controller.kueue.lag import WorkloadLag, is_of
from tfoperator.controller.kueue.requests import send
from tfoperator.controller.kueue.writes import removal
from tfoperator.informers import CONTROLLER_UID_INDEX, Callbacks, InformerGroup, Lister
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.kube.views.objects import Pod, object_key

JOB_INDEX = "tfjob"
"""The index of Workloads by `key_of`."""


def key_of(workload: Workload) -> str:
    """Return the key (`namespace/name`) under which the Workload is looked at; empty if others drive it.

    It is the key of the TFJob that controls the Workload. A Workload that the operator made and that has no owner any
    more has lost its job: that was deleted without the objects that it owned (`kubectl delete --cascade=orphan`). Then
    the key is the Workload's own.
    """
    meta, owner = workload.metadata, workload.metadata.controller
    if not meta.owner_references and workload.mark and not workload.is_adopted:
        return meta.key
    if owner is None or owner.kind != TFJOBS.kind or owner.api_version.partition("/")[0] != TFJOBS.group:
        return ""
    return object_key(meta.namespace, owner.name)


def index_by_job(workload: Workload) -> Sequence[str]:
    """Return the values of `JOB_INDEX`."""
    key = key_of(workload)
    return (key,) if key else ()


class WorkloadsLeft:
    """The Workloads in the cache, by the keys of their jobs. Thread-safe, for different keys at a time."""

    def __init__(self, client: ApiClient, workloads: Lister[Workload], pods: Lister[Pod], lag: WorkloadLag) -> None:
        self._client = client
        self._workloads = workloads
        self._pods = pods
        self._lag = lag

    def keys(self) -> set[str]:
        """Return the keys of all Workloads, whether their jobs are there or not."""
        return set(filter(None, map(key_of, self._workloads.list())))

    def without_job(self, jobs: Lister[TFJob]) -> set[str]:
        """Return the keys under which a Workload that the operator drives has outlived its job."""
        found = set()
        for workload in self._workloads.list():
            key, owner = key_of(workload), workload.metadata.controller
            job = jobs.find(key) if key else None
            if key and workload.mark and (owner is None or job is None or job.metadata.uid != owner.uid):
                found.add(key)
        return found

    def has(self, key: str) -> bool:
        """Return whether a job of this key has, or had, a Workload that is there."""
        return bool(self._workloads.by_index(JOB_INDEX, key))

    def watch_pods(self, pods: InformerGroup[Pod], enqueue: Callable[[str], None]) -> None:
        """Call `enqueue` with the key of the job of each Workload that may have waited for the pod that changes."""

        def changed(pod: Pod) -> None:
            meta, owner = pod.metadata, pod.metadata.controller
            name = meta.annotations.get(WORKLOAD_ANNOTATION, "")
            of_owner = [] if owner is None else self._workloads.by_index(CONTROLLER_UID_INDEX, owner.uid)
            of_name = self._workloads.by_index(JOB_INDEX, object_key(meta.namespace, name)) if name else ()
            for workload in (*(one for one in of_owner if one.metadata.deletion_timestamp is not None), *of_name):
                if key := key_of(workload):
                    enqueue(key)

        pods.add_handler(Callbacks(changed=changed, gone=changed), resync_period=0, name="workloads")

    def release(self, key: str, living: str = "") -> None:
        """Release the Workloads of a job that is gone or being deleted, once its pods are gone. Raises KubeError.

        `living` is the UID of the job that has this name now. The event of the last pod leads here again. The garbage
        collector deletes a Workload whose job is gone; this method deletes a Workload that has no owner.
        """
        for workload in self._workloads.by_index(JOB_INDEX, key):
            owner, meta = workload.metadata.controller, workload.metadata
            waits = owner is not None and (owner.uid == living or meta.deletion_timestamp is None)
            if waits or not workload.mark or self._takes_room(workload):
                continue
            if writes := removal(workload):
                self._lag.verify_pods(workload)
            for write in writes:
                send(self._client, meta.namespace, write)
            if owner is not None:
                self._lag.forget(owner.uid)

    def _takes_room(self, workload: Workload) -> bool:
        owner = workload.metadata.controller
        if owner is None:
            pods = self._pods.list(workload.metadata.namespace)
        else:
            pods = self._pods.by_index(CONTROLLER_UID_INDEX, owner.uid)
        return any(occupies(pod) and is_of(pod, workload) for pod in pods)
