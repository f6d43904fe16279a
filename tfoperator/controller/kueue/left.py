"""Releases the Workloads of deleted jobs: the quota of a deleted job is given back after its last pod has ended.

A Workload has a finalizer, so when its job is deleted, it stays until the operator removes the finalizer. The watches
of jobs, pods and Workloads are independent: any of the three may be the last to show that its object is gone. So each
event of these watches leads to a check of the remaining Workloads (`controller`, `watch_pods`,
`KueueInformers.queue_jobs`). A new leader begins with this check. The reconciler repeats it for each Workload whose job
is not in the cache. As long as a pod of the job exists, the check sends no request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfoperator.api.kueue.queues import WORKLOAD_ANNOTATION
from tfoperator.api.kueue.workloads import Workload
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.controller.kueue.lag import WorkloadLag, is_of
from tfoperator.controller.kueue.reclaiming import occupies
from tfoperator.controller.kueue.requests import send
from tfoperator.controller.kueue.writes import removal
from tfoperator.informers import CONTROLLER_UID_INDEX, Callbacks, InformerGroup, Lister
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.kube.views.objects import Pod, object_key

JOB_INDEX = "tfjob"
"""The name of the index that finds Workloads by `key_of`."""


def key_of(workload: Workload) -> str:
    """Return the key (`namespace/name`) under which a sync checks the Workload.

    The key is empty if the operator does not handle the Workload. In most cases it is the key of the TFJob that
    controls the Workload. A Workload that the operator created and that has no owner now is left over from a job that
    was deleted without its objects (`kubectl delete --cascade=orphan`). For such a Workload, the key is the Workload's
    own key.
    """
    meta, owner = workload.metadata, workload.metadata.controller
    if not meta.owner_references and workload.mark and not workload.is_adopted:
        return meta.key
    if owner is None or owner.kind != TFJOBS.kind or owner.api_version.partition("/")[0] != TFJOBS.group:
        return ""
    return object_key(meta.namespace, owner.name)


def index_by_job(workload: Workload) -> Sequence[str]:
    """Return the values for the index `JOB_INDEX`.

    A Workload without an owner is also found by the key of the Workload that it replaced: pods of an elastic job may
    name the replaced Workload in the annotation `WORKLOAD_ANNOTATION`.
    """
    key = key_of(workload)
    if not key:
        return ()
    return (key, workload.replaces) if key == workload.metadata.key and workload.replaces else (key,)


class WorkloadsLeft:
    """Handles the Workloads in the cache, by the keys of their jobs.

    It is thread-safe for different keys at the same time.
    """

    def __init__(self, client: ApiClient, workloads: Lister[Workload], pods: Lister[Pod], lag: WorkloadLag) -> None:
        self._client = client
        self._workloads = workloads
        self._pods = pods
        self._lag = lag

    def keys(self) -> set[str]:
        """Return the keys (`key_of`) of all Workloads, including Workloads whose jobs still exist."""
        return set(filter(None, map(key_of, self._workloads.list())))

    def without_job(self, jobs: Lister[TFJob]) -> set[str]:
        """Return the keys (`key_of`) of the operator's Workloads whose job no longer exists.

        If a new job has the same name, such a key is also the key of the new job.
        """
        keys = set()
        for workload in self._workloads.list():
            key, owner = key_of(workload), workload.metadata.controller
            job = jobs.find(key) if key else None
            if key and workload.mark and (owner is None or job is None or job.metadata.uid != owner.uid):
                keys.add(key)
        return keys

    def has(self, key: str) -> bool:
        """Return whether `JOB_INDEX` finds a Workload by this key, even if the Workload's job no longer exists."""
        return bool(self._workloads.by_index(JOB_INDEX, key))

    def watch_pods(self, pods: InformerGroup[Pod], enqueue: Callable[[str], None]) -> None:
        """Call `enqueue` with the key (`key_of`) of each Workload that may wait for the end of a pod that changes."""

        def changed(pod: Pod) -> None:
            meta, owner = pod.metadata, pod.metadata.controller
            name = meta.annotations.get(WORKLOAD_ANNOTATION, "")
            of_owner = [] if owner is None else self._workloads.by_index(CONTROLLER_UID_INDEX, owner.uid)
            of_name = self._workloads.by_index(JOB_INDEX, object_key(meta.namespace, name)) if name else ()
            for workload in (*(owned for owned in of_owner if owned.metadata.deletion_timestamp is not None), *of_name):
                if key := key_of(workload):
                    enqueue(key)

        pods.add_handler(Callbacks(changed=changed, gone=changed), resync_period=0, name="workloads")

    def release(self, key: str, living: str = "") -> None:
        """Release the Workloads of a job that is deleted or being deleted, if all pods of the job are gone.

        `living` is the UID of the job that has this name now: the Workloads of this job stay. If a pod still exists,
        the event of the last pod leads to another call. The garbage collector deletes a Workload whose job is gone;
        this method deletes a Workload that has no owner. Raises StaleCache if the cache lacks a pod of the job, and
        another KubeError if a request fails.
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
