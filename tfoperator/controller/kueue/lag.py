"""Tracks how far the caches of Workloads and flavors are behind the cluster; no other module handles this.

This process records which Workloads it has created or deleted, and the quota that it has given back, until the cache
shows these writes. For the writes of Kueue and of the previous leader, it looks up a job's Workload once. If it trusted
an old Workload, the job could lose its pods, or get pods without quota. Before a write that gives back quota or a place
in a queue, it checks that the job and its pods are as the cache shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tfoperator.api.kueue.queues import JOB_UID_LABEL, WORKLOAD_ANNOTATION
from tfoperator.api.kueue.workloads import WORKLOADS, Workload
from tfoperator.api.replicas.names import MANAGED_SELECTOR, job_selector
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.base.clock import Clock
from tfoperator.controller.kueue.objects import FLAVORS, Flavor, decode_asked, decode_flavor
from tfoperator.controller.kueue.pod_sets import workload_name
from tfoperator.controller.kueue.reclaiming import occupies
from tfoperator.controller.kueue.writes import Verb, Write, frees_some_quota
from tfoperator.controller.ledger import StaleCache, is_older
from tfoperator.informers import CONTROLLER_UID_INDEX, Lister
from tfoperator.kube.protocol.options import Selection, by_name
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.protocol.verbs import ApiClient, ListWatch
from tfoperator.kube.views.objects import Pod, decode_partial, decode_pod
from tfoperator.kube.watching.listing import list_all

TRY_AGAIN = 30.0
"""After this number of seconds, the operator again looks up a missing flavor or priority class, or creates a Workload
again that the cache still does not show.
"""


_MAX_DELETED = 8
"""The maximum number of deleted Workloads that are recorded for each job. A job has at most two Workloads at a time."""


class GivenBack(NamedTuple):
    """How many pods of each pod set have no quota any more, because this process gave it back in a write.

    `uid` and `version` identify the version of the Workload to which the write was made.
    """

    uid: str
    version: str
    counts: dict[str, int]


class Unseen(NamedTuple):
    """A Workload that this process has created and that the cache has not shown yet.

    `due` is the monotonic time at which the process may create it again, if the cache still lacks it then.
    """

    name: str
    due: float


class WorkloadLag:
    """Records the writes to Workloads that the cache does not show yet, and compares the cache with the API server.

    It is thread-safe for different jobs at the same time. Methods that send a request raise KubeError. They raise
    StaleCache if the cache is behind.
    """

    def __init__(self, client: ApiClient, workloads: Lister[Workload], flavors: Lister[Flavor], clock: Clock) -> None:
        self._client = client
        self._workloads = workloads
        self._flavors = flavors
        self._clock = clock
        # _sure and _complete: UIDs of jobs for which a LIST has confirmed the Workloads (_sure) or the pods
        # (_complete) in the cache. _unseen, by the job's UID: a Workload that this process has made. _deleted, by the
        # job's UID: the UIDs of the last Workloads that this process has deleted.
        self._sure: set[str] = set()
        self._complete: set[str] = set()
        self._unseen: dict[str, Unseen] = {}
        self._deleted: dict[str, tuple[str, ...]] = {}
        # By the job's UID: the last writes that gave quota back, even if the API server sent no response.
        self._given_back: dict[str, GivenBack] = {}

    def forget(self, uid: str) -> None:
        """Forget the job with this UID, because it was deleted."""
        self._sure.discard(uid)
        self._complete.discard(uid)
        self._unseen.pop(uid, None)
        self._deleted.pop(uid, None)
        self._given_back.pop(uid, None)

    def forget_writes(self) -> None:
        """Forget the writes that the cache does not show yet, and which jobs were compared with the API server.

        Call this method after the API server was restored from a backup. Then a Workload that was deleted after the
        backup exists again, and quota that was given back after the backup is not given back any more.
        """
        self._sure.clear()
        self._complete.clear()
        self._unseen.clear()
        self._deleted.clear()
        self._given_back.clear()

    def shown(self, job: TFJob) -> list[Workload]:
        """Return the job's Workloads in the cache.

        A Workload that this process has deleted is left out, unless the cache already shows the deletion.
        """
        uid, cached = job.metadata.uid, self._workloads.by_index(CONTROLLER_UID_INDEX, job.metadata.uid)
        deleted = self._deleted.get(uid, ())
        left = [
            workload
            for workload in cached
            if workload.metadata.uid not in deleted or workload.metadata.deletion_timestamp is not None
        ]
        unseen = self._unseen.get(uid)
        if unseen is not None and any(workload.metadata.name == unseen.name for workload in left):
            self._unseen.pop(uid, None)
            self._sure.add(uid)
        return left

    def note_given_back(self, job: TFJob, write: Write) -> GivenBack | None:
        """Record the quota that this write gives back; return the record that existed before this call.

        Call this method before the write is sent, because the answer may be lost. The record stays until the cache
        shows a later version of the Workload.
        """
        before = self._given_back.get(job.metadata.uid)
        if not frees_some_quota(write):
            return before
        meta = write.body["metadata"]
        counts = {reclaimable.name: reclaimable.count for reclaimable in write.body["status"]["reclaimablePods"]}
        if before is not None and (before.uid, before.version) == (meta["uid"], meta["resourceVersion"]):
            counts = {
                name: max(counts.get(name, 0), before.counts.get(name, 0)) for name in {**counts, **before.counts}
            }
        self._given_back[job.metadata.uid] = GivenBack(meta["uid"], meta["resourceVersion"], counts)
        return before

    def refused(self, job: TFJob, before: GivenBack | None) -> None:
        """Restore the record `before`, because the API server has refused the write."""
        if before is None:
            self._given_back.pop(job.metadata.uid, None)
        else:
            self._given_back[job.metadata.uid] = before

    def given_back(self, workload: Workload) -> dict[str, int]:
        """Return for how many pods of each set this process may have given quota back without the cache showing it yet.

        The write was accepted only for one version of the Workload. So if the cache shows a later version, that version
        includes the write, or the write was refused.
        """
        owner, meta = workload.metadata.controller, workload.metadata
        uid = "" if owner is None else owner.uid
        if (record := self._given_back.get(uid)) is None:
            return {}
        if record.uid != meta.uid or is_older(record.version, meta.resource_version) is not False:
            self._given_back.pop(uid, None)
            return {}
        return record.counts

    def written(self, job: TFJob, write: Write) -> None:
        """Record that the API server has executed this write."""
        if write.verb is Verb.CREATE:
            self._unseen[job.metadata.uid] = Unseen(write.name, self._clock.monotonic() + TRY_AGAIN)
        elif write.verb is Verb.DELETE:
            before = self._deleted.get(job.metadata.uid, ())
            self._deleted[job.metadata.uid] = (*before, write.uid)[-_MAX_DELETED:]

    def is_asked_for(self, job: TFJob) -> bool:
        """Return whether this process has made a Workload for the job that the cache does not show yet."""
        return job.metadata.uid in self._unseen

    def seconds_until_asked_again(self, job: TFJob) -> float:
        """Return after how many seconds the operator may create a Workload again that the cache still lacks.

        Before the method returns 0, it checks with a LIST whether the Workload exists, and so may raise StaleCache.
        """
        unseen = self._unseen.get(job.metadata.uid)
        if unseen is None:
            return 0.0
        left = max(unseen.due - self._clock.monotonic(), 0.0)
        if not left:
            self.doubt(job)
            self.verify_workloads(job, self.shown(job))
        return left

    def doubt(self, job: TFJob) -> None:
        """Make the next `verify_workloads` check again that the cache shows the job's Workloads as they are."""
        self._sure.discard(job.metadata.uid)

    def verify_workloads(self, job: TFJob, shown: Sequence[Workload]) -> None:
        """Check with the API server that `shown` are the job's Workloads; raise StaleCache if they differ.

        The check costs a LIST of at most a few objects. After a check has succeeded, only `doubt` causes another. If
        the job may have a second Workload, the LIST selects by the label with the job's UID.
        """
        meta = job.metadata
        if meta.uid in self._sure:
            return
        selection = by_name(shown[0].metadata.name if shown else workload_name(job))
        if job.spec.elastic_policy is not None or len(shown) > 1 or any(workload.replaces for workload in shown):
            selection = Selection(label_selector=f"{JOB_UID_LABEL}={meta.uid}")
        there = list_all(ListWatch(self._client, WORKLOADS, meta.namespace, decode_partial, selection)).items
        live = {
            workload.metadata.resource_version for workload in there if workload.metadata.is_controlled_by(meta.uid)
        }
        if live != {workload.metadata.resource_version for workload in shown}:
            raise StaleCache("the job's Workload has changed, but the cache does not show it yet")
        self._sure.add(meta.uid)

    def asked_for(self, workload: Workload) -> Sequence[dict[str, Any]]:
        """Return the pod sets of a Workload with their pod templates, which the cache lacks. Costs a LIST."""
        meta = workload.metadata
        there = list_all(ListWatch(self._client, WORKLOADS, meta.namespace, decode_asked, by_name(meta.name))).items
        same_version = [live for live in there if live.metadata.resource_version == meta.resource_version]
        if not same_version:
            raise StaleCache("the job's Workload has changed, but the cache does not show it yet")
        return same_version[0].spec.pod_sets

    def verify_job(self, job: TFJob) -> None:
        """Check that the cache shows the newest version of the job; raise StaleCache if it does not. Costs a GET.

        The caller has planned a write from the cache. If a user has suspended the job since then, for example, this
        write would be wrong.
        """
        meta = job.metadata
        live = self._client.get(TFJOBS, meta.namespace, meta.name, decode_partial).metadata
        if (live.uid, live.resource_version) != (meta.uid, meta.resource_version):
            raise StaleCache("the job has changed, but the cache does not show it yet")

    def verify_pods(self, workload: Workload, known: Sequence[Pod] = (), *, once: bool = False) -> None:
        """Check that no pods of this Workload except the pods in `known` occupy resources; otherwise raise StaleCache.

        Costs a LIST; with `once`, only the first call for a job costs a LIST. The check is needed because the cache's
        first list may be older than the last pods of the previous leader.
        """
        owner = workload.metadata.controller
        uid = "" if owner is None else owner.uid
        if once and uid in self._complete:
            return
        selection = Selection(label_selector=MANAGED_SELECTOR if owner is None else job_selector(owner.name))
        shown = {pod.metadata.uid for pod in known if occupies(pod)}
        for pod in list_all(ListWatch(self._client, PODS, workload.metadata.namespace, decode_pod, selection)).items:
            if occupies(pod) and is_of(pod, workload) and pod.metadata.uid not in shown:
                raise StaleCache(f"pod {pod.metadata.name} runs, but the cache does not show it yet")
        if uid:
            self._complete.add(uid)

    def flavors(self, workloads: Sequence[Workload]) -> dict[str, Flavor]:
        """Return the flavors by name.

        This needs a LIST if the cache lacks a flavor with which a Workload was admitted.
        """
        flavors_by_name = {flavor.metadata.name: flavor for flavor in self._flavors.list() if flavor.is_whole}
        if missing_flavors(workloads, flavors_by_name):
            live = list_all(ListWatch(self._client, FLAVORS, "", decode_flavor)).items
            flavors_by_name = {flavor.metadata.name: flavor for flavor in live}
        return flavors_by_name


def is_of(pod: Pod, workload: Workload) -> bool:
    """Return whether a pod belongs to the Workload's job.

    If the Workload has no owner any more, return whether the pod was created for this Workload, or for the Workload
    that it replaced: pods of an elastic job keep running until the job restarts with more workers.
    """
    owner, meta = workload.metadata.controller, pod.metadata
    if owner is None:
        names = {workload.metadata.name, workload.replaces.rpartition("/")[2]}
        return meta.annotations.get(WORKLOAD_ANNOTATION) in names - {""}
    return meta.is_controlled_by(owner.uid)


def missing_flavors(workloads: Sequence[Workload], known: dict[str, Flavor]) -> bool:
    """Return whether a Workload was admitted with a flavor that is missing in `known`."""
    admissions = (workload.status.admission for workload in workloads)
    sets = (
        assignment for admission in admissions if admission is not None for assignment in admission.pod_set_assignments
    )
    return any(name not in known for assignment in sets for name in assignment.flavors.values())
