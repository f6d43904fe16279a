"""Reads the caches for `decide`, looks up a priority, and writes Workloads.

An outage of Kueue never stops a job that runs. While Kueue, or its webhook, does not respond, the operator makes plans
from the caches, and makes the writes when Kueue responds again (`outage`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from tfoperator.api.kueue.queues import PRIORITY_LABEL, queue_name
from tfoperator.api.kueue.workloads import WORKLOADS, Workload
from tfoperator.api.replicas.templates import template_dict
from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.parts.run_policy import SchedulingPolicy
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import Clock
from tfoperator.controller.kueue.cached import decode_flavor_for_cache, decode_workload_for_cache
from tfoperator.controller.kueue.decide import (
    Decision,
    QueueFacts,
    closed_gate,
    decide,
    is_driven_by_kueue,
    is_to_be_compared,
    keeping_gate,
)
from tfoperator.controller.kueue.flavor_events import FlavorHandler
from tfoperator.controller.kueue.growth import lacks_reservation, roles_of
from tfoperator.controller.kueue.lag import TRY_AGAIN, WorkloadLag, missing_flavors
from tfoperator.controller.kueue.left import JOB_INDEX, WorkloadsLeft, index_by_job, key_of
from tfoperator.controller.kueue.objects import (
    FLAVORS,
    OF_JOBS,
    WORKLOAD_PRIORITIES,
    Flavor,
    decode_priority,
)
from tfoperator.controller.kueue.outage import Outage, is_outage
from tfoperator.controller.kueue.requests import send
from tfoperator.controller.kueue.writes import Verb, Write, frees_quota, frees_some_quota, is_reported_by_kueue
from tfoperator.controller.ledger import StaleCache
from tfoperator.controller.plan.values.observed import Observed, QueueGate
from tfoperator.informers import (
    CONTROLLER_UID_INDEX,
    Callbacks,
    InformerGroup,
    Lister,
    SharedInformerFactory,
    index_by_controller_uid,
)
from tfoperator.kube.protocol.errors import ConflictError, KubeError, NotFoundError
from tfoperator.kube.protocol.resources import PRIORITY_CLASSES
from tfoperator.kube.protocol.verbs import ApiClient, ListWatch
from tfoperator.kube.views.objects import ObjectMeta, Pod
from tfoperator.kube.watching.listing import list_all

logger = logging.getLogger(__name__)

_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class KueueInformers(msgspec.Struct, frozen=True):
    """The caches of Kueue's objects."""

    workloads: InformerGroup[Workload]
    flavors: InformerGroup[Flavor]

    @classmethod
    def of(cls, factory: SharedInformerFactory) -> KueueInformers:
        """Return the informers from a factory; the caller starts the factory afterwards."""
        indexers = {CONTROLLER_UID_INDEX: index_by_controller_uid, JOB_INDEX: index_by_job}
        return cls(
            factory.informer(WORKLOADS, decode_workload_for_cache, OF_JOBS, indexers=indexers),
            factory.informer(FLAVORS, decode_flavor_for_cache),
        )

    @property
    def are_complete(self) -> bool:
        """Whether both caches show all objects."""
        return self.workloads.has_synced and self.flavors.has_synced

    def wait_for_sync(self, seconds: float) -> None:
        """Wait until both caches are complete, for at most this number of seconds; log a warning if they are not."""
        if not self.workloads.wait_for_sync(seconds) or not self.flavors.wait_for_sync(seconds):
            logger.warning(
                "Kueue's objects can't be listed: jobs in queues wait, and the operator works on all other jobs"
            )

    def queue_jobs(self, enqueue: Callable[[str], None]) -> None:
        """Call `enqueue` for each Workload that changes, with the key of its job.

        If a flavor changes, call `enqueue` for each job that was admitted with the flavor.
        """

        def changed(workload: Workload) -> None:
            if key := key_of(workload):
                enqueue(key)

        self.workloads.add_handler(Callbacks(changed=changed, gone=changed), resync_period=0, name="controller")
        self.flavors.add_handler(FlavorHandler(self.workloads.lister, enqueue), resync_period=0, name="controller")


