"""Executes the actions of a plan for all kinds of objects: first it records expectations, then it makes the API calls.

Before the first call, this module records which creations and deletions the cache must show (the expectations). If a
call has no effect, this module removes the expectation of that call. The only decision in this module is how to
continue after a failed call. A failed call does not stop actions that do not depend on it, except in a phase with
`slow_start`: there, the chains that were not tried yet wait for the next sync. The next sync observes the whole state
again, and repeats the actions that are still necessary. Thus a crash between any two calls is harmless.

A chain is a sequence of actions in which each action needs the action before it. For example, the deletion of a failed
pod comes before the creation of its successor. A phase is a part of the plan. The runner sends all chains of a phase in
one call of the client. In each chain, the client stops at the first failure. Then the runner looks up the objects of
the failed actions, also in one call. It sends the rest of a chain if the failure in the chain did no harm: the object
to create existed already, or the object to delete was gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tfoperator.api.v1.types import TFJob
from tfoperator.controller.collaborators import Collaborators
from tfoperator.controller.execute.failed_writes import found_instead, is_open, was_deleted
from tfoperator.controller.execute.outcome import Applied, Result
from tfoperator.controller.execute.slow_start import failures_after, in_growing_batches, in_turn
from tfoperator.controller.kinds import NOUNS, ObjectKind
from tfoperator.controller.ledger import Ledger
from tfoperator.controller.plan.values.actions import Action, Create, Delete, Looks, Patch, Phase, PhaseName
from tfoperator.kube.protocol.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import Answer, Creation, Deletion, Lookup, Modification, PatchType, Request, Warned
from tfoperator.kube.views.objects import ObjectMeta

logger = logging.getLogger(__name__)

_CHAINS_PER_CALL = 4
"""The largest batch has this many chains for each request that the client may send at the same time. A smaller number
would lose time at the end of each batch, where the client sends fewer requests at the same time. With a larger number,
the chains of other jobs would wait longer for the end of the batch.
"""

Chain = Sequence[Action]


class ActionRunner:
    """Executes phases of actions. It is thread-safe, but the caller must run only one plan per job at a time."""

    def __init__(
        self,
        outside: Collaborators,
        resources: Mapping[ObjectKind, Resource],
        ledger: Ledger,
        plan_again: Callable[[str], None],
    ) -> None:
        """Initialize.

        After logs were archived or read, or stacks were taken, another thread calls `plan_again` with the job's key.
        """
        self._client = outside.client
        self._clock = outside.clock
        self._archive = outside.archive
        self._witnesses = outside.witnesses
        self._resources = resources
        self._memory, self._cache_lag, self._claims = ledger
        self._plan_again = plan_again

    def look(self, job: TFJob, looks: Looks) -> None:
        """Begin to archive logs, read logs and take stacks of the pods in `looks`. Don't wait for the results."""
        done = partial(self._plan_again, job.metadata.key)
        if looks.keep and self._archive is not None:
            self._archive.keep(job.metadata, looks.keep, done)
        if looks.read and looks.newer_than is not None and self._witnesses.logs is not None:
            self._witnesses.logs.look(job.metadata, looks.read, looks.newer_than, done)
        if looks.stacks and self._witnesses.stacks is not None:
            self._witnesses.stacks.take(job.metadata, looks.stacks, done)

    def run(self, job: TFJob, phase: Phase, incomplete: set[PhaseName]) -> list[Applied]:
        """Carry out one phase; API errors are in the result, not raised.

        If a phase on which this phase depends is in `incomplete`, nothing is done and the list is empty. If a creation
        of this phase left no object, or a deletion failed, the phase is added to `incomplete`.
        """
        if not phase.needs.isdisjoint(incomplete):
            return []
        self._cache_lag.expect(job, phase.actions)
        try:
            done = self._start_slowly(job, phase) if phase.slow_start else self._run_chains(job, phase.chains)
        except BaseException:
            self._cache_lag.forget_creations(job, phase.actions)
            raise
        applied = [attempt for chain in done for attempt in chain]
        if len(done) < len(phase.chains) or not all(map(_may_go_on, applied)):
            incomplete.add(phase.name)
        return applied

    def _start_slowly(self, job: TFJob, phase: Phase) -> list[list[Applied]]:
        """Run the chains in growing batches until a batch contains a failure; return the results of these batches.

        The order of the chains is as in `in_turn`: chains that failed in earlier executions come last. The failures of
        this execution are recorded for the order of the next.
        """
        failed = self._memory.failed(job.metadata.uid)
        chains = in_turn(phase.chains, failed)
        most = _CHAINS_PER_CALL * self._client.parallelism
        done = in_growing_batches(chains, partial(self._run_chains, job), ok=_has_no_failure, most=most)
        for chain in chains[len(done) :]:
            self._not_done(job, chain)
        failures = [chain for chain, applied in zip(chains, done, strict=False) if not _has_no_failure(applied)]
        if failed or failures:
            self._memory.note_failed(job.metadata.uid, failures_after(failed, chains, failures))
        return done

    def _run_chains(self, job: TFJob, chains: Sequence[Chain]) -> list[list[Applied]]:
        """Run the chains; return the results of the actions of each chain.

        A chain ends early at a failed action on which its next actions depend.
        """
        applied: list[list[Applied]] = [[] for _ in chains]
        left = {position: chain for position, chain in enumerate(chains) if chain}
        while left:
            sent = self._client.send([[self._request(job, action) for action in chain] for chain in left.values()])
            failed: dict[int, tuple[Action, KubeError]] = {}
            for (position, chain), answers in zip(left.items(), sent, strict=True):
                for action, answer in zip(chain, answers, strict=False):
                    if isinstance(answer, KubeError):
                        failed[position] = action, answer
                    else:
                        applied[position].append(self._succeeded(job, action, answer))
                left[position] = chain[len(answers) :]
            left, rest = {}, left
            for position, attempt in zip(failed, self._look_up(job, [*failed.values()]), strict=True):
                applied[position].append(attempt)
                if not _may_go_on(attempt):
                    self._not_done(job, rest[position])
                elif rest[position]:
                    left[position] = rest[position]
        return applied

    def _request(self, job: TFJob, action: Action) -> Request:
        resource, namespace = self._resources[action.kind], job.metadata.namespace
        match action:
            case Create():
                return Creation(resource, namespace, action.body)
            case Patch():
                metadata = {**action.body.get("metadata", {}), "uid": action.uid}
                body = {**action.body, "metadata": metadata}
                patch_type = PatchType.STRATEGIC if action.strategic else PatchType.MERGE
                return Modification(resource, namespace, action.name, body, patch_type)
            case Delete():
                # "Background": the API server deletes the job or deployment at once, and the garbage collector then
                # deletes the objects that it owns.
                propagation = "Background" if action.kind in ("tfjobs", "deployments") else ""
                return Deletion(
                    resource,
                    namespace,
                    action.name,
                    action.uid,
                    action.resource_version,
                    action.grace_period_seconds,
                    propagation,
                )

    def _succeeded(self, job: TFJob, action: Action, answer: Answer) -> Applied:
        noun, extra = NOUNS[action.kind], {"job": job.metadata.key}
        match action:
            case Create():
                if action.replica is None:
                    logger.info("created %s %s", noun, action.name, extra=extra)
            case Patch():
                logger.info("changed %s %s", noun, action.name, extra=extra)
            case Delete():
                logger.info("deleted %s %s: %s", noun, action.name, action.reason, extra=extra)
        return Applied(action, Result.DONE, warnings=answer.texts if isinstance(answer, Warned) else ())

    def _look_up(self, job: TFJob, failed: Sequence[tuple[Action, KubeError]]) -> list[Applied]:
        """Return the results of failed actions.

        If an action may have had its effect despite the failure, its object is looked up.
        """
        asked = [number for number, (action, error) in enumerate(failed) if is_open(action, error)]
        lookups = [Lookup(self._resources[failed[n][0].kind], job.metadata.namespace, failed[n][0].name) for n in asked]
        answers = dict(zip(asked, self._client.send([[lookup] for lookup in lookups]) if lookups else [], strict=True))
        return [
            self._failed(job, action, error, answers[number][0] if number in answers else None)
            for number, (action, error) in enumerate(failed)
        ]

    def _failed(self, job: TFJob, action: Action, error: KubeError, answer: Answer) -> Applied:
        """Return the result of a failed action.

        If its object was looked up, `answer` is the live object or the error of the lookup.
        """
        match action:
            case Create():
                return self._not_created(job, action, error, answer)
            case Delete():
                return self._not_deleted(job, action, error, answer)
        # The object is gone or has changed, or another object has its name. The next sync sees that in the cache.
        leaving = isinstance(error, NotFoundError | ConflictError)
        return Applied(action, Result.LEAVING) if leaving else Applied(action, Result.FAILED, error)

    def _not_created(self, job: TFJob, action: Create, error: KubeError, answer: Answer) -> Applied:
        self._cache_lag.expect_no_more(job, action)
        if not isinstance(error, AlreadyExistsError):
            return Applied(action, Result.FAILED, error)
        if isinstance(answer, NotFoundError):
            return Applied(action, Result.LEAVING)
        if not isinstance(answer, ObjectMeta):
            return Applied(action, Result.FAILED, answer if isinstance(answer, KubeError) else error)
        try:
            return found_instead(self._claims, job, self._resources[action.kind], action, answer, self._clock.now())
        except KubeError as second:
            return Applied(action, Result.FAILED, second)

    def _not_deleted(self, job: TFJob, action: Delete, error: KubeError, answer: Answer) -> Applied:
        if isinstance(error, ConflictError) and action.resource_version:
            self._cache_lag.expect_no_more(job, action)
            return Applied(action, Result.LEAVING)
        gone = was_deleted(action, error, answer)
        # The watch will report the deletion only if the cache still shows the object alive. Otherwise expect no
        # event.
        if not gone or not self._cache_lag.shows_alive(action.kind, job.metadata.namespace, action.name, action.uid):
            self._cache_lag.expect_no_more(job, action)
        return Applied(action, Result.DONE) if gone else Applied(action, Result.FAILED, error)

    def _not_done(self, job: TFJob, actions: Sequence[Action]) -> None:
        for action in actions:
            self._cache_lag.expect_no_more(job, action)


def _may_go_on(attempt: Applied) -> bool:
    """Return whether the rest of the chain may be sent after this action.

    The rest may not be sent if this action is a creation that left no object of the job, or a deletion that failed.
    """
    match attempt.action:
        case Create():
            return attempt.result in (Result.DONE, Result.OURS)
        case Delete():
            return attempt.result is Result.DONE
    return True


def _has_no_failure(applied: Sequence[Applied]) -> bool:
    return Result.FAILED not in [attempt.result for attempt in applied]
