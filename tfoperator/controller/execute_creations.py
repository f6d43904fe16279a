"""Creates the pods and services of replicas: in parallel but with slow start, and replica by replica.

A service is made before its pod, and a pod without its service is not made at all: nobody would find it. What is to be
created is expected before the first call, and what turns out not to be created is expected no longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from tfoperator.api.v1.types import TFJob
from tfoperator.controller.actions import Plan, PodCreate, ServiceCreate
from tfoperator.controller.children import RESOURCES, ChildKind, expectation_key
from tfoperator.controller.claim import Claimer
from tfoperator.controller.job_events import JobEvents
from tfoperator.controller.messages import creation_events
from tfoperator.controller.metrics import ControllerMetrics
from tfoperator.controller.name_taken import NameTaken, Occupant, Taken, found_instead
from tfoperator.controller.outcome import Outcome, is_final, refusal
from tfoperator.controller.slow_start import CallPool
from tfoperator.expectations import Expectations
from tfoperator.kube.errors import KubeError
from tfoperator.kube.objects import decode_nothing
from tfoperator.kube.verbs import ApiClient

__all__ = ["CreationExecutor"]

_Create = PodCreate | ServiceCreate
_Created = KubeError | Occupant | None  # None: it was created
_Objects = Sequence[tuple[ChildKind, _Create]]  # of one replica, in the order of their creation


class _Attempt(NamedTuple):
    kind: ChildKind
    one: _Create
    result: _Created


class CreationExecutor:
    """Executes the creations of plans. Thread-safe, for different jobs at a time."""

    def __init__(
        self,
        client: ApiClient,
        *,
        claimer: Claimer,
        pool: CallPool,
        expectations: Expectations,
        events: JobEvents,
        metrics: ControllerMetrics,
    ) -> None:
        self._client = client
        self._claimer = claimer
        self._pool = pool
        self._expectations = expectations
        self._events = events
        self._metrics = metrics

    def execute(self, job: TFJob, plan: Plan, outcome: Outcome) -> None:
        """Create replica by replica, a service before its pod, so that the first pods start while others are made."""
        replicas = _by_replica(plan)
        if not replicas:
            return
        uid = job.metadata.uid
        wanted = Counter(expectation_key(uid, one.replica_type, kind) for replica in replicas for kind, one in replica)
        for key, count in wanted.items():
            self._expectations.expect_creations(key, count)
        try:
            results = self._pool.slow_start(
                [partial(self._create_replica, job, one) for one in replicas], ok=_all_created
            )
        except BaseException:
            # How many were created is unknown, and nobody will ever observe those that were not.
            for key in wanted:
                self._expectations.forget(key)
            raise
        for position in results.skipped:
            self._not_created(job, replicas[position])
        done = [attempt for attempts in results.done for attempt in attempts]
        services = self._judge(job, "services", [one for one in done if one.kind == "services"], outcome)
        pods = self._judge(job, "pods", [one for one in done if one.kind == "pods"], outcome)
        self._events.emit(job, creation_events(pods, services))

    def _create_replica(self, job: TFJob, objects: _Objects) -> list[_Attempt]:
        """What became of each, up to the first that isn't there: nobody would find a pod without its service."""
        attempts: list[_Attempt] = []
        for position, (kind, one) in enumerate(objects):
            result = self._create(job, kind, one)
            attempts.append(_Attempt(kind, one, result))
            if isinstance(result, KubeError) or (result is not None and result.taken is not Taken.OURS):
                self._not_created(job, objects[position + 1 :])
                break
        return attempts

    def _not_created(self, job: TFJob, objects: _Objects) -> None:
        for kind, one in objects:
            self._expectations.creation_observed(expectation_key(job.metadata.uid, one.replica_type, kind))

    def _create(self, job: TFJob, kind: ChildKind, one: _Create) -> _Created:
        resource = RESOURCES[kind]
        try:
            self._client.create(resource, job.metadata.namespace, one.body, decode_nothing)
        except KubeError as error:
            self._expectations.creation_observed(expectation_key(job.metadata.uid, one.replica_type, kind))
            replica = (one.replica_type, one.index)
            return found_instead(error, self._client, self._claimer, job, resource, one.name, replica)
        return None

    def _judge(self, job: TFJob, kind: ChildKind, attempts: Sequence[_Attempt], outcome: Outcome) -> list[str]:
        """Put down how the creations of one kind went; returns the names of what was created."""
        created: list[str] = []
        failures: list[KubeError] = []
        taken = 0
        for _, one, result in attempts:
            if result is None:
                created.append(one.name)
            elif isinstance(result, KubeError):
                failures.append(result)
                if is_final(result) and not outcome.refused:
                    outcome.refused = refusal(f"spec.tfReplicaSpecs[{one.replica_type}].template", kind[:-1], result)
            elif result.taken is Taken.FOREIGN:
                taken += 1
                self._events.name_is_taken(job, kind, result.message)
                outcome.errors.append(NameTaken(result.message))
            else:
                taken += result.taken is Taken.LEAVING
                outcome.waiting = True
        self._metrics.children_created(kind, len(created), len(failures) + taken)
        if failures:
            self._events.failed_create(job, kind, f"Error creating {kind[:-1]}", failures)
            outcome.errors += failures
        return created


def _by_replica(plan: Plan) -> list[_Objects]:
    replicas: dict[str, list[tuple[ChildKind, _Create]]] = {}
    for service in plan.create_services:
        replicas.setdefault(service.name, []).append(("services", service))
    for pod in plan.create_pods:
        replicas.setdefault(pod.name, []).append(("pods", pod))
    return list(replicas.values())


def _all_created(attempts: Sequence[_Attempt]) -> bool:
    return not any(isinstance(one.result, KubeError) for one in attempts)