_UNTIL_COMPLETE = 5.0
"""The number of seconds until a job's next sync if the caches of Kueue's objects are not complete."""

_NO_ANSWER = QueueGate("NoAnswer", "Kueue does not answer; the operator requests quota when Kueue answers")


class _NoSuchClass(Exception):
    """The priority class that a job names doesn't exist."""


class Looked(NamedTuple):
    """The input of the plan, and the error that prevented the necessary write to the job's Workload, if any."""

    observed: Observed
    error: KubeError | None = None


class QueueKeeper:
    """Handles the Workloads of jobs. It is thread-safe for different jobs at the same time."""

    def __init__(
        self,
        client: ApiClient,
        informers: KueueInformers,
        pods: Lister[Pod],
        clock: Clock,
        enqueue_after: Callable[[str, float], None],
    ) -> None:
        """Initialize; `enqueue_after` queues a job's key for a sync after a number of seconds."""
        self._client = client
        self._caches = informers
        self._lag = WorkloadLag(client, informers.workloads.lister, informers.flavors.lister, clock)
        self.left = WorkloadsLeft(client, informers.workloads.lister, pods, self._lag)
        """The Workloads that may still exist after their jobs were deleted."""
        self._clock = clock
        self._enqueue_after = enqueue_after
        self._outage = Outage(clock, enqueue_after)
        self._has_warned = False

    def forget(self, job: ObjectMeta) -> None:
        """Forget a job that is gone. `left` handles the job's Workload."""
        self._lag.forget(job.uid)
        self._outage.leave(job.key)

    def forget_writes(self) -> None:
        """Forget the writes that the caches do not show yet. Call this after a restore of the API server."""
        self._lag.forget_writes()

    def look(self, observed: Observed, default_ps_image: str) -> Looked:
        """Make the necessary writes to the job's Workload, and return the input from which the plan is made.

        If no write is necessary, the method sends no request, except in a few cases, for example when a new leader
        first handles the job. Raises StaleCache if the cache is behind, or if a write would give back quota that a pod
        still uses. The caller must then sync the job again. The result contains any other error. The job then
        continues, and gets new pods only if it surely has quota for them.
        """
        job = observed.job
        if not self._caches.are_complete:
            self._enqueue_after(job.metadata.key, _UNTIL_COMPLETE)
            return Looked(self._undecided(observed))
        error: KubeError | _NoSuchClass | None = None
        may_write = self._outage.may_write(job)
        try:
            if may_write:
                self.left.release(job.metadata.key, job.metadata.uid)
            facts = self._facts(observed, default_ps_image)
        except StaleCache:
            raise
        except KubeError as failure:
            self._note(job, failure)
            return Looked(self._undecided(observed), failure)
        if facts is None:
            self._outage.leave(job.metadata.key)
            return Looked(observed)
        if facts.workload is not None and final_condition(job) is None:
            self._warn_of_kueue(job, facts.workload)
        decision = decide(facts, self._clock.now())
        if decision.look_again is not None:
            self._enqueue_after(job.metadata.key, decision.look_again)
        if not decision.writes:
            self._outage.leave(job.metadata.key)
        elif may_write:
            error = self._carry_out(facts, decision)
        gate = self._why_not_asked(facts, decision, error) or decision.gate
        failed = None if isinstance(error, _NoSuchClass) else error
        return Looked(msgspec.structs.replace(observed, job=decision.admitted or job, gate=gate), failed)

    def _carry_out(self, facts: QueueFacts, decision: Decision) -> KubeError | _NoSuchClass | None:
        """Make the writes, and return the error that prevented a write, if any.

        Raises StaleCache if the cache is behind: then the writes could be wrong, and are not made. If the Workload of a
        job that has left its queue has changed, the job gets no pods before the cache shows the change. Otherwise, the
        Workload of an elastic job that Kueue has admitted meanwhile would keep its quota until the last of these pods
        has ended.
        """
        try:
            self._write_all(facts, decision)
        except StaleCache:
            raise
        except KubeError as failure:
            self._note(facts.job, failure)
            if isinstance(failure, ConflictError) and _has_left_its_queue(facts.job):
                raise StaleCache("the job's Workload has changed, but the cache does not show it yet") from failure
            return failure
        except _NoSuchClass as missing:
            key = facts.job.metadata.key
            if _is_admitted(decision):
                # The condition Admitted of a job with quota does not name the missing class.
                logger.warning("%s; the job keeps its quota and its priority", missing, extra={"job": key})
            self._enqueue_after(key, TRY_AGAIN)
            return missing
        self._outage.answered(facts.job)
        return None

    def _why_not_asked(
        self, facts: QueueFacts, decision: Decision, error: KubeError | _NoSuchClass | None
    ) -> QueueGate | None:
        """Return a gate with the reason if quota could not be requested, or if a priority was not found.

        Return None if the job has a Workload already, or needs none, or if the request was sent. Return None also for
        an admitted job whose new priority was not found: the job keeps its pods.
        """
        if isinstance(error, _NoSuchClass):
            return None if _is_admitted(decision) else QueueGate("NoPriorityClass", str(error))
        if facts.workload is not None or not decision.writes:
            return None
        if error is not None and not is_outage(error):
            return closed_gate("Refused", f"the operator can't request quota: {error}")
        return _NO_ANSWER if self._outage.is_shown(facts.job) else None

    def _note(self, job: TFJob, error: KubeError) -> None:
        if is_outage(error):
            self._outage.failed(job, error)
        else:
            self._outage.answered(job)

    def _facts(self, observed: Observed, default_ps_image: str) -> QueueFacts | None:
        """Return the facts about the job's Workload; return None if the job has no Workload and needs none.

        Raises StaleCache if the cache is behind, and another KubeError if a request to the API server fails.
        """
        job, lag = observed.job, self._lag
        workloads, ends = lag.shown(job), final_condition(job) is not None
        queued = bool(queue_name(job.metadata.labels))
        depends = observed.pods or observed.services if queued else lag.is_asked_for(job)
        if lacks_reservation(workloads):
            lag.doubt(job)
        if (workloads or depends) and not ends:
            lag.verify_workloads(job, workloads)
        if not workloads and not queued:
            return None
        workload, larger, spent = roles_of(workloads)
        runs = queued and not ends and not job.spec.suspended
        return QueueFacts(
            job=job,
            workload=workload,
            pods=observed.pods,
            flavors=self._flavors(job, workloads),
            usable=not observed.problems and not job.decode_error,
            awaits_pods=any(kind == "pods" for _, kind in observed.unseen.awaited),
            default_ps_image=default_ps_image,
            given_back={} if workload is None else lag.given_back(workload),
            asked=lag.asked_for(workload) if workload is not None and runs and is_to_be_compared(workload) else (),
            larger=larger,
            spent=spent,
        )

    def _undecided(self, observed: Observed) -> Observed:
        """Return the input of the plan if the job's Workload can't be read.

        The job keeps its pods, but the plan creates none.
        """
        job = observed.job
        if final_condition(job) is not None or job.spec.suspended or not queue_name(job.metadata.labels):
            return observed
        workload = roles_of(self._lag.shown(job)).current
        if workload is not None and is_driven_by_kueue(workload):
            return observed
        if not observed.pods:
            return msgspec.structs.replace(observed, gate=_NO_ANSWER)
        return msgspec.structs.replace(observed, gate=keeping_gate(job, workload))

    def _write_all(self, facts: QueueFacts, decision: Decision) -> None:
        """Check that the caches are up to date, as far as the writes depend on them, and then make the writes.

        Raises StaleCache if a cache is behind, another KubeError if a check or a write fails, and _NoSuchClass if the
        job's priority class doesn't exist.
        """
        job, workload, lag = facts.job, facts.workload, self._lag
        frees, some = (any(map(frees_it, decision.writes)) for frees_it in (frees_quota, frees_some_quota))
        if workload is not None and (frees or some) and workload.is_true("QuotaReserved"):
            lag.verify_pods(workload, facts.pods, once=not frees)
        # `verify_job` protects a Workload's place in the queue. A Workload that is being deleted has none, and its
        # job may be gone already.
        going = workload is not None and workload.metadata.deletion_timestamp is not None
        ends = final_condition(job) is not None
        if not (ends or going) and any(write.verb is not Verb.STATUS for write in decision.writes):
            lag.verify_job(job)
        if job.status.elastic is not None and any(write.verb is Verb.CREATE for write in decision.writes):
            # The API server refuses a second Workload with the same name. But the Workload of an elastic job may have
            # another name, and the first list of a new leader may lack it.
            lag.verify_workloads(job, lag.shown(job))
        for write in decision.writes:
            self._write(job, write)

    def _warn_of_kueue(self, job: TFJob, workload: Workload) -> None:
        """Log a warning, once per process, if Kueue's own TFJob integration also handles a Workload of a TFJob."""
        if not self._has_warned and (is_driven_by_kueue(workload) or is_reported_by_kueue(workload)):
            self._has_warned = True
            message = (
                "Kueue's own integration kubeflow.org/tfjob manages Workload %s, and perhaps others: remove "
                "kubeflow.org/tfjob from integrations.frameworks in Kueue's configuration, or start this operator "
                "without --kueue"
            )
            logger.warning(message, workload.metadata.name, extra={"job": job.metadata.key})

    def _flavors(self, job: TFJob, workloads: Sequence[Workload]) -> dict[str, Flavor]:
        """Return the flavors by name; if a flavor is missing, queue the job for another sync after some time.

        Raises KubeError if the cache lacks a flavor and the flavors can't be listed.
        """
        flavors = self._lag.flavors(workloads)
        if missing_flavors(workloads, flavors):
            self._enqueue_after(job.metadata.key, TRY_AGAIN)
        return flavors

    def _write(self, job: TFJob, write: Write) -> None:
        if write.prices:
            priority = self._price(job)
            if write.verb is Verb.CREATE and priority["priorityClassRef"] is None:
                del priority["priorityClassRef"]
            write.body["spec"] |= priority
        if write.verb is Verb.CREATE and (left := self._lag.seconds_until_asked_again(job)):
            self._enqueue_after(job.metadata.key, left)
            return
        before = self._lag.note_given_back(job, write)
        if send(self._client, job.metadata.namespace, write):
            self._lag.written(job, write)
        else:
            self._lag.refused(job, before)
        if write.verb is not Verb.STATUS:
            logger.info("%s Workload %s", write.verb, write.name, extra={"job": job.metadata.key})

    def _price(self, job: TFJob) -> dict[str, Any]:
        """Return the members of a Workload's spec that set the Workload's priority.

        Raises _NoSuchClass if the priority class doesn't exist, and KubeError if it can't be read.
        """
        own = job.metadata.labels.get(PRIORITY_LABEL, "")
        resource, name = (WORKLOAD_PRIORITIES, own) if own else (PRIORITY_CLASSES, _class_of_pods(job))
        if not name:
            classes = list_all(ListWatch(self._client, PRIORITY_CLASSES, "", decode_priority)).items
            default = next((priority_class for priority_class in classes if priority_class.global_default), None)
            if default is None:
                return {"priorityClassRef": None, "priority": 0}
            name, value = default.metadata.name, default.value
        elif name in _SYSTEM_PRIORITIES and not own:
            value = _SYSTEM_PRIORITIES[name]
        else:
            try:
                value = self._client.get(resource, "", name, decode_priority).value
            except NotFoundError as error:
                raise _NoSuchClass(f"{resource.kind} {name} doesn't exist") from error
        return {"priorityClassRef": {"group": resource.group, "kind": resource.kind, "name": name}, "priority": value}


def _is_admitted(decision: Decision) -> bool:
    return decision.gate is not None and decision.gate.admitted


def _has_left_its_queue(job: TFJob) -> bool:
    """Return whether a job that has a Workload is in no queue any more, and has not ended."""
    return not queue_name(job.metadata.labels) and final_condition(job) is None


def _class_of_pods(job: TFJob) -> str:
    """Return the PriorityClass of the job; without it, the first PriorityClass that a template names."""
    policy = job.spec.policy.scheduling_policy or SchedulingPolicy()
    templates = (template_dict(spec.template) for spec in job.spec.tf_replica_specs.values() if spec is not None)
    named = ((template.get("spec") or {}).get("priorityClassName") for template in templates)
    return policy.priority_class or next(filter(None, named), "")
