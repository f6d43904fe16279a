"""Turns watch events into keys of the jobs to sync.

Handlers make no other decision. They find an object's owner by its UID, update the expectations, and put the job's key
into the queue. The queue turns many events at the same time into one sync.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from tfoperator.api.replicas import names
from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.types import TFJOBS, TFJob, TFJobSpec
from tfoperator.controller.kinds import OwnedKind
from tfoperator.controller.kueue.objects import Priority
from tfoperator.controller.observe.informers import ControllerInformers
from tfoperator.expectations import Expectations, expectation_key
from tfoperator.informers import InformerGroup, Lister
from tfoperator.kube.views.objects import HasMetadata, ObjectMeta, OwnerReference, Pod, object_key

T = TypeVar("T", bound=HasMetadata)

Enqueue = Callable[[str], None]
"""Queues the job with this key (`namespace/name`) for a sync."""


def connect(
    informers: ControllerInformers,
    handler: JobHandler,
    expectations: Expectations,
    enqueue: Enqueue,
    enqueue_urgent: Enqueue,
) -> None:
    """From now on, pass jobs to `handler`, the objects that they control to `expectations`, and keys to `enqueue`.

    `enqueue_urgent` gets the key of a job if a replica of the job does not run until the event is handled. The handlers
    get no periodic resyncs of the informers: these go to the reconciler, which syncs the jobs again.
    """
    informers.jobs.add_handler(handler, resync_period=0, name="controller")

    def follow(kind: OwnedKind, group: InformerGroup[T]) -> None:
        owned = OwnedObjectHandler[T](kind, informers.jobs.lister, expectations, enqueue, enqueue_urgent)
        group.add_handler(owned, resync_period=0, name="controller")

    follow("pods", informers.pods)
    follow("services", informers.services)
    follow("deployments", informers.deployments)
    if informers.pod_groups is not None:
        follow("podgroups", informers.pod_groups)
    if informers.priority_classes is not None:
        handler_of_classes = PriorityHandler(informers.jobs.lister, enqueue)
        informers.priority_classes.add_handler(handler_of_classes, resync_period=0, name="controller")


class JobHandler:
    """Queues every job that is new or has changed; calls `gone` with each job that was deleted.

    If only the status has changed, the operator itself has nearly always written it. The key of such a job goes to
    `enqueue_soon`, where a sync handles several events together. If `is_seen` returns True, the job is not queued: the
    sync that wrote the status left nothing to do.
    """

    def __init__(
        self,
        enqueue: Enqueue,
        enqueue_soon: Enqueue,
        gone: Callable[[TFJob], None],
        is_seen: Callable[[TFJob], bool],
    ) -> None:
        self._enqueue = enqueue
        self._enqueue_soon = enqueue_soon
        self._gone = gone
        self._is_seen = is_seen

    def on_add(self, obj: TFJob) -> None:
        """Queue a new job."""
        self._enqueue(obj.metadata.key)

    def on_update(self, old: TFJob, new: TFJob) -> None:
        """Queue a job that has changed, or a new job with the name of a deleted job.

        An event without a new resourceVersion is ignored: it is a resync, and the reconciler handles resyncs.
        """
        if old.metadata.uid != new.metadata.uid:
            self._gone(old)
        elif old.metadata.resource_version == new.metadata.resource_version:
            return
        elif old.metadata.generation == new.metadata.generation > 0 and old.metadata.deletion_timestamp is None:
            if not self._is_seen(new):
                self._enqueue_soon(new.metadata.key)
            return
        self._enqueue(new.metadata.key)

    def on_delete(self, obj: TFJob) -> None:
        """Call `gone` with the deleted job."""
        self._gone(obj)


class OwnedObjectHandler(Generic[T]):
    """Queues the job that controls an object (such as a pod or a service), or that may adopt the object.

    Two changes are urgent, because a replica does not run until the job is synced: a pod has failed; or the last object
    whose deletion the operator awaited is gone, so that the names are free for new objects. For an object with a grace
    period, the operator awaits the deletion only until the cache shows that the object is terminating. That change is
    not urgent, and the end of the object, which frees its name, is not urgent either.
    """

    def __init__(
        self,
        kind: OwnedKind,
        jobs: Lister[TFJob],
        expectations: Expectations,
        enqueue: Enqueue,
        enqueue_urgent: Enqueue,
    ) -> None:
        self._kind: OwnedKind = kind
        self._jobs = jobs
        self._expectations = expectations
        self._enqueue = enqueue
        self._enqueue_urgent = enqueue_urgent

    def on_add(self, obj: T) -> None:
        """Record that an expected object has appeared, and queue the job that controls the object or may adopt it."""
        meta = obj.metadata
        owner = meta.controller
        if meta.deletion_timestamp is not None:
            # After a restart of the operator, the first state of an object in the cache may have a deletionTimestamp.
            self._observe_deletion(meta, owner)
        elif owner is not None:
            replica_type = meta.labels.get(names.LABEL_REPLICA_TYPE, "")
            self._expectations.creation_observed(expectation_key(owner.uid, replica_type, self._kind))
        self._enqueue_job_of(meta, owner)

    def on_update(self, old: T, new: T) -> None:
        """Queue the owner of an object that has changed; ignore changes of fields that the cache does not keep."""
        if old.metadata.uid != new.metadata.uid:
            self.on_delete(old)
            self.on_add(new)
            return
        if _same_view(old, new):
            return
        meta = new.metadata
        owner = meta.controller
        if meta.deletion_timestamp is not None:
            self._observe_deletion(meta, owner)
        if old.metadata.owner_references != meta.owner_references:
            self._enqueue_job_of(old.metadata, old.metadata.controller)
        self._enqueue_job_of(meta, owner, urgent=_has_failed(new) and not _has_failed(old))

    def on_delete(self, obj: T) -> None:
        """Queue the owner, or a later job with the owner's name, which may wait until the object's name is free."""
        owner = obj.metadata.controller
        was_last = self._observe_deletion(obj.metadata, owner)
        self._enqueue_job_of(obj.metadata, owner, of_any_uid=True, urgent=was_last)

    def _observe_deletion(self, meta: ObjectMeta, owner: OwnerReference | None) -> bool:
        """Record an object's deletion; return whether it was the last awaited change of its kind and replica type."""
        if owner is None:
            return False
        replica_type = meta.labels.get(names.LABEL_REPLICA_TYPE, "")
        return self._expectations.deletion_observed(expectation_key(owner.uid, replica_type, self._kind), meta.uid)

    def _enqueue_job_of(
        self, meta: ObjectMeta, owner: OwnerReference | None, *, of_any_uid: bool = False, urgent: bool = False
    ) -> None:
        name = meta.labels.get(names.LABEL_JOB_NAME, "") if owner is None else _job_name(owner)
        if not name:
            return
        job = self._jobs.find(object_key(meta.namespace, name))
        if job is None:
            # When the cache of jobs shows the job, `JobHandler.on_add` queues it.
            return
        if names.has_job_labels(meta.labels, name) if owner is None else (of_any_uid or owner.uid == job.metadata.uid):
            enqueue = self._enqueue_urgent if urgent else self._enqueue
            enqueue(job.metadata.key)


