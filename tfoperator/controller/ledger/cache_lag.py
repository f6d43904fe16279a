"""Tracks how far the caches are behind the cluster; no other module handles this.

A cache shows an earlier state of the cluster. If a plan trusted it, the plan would be wrong about two kinds of writes.

*Writes of this process* are recorded here, and are added to the state that the caches show, as in client-go's
MutationCache. Before a call creates or deletes objects, they are recorded as expected (`tfoperator.expectations`), and
they stay expected until an informer shows the change. `look()` passes the expected changes to the plan, so the plan
neither repeats these calls nor takes a missing object for a loss. The last status that was written counts until the
cache shows the same version or a newer version (also in `look()`). So a sync can't undo the count of a restart.

*Writes of other processes* can't be known: the previous leader may have written, and a pod may seem to have vanished
only because a watch is behind. `verify()` looks such writes up: once for each job taken over from another leader, and
each time a plan depends on the absence of a pod. It sends a GET for the job, and a GET for each pod that has vanished.
If a write did not find a job, or found another version of the job, `verify()` also looks the job up before more objects
are created for it. If all replicas of such a job have restarted together, `verify()` also sends a LIST of the job's
pods: a pod from before the restart may have an index that the job no longer has. If the operator trusted the cache in
these cases, it might count a restart that never happened, run a finished job again, delete the pods of a running job,
or run pods from before and after a restart at the same time.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from datetime import datetime
from typing import Any

import msgspec

from tfoperator.api.replicas.names import has_job_labels, job_selector
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.base.clock import Clock, seconds_between, whole_second
from tfoperator.controller.kinds import ObjectKind
from tfoperator.controller.ledger.claims import Claims, is_refused
from tfoperator.controller.ledger.lookups import created_pods, differs, found_metadata
from tfoperator.controller.plan.values.actions import Action, Create, Delete, Plan
from tfoperator.controller.plan.values.observed import Observed, Unseen, deciding_pods
from tfoperator.expectations import ExpectationKey, Expectations, expectation_key
from tfoperator.informers import Lister
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.options import Selection
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.protocol.verbs import ApiClient, ListWatch, Lookup
from tfoperator.kube.views.objects import ObjectMeta, decode_partial, object_key
from tfoperator.kube.watching.listing import list_all


class StaleCache(KubeError):
    """Raised if the API server has an object, or a version of an object, that the cache does not show yet.

    The caller retries the sync later. With the old state, the operator could count a pod as lost although it exists.
    """


def is_older(version: str, than: str) -> bool | None:
    """Return whether one resourceVersion of an object precedes another; None if they can't be compared.

    Since 1.35, the Kubernetes API defines resourceVersions as decimal numbers that can be compared. Every API server
    that stores in etcd has always used decimal numbers. Any other text can only be tested for equality.
    """
    if version == than:
        return False
    if version.isascii() and version.isdigit() and than.isascii() and than.isdigit():
        return (len(version), version) < (len(than), than)
    return None


class _Written(msgspec.Struct, frozen=True):
    """The last write of a job's status: the server's answer, and the version in the cache at that time."""

    status: TFJobStatus
    version: str
    cached_version: str


class CacheLag:
    """Records this process's own writes until a cache shows them, and looks up writes of other processes.

    It is thread-safe for different jobs at the same time.
    """

    def __init__(
        self,
        client: ApiClient,
        claims: Claims,
        caches: Mapping[ObjectKind, Lister[Any]],
        *,
        expectations: Expectations,
        clock: Clock,
    ) -> None:
        """Initialize; `caches` has a cache for each kind of object that jobs own."""
        self._client = client
        self._claims = claims
        self._caches = caches
        self._expectations = expectations
        self._clock = clock
        self._lock = threading.Lock()  # guards _written and _cached_versions
        self._written: dict[str, _Written] = {}  # by UID
        self._cached_versions: dict[str, str] = {}  # by UID, as last seen by `newest`
        self._since: datetime | None = None  # when this process became leader
        # UIDs of jobs for which the cache may be behind: the previous leader may have written to them, or a write of
        # this process found no job or another version. `verify` removes a UID after a lookup.
        self._doubtful: set[str] = set()

    def inherit(self, jobs: Iterable[TFJob]) -> None:
        """Record that this process becomes leader: the previous leader may have written to these jobs until now."""
        self._doubtful.update(job.metadata.uid for job in jobs)
        self._since = whole_second(self._clock.now())

    def doubt(self, uid: str) -> None:
        """Record that a write did not find the job, or found another version.

        The cache is behind, perhaps for a long time. The garbage collector deletes the objects of a deleted job one by
        one, and without this record the operator would recreate each of them.
        """
        self._doubtful.add(uid)

    def changed(self, job: TFJob) -> None:
        """Record that a write found another version of the job. Raises KubeError if the job can't be looked up.

        Usually that version is newer, and the cache will show it soon. But if the API server was restored from a
        backup, it does not have the status that was written last, and a cache will never show this status. In this case
        the record of the status is dropped.
        """
        meta = job.metadata
        self.doubt(meta.uid)
        with self._lock:
            written = self._written.get(meta.uid)
        if written is None or written.version != meta.resource_version:
            return
        live = self._client.get(TFJOBS, meta.namespace, meta.name, decode_partial).metadata
        if is_older(live.resource_version, written.version):
            with self._lock:
                self._written.pop(meta.uid, None)

    def forget(self, uid: str) -> None:
        """Drop all records about the job with this UID, because it was deleted."""
        self._expectations.forget_owner(uid)
        self._doubtful.discard(uid)
        with self._lock:
            self._written.pop(uid, None)
            self._cached_versions.pop(uid, None)

    # Own writes.

    def expect(self, job: TFJob, actions: Iterable[Action]) -> None:
        """Record that the cache must soon show the creations and deletions of these actions."""
        uid = job.metadata.uid
        creations: defaultdict[tuple[ReplicaType | None, ObjectKind], int] = defaultdict(int)
        deletions: defaultdict[tuple[ReplicaType | None, ObjectKind], list[str]] = defaultdict(list)
        for action in actions:
            about = None if action.replica is None else action.replica[0], action.kind
            if isinstance(action, Create):
                creations[about] += 1
            elif isinstance(action, Delete):
                deletions[about].append(action.uid)
        for about, count in creations.items():
            self._expectations.expect_creations(expectation_key(uid, *about), count)
        for about, uids in deletions.items():
            self._expectations.expect_deletions(expectation_key(uid, *about), uids)

    def expect_no_more(self, job: TFJob, action: Action) -> None:
        """Remove the expectation of an action that was not executed, or whose result no informer will show."""
        if isinstance(action, Create):
            self._expectations.creation_observed(_key(job, action))
        elif isinstance(action, Delete):
            self._expectations.deletion_observed(_key(job, action), action.uid)

    def forget_creations(self, job: TFJob, actions: Iterable[Action]) -> None:
        """Remove the expectations of the creations in `actions`, after an exception has aborted these actions.

        It is unknown how many of these creations succeeded. Informers never show a creation that failed, so the next
        plans would wait for its object in vain.
        """
        for action in actions:
            if isinstance(action, Create):
                self._expectations.forget(_key(job, action))

    def shows_alive(self, kind: ObjectKind, namespace: str, name: str, uid: str) -> bool:
        """Return whether the cache has this object, and shows no deletion of it."""
        cache = self._caches.get(kind)
        shown = None if cache is None else cache.find(object_key(namespace, name))
        return shown is not None and shown.metadata.uid == uid and shown.metadata.deletion_timestamp is None

    def look(self, cached: TFJob) -> tuple[TFJob, Unseen]:
        """Return the job with the newest known status, and the requested changes that the cache does not show yet.

        The changes are creations and deletions of objects.

        Call this method before you read the caches of pods and services. If a new pod then appears between the two
        reads, the result still lists it as expected, and the plan only waits once more. In the other order, such a pod
        could be missing both in the cache and in the list of expected objects, and the plan would create it again. The
        returned job has the resourceVersion that belongs to its status, so that the next write can be conditional on
        that version.
        """
        outstanding = self._expectations.outstanding(cached.metadata.uid)
        awaited = frozenset((key.replica_type, key.kind) for key in outstanding)
        return self._newest(cached), Unseen(awaited, deleted=frozenset().union(*outstanding.values()))

    def _newest(self, cached: TFJob) -> TFJob:
        meta = cached.metadata
        with self._lock:
            self._cached_versions[meta.uid] = meta.resource_version
            written = self._written.get(meta.uid)
            if written is None:
                return cached
            stale = is_older(meta.resource_version, written.version)
            if stale is None:
                stale = meta.resource_version == written.cached_version
            # The cache may show a version from before the last write: the API server was restored from a backup, which
            # does not contain that write.
            if not stale or is_older(meta.resource_version, written.cached_version):
                del self._written[meta.uid]
                return cached
        newest = msgspec.structs.replace(meta, resource_version=written.version)
        return msgspec.structs.replace(cached, metadata=newest, status=written.status)

    def shows(self, cached: TFJob) -> None:
        """Record that the cache shows this state of a job; drop the recorded status write if this state includes it."""
        self._newest(cached)

    def version(self, job: TFJob) -> str:
        """Return the resourceVersion of a job that `look` has returned, or the version after a later status write."""
        with self._lock:
            written = self._written.get(job.metadata.uid)
        return job.metadata.resource_version if written is None else written.version

    def status_written(self, answer: TFJob) -> None:
        """Record the job that the API server returned for a status write.

        If the job was forgotten before, nothing is recorded.
        """
        meta = answer.metadata
        with self._lock:
            cached_version = self._cached_versions.get(meta.uid)
            if cached_version is not None:
                self._written[meta.uid] = _Written(answer.status, meta.resource_version, cached_version)

    def forget_writes(self) -> None:
        """Forget which statuses the caches must still show.

        Call this method after the API server was restored from a backup: the caches would never show a status that was
        written after the backup.
        """
        with self._lock:
            self._written.clear()

    # Writes of others.

    def verify(self, observed: Observed, plan: Plan) -> None:
        """Look up the job and pods in the API server, if the cache may be behind in a fact on which the plan depends.

        Pods that vanished without an action of this process are always looked up.

        The cache may lack pods that others have written, or show an old state of them. If the previous leader may have
        written to the job, or a write of this process found another version, the pods that the plan would create are
        looked up, too: they may exist. If all replicas of such a job have restarted together, all pods of the job are
        listed once: after a job has become smaller, the plan names no pod of a removed replica. Pods that are older
        than this process's leadership are looked up before the status records them as started or as vanished. Raises
        StaleCache if the cache is behind; raises another KubeError if a lookup fails.
        """
        job = observed.job
        uid = job.metadata.uid
        doubtful = uid in self._doubtful or self._came_late(job)
        needed = (*plan.absent, *created_pods(plan)) if doubtful else plan.absent
        unknown = list(dict.fromkeys(needed))
        old = deciding_pods(observed, plan.status, self._since) if plan.write_status else ()
        if not unknown and not old and not (doubtful and plan.changes_objects):
            return
        cached_uids = {pod.metadata.uid for pod in observed.pods}
        names = [*unknown, *(pod.name for pod in old)]
        namespace = job.metadata.namespace
        lookups = [*(Lookup(PODS, namespace, name) for name in names), Lookup(TFJOBS, namespace, job.metadata.name)]
        *pods, live = [found_metadata(answer) for (answer,) in self._client.send([[lookup] for lookup in lookups])]
        there = [name for name, pod in zip(unknown, pods, strict=False) if pod and self._misses(job, pod, cached_uids)]
        missed = [f"pod {name} is there" for name in there]
        changed = [pod for pod, now in zip(old, pods[len(unknown) :], strict=True) if differs(pod, now)]
        missed += [f"pod {pod.name} has changed" for pod in changed]
        if live is None or live.resource_version != job.metadata.resource_version:
            missed.append("the job is gone" if live is None else "the job has changed")
        if not missed and doubtful and plan.status.job_restarts > 0:
            missed += [f"pod {name} is there" for name in self._unseen_pods(job, cached_uids)]
        if missed:
            raise StaleCache(f"{missed[0]}, but the cache does not show it yet")
        self._doubtful.discard(uid)

    def _unseen_pods(self, job: TFJob, cached_uids: Set[str]) -> list[str]:
        """Return the names of the job's pods that the cache does not show yet. Costs a LIST."""
        meta = job.metadata
        selection = Selection(label_selector=job_selector(meta.name))
        there = list_all(ListWatch(self._client, PODS, meta.namespace, decode_partial, selection)).items
        pods = (pod.metadata for pod in there)
        return [pod.name for pod in pods if pod.is_controlled_by(meta.uid) and pod.uid not in cached_uids]

    def _came_late(self, job: TFJob) -> bool:
        """Return whether the job has no conditions yet, although it was created before this process became leader.

        The previous leader may have written to such a job, and the watch may be behind. If the job has conditions, its
        status names the replicas that were started, and `verify` looks up the absent pods of these replicas anyway.
        The result depends on the API server's clock and the clock of this machine. If the clocks differ, a job that is
        created in the first seconds of the leadership may cost a GET.
        """
        created = job.metadata.creation_timestamp
        if job.status.conditions or created is None or self._since is None:
            return False
        return seconds_between(created, self._since) > 0

    def _misses(self, job: TFJob, meta: ObjectMeta, cached_uids: Set[str]) -> bool:
        """Return whether `meta`, which the API server has, is a pod of the job that the cache will show soon.

        A pod without the job's labels is released, and never appears in the cache. Raises KubeError if the release
        fails, unless the API server refused it.
        """
        if meta.controller is None or meta.controller.uid != job.metadata.uid or meta.uid in cached_uids:
            # The pod does not belong to this job, or the cache shows it already with other labels.
            return False
        if has_job_labels(meta.labels, job.metadata.name):
            return True
        # The informers select by the operator's labels, so this pod never appears in a cache.
        try:
            self._claims.release(job, PODS, meta, decode_partial)
        except KubeError as error:
            if not is_refused(error):
                raise
            # The pod keeps the name: the creation of the replica's next pod fails and reports that.
        return False


def _key(job: TFJob, action: Create | Delete) -> ExpectationKey:
    replica_type = None if action.replica is None else action.replica[0]
    return expectation_key(job.metadata.uid, replica_type, action.kind)