class PriorityHandler:
    """Queues the jobs that depend on priorities, when a PriorityClass appears, changes or disappears.

    If a gang needs only some of the job's pods, the priorities decide which pods count for `minResources` (see
    `plan.objects.gang`). A job and its new PriorityClass often arrive together, and the cache may show the class after
    the first sync of the job. PriorityClasses rarely change, so the handler does not look for the jobs that name the
    class.
    """

    def __init__(self, jobs: Lister[TFJob], enqueue: Enqueue) -> None:
        self._jobs = jobs
        self._enqueue = enqueue

    def on_add(self, obj: Priority) -> None:  # noqa: ARG002 - the name in the protocol
        """Queue the jobs that depend on priorities."""
        for job in self._jobs.list():
            if final_condition(job) is None and _depends_on_priorities(job.spec):
                self._enqueue(job.metadata.key)

    def on_update(self, old: Priority, new: Priority) -> None:
        """Queue these jobs, if the value of the class has changed, or whether it is the default."""
        if (old.value, old.global_default) != (new.value, new.global_default):
            self.on_add(new)

    def on_delete(self, obj: Priority) -> None:
        """Queue these jobs: pods that name a class which does not exist have the priority 0 for the operator."""
        self.on_add(obj)


def _depends_on_priorities(spec: TFJobSpec) -> bool:
    gang = spec.policy.scheduling_policy
    return spec.elastic_policy is not None or (gang is not None and gang.min_available is not None)


def _has_failed(obj: HasMetadata) -> bool:
    return isinstance(obj, Pod) and obj.status.phase == "Failed"


def _job_name(owner: OwnerReference) -> str:
    group = owner.api_version.partition("/")[0]
    return owner.name if owner.kind == TFJOBS.kind and group == TFJOBS.group else ""


def _same_view(old: HasMetadata, new: HasMetadata) -> bool:
    """Return whether the cached members of both objects are equal, except for the resourceVersion."""
    version = new.metadata.resource_version
    if old.metadata.resource_version == version:
        return True
    return msgspec.structs.replace(old, metadata=msgspec.structs.replace(old.metadata, resource_version=version)) == new
