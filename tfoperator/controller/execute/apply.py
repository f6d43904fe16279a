"""Carries out the actions of a plan, whatever they concern: expectations first, then API calls, never one too many.

What is to be created or deleted is expected before the first call, and what turns out not to be is expected no longer.
Nothing is decided here but how to go on when a call fails: a failed call never stops what is independent of it, and
what must be repeated is left to the next sync, which looks at the whole state again. That is what makes a crash between
any two calls harmless.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeGuard

from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import Clock
from tfoperator.controller.collaborators import PodArchive, PodWitnesses
from tfoperator.controller.execute.call_pool import CallPool
from tfoperator.controller.execute.lost_answers import was_deleted, was_refused
from tfoperator.controller.execute.name_taken import found_instead
from tfoperator.controller.execute.outcome import Applied, Result
from tfoperator.controller.execute.turns import failures_after, in_turn
from tfoperator.controller.kinds import NOUNS, ObjectKind
from tfoperator.controller.ledger import Ledger
from tfoperator.controller.plan import (
    Action,
    Create,
    Delete,
    KeepLogs,
    LookAtLog,
    Patch,
    Phase,
    PhaseName,
    TakeStacks,
)
from tfoperator.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from tfoperator.kube.objects import decode_nothing
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import ApiClient, Creation, Creator, PatchType

logger = logging.getLogger(__name__)


class ActionRunner:
    """Carries out phases of actions. Thread-safe; the caller sees to one plan per job at a time."""

    def __init__(
        self,
        client: ApiClient,
        resources: Mapping[ObjectKind, Resource],
        *,
        ledger: Ledger,
        pool: CallPool,
        clock: Clock,
        creator: Creator | None,
        archive: PodArchive | None,
        witnesses: PodWitnesses,
        plan_again: Callable[[str], None],
    ) -> None:
        """With a `creator` objects are created by it, as many as may be at a time.

        `plan_again` is called with a job's key, from another thread, when logs have been kept or looked at.
        """
        self._client = client
        self._resources = resources
        self._memory, self._cache_lag, self._claims = ledger
        self._pool = pool
        self._clock = clock
        self._creator = creator
        self._archive = archive
        self._witnesses = witnesses
        self._plan_again = plan_again

    def run(self, job: TFJob, phase: Phase, incomplete: set[PhaseName]) -> list[Applied]:
        """Carry out one phase; API errors are in the answer, not raised.

        Nothing is done, and nothing answered, if a phase that it needs is in `incomplete`. The phase joins those if
        a creation of it left nothing in place, or a deletion failed.
        """
        if not phase.needs.isdisjoint(incomplete):
            return []
        if phase.name is PhaseName.LOGS:
            return self._keep_logs(job, phase)
        if phase.name in (PhaseName.LOOKS, PhaseName.STACKS):
            return self._ask_witnesses(job, phase)
        self._cache_lag.expect(job, phase.actions)
        failed = self._memory.failed(job.metadata.uid) if phase.slow_start else {}
        chains = in_turn(phase.chains, failed)
        run = partial(self._run_chains, job)
        try:
            if phase.slow_start:
                results = self._pool.in_growing_batches(chains, run, ok=_has_no_failure)
                done, skipped = results.done, results.skipped
            else:
                done, skipped = run(chains), range(0)
        except BaseException:
            self._cache_lag.forget_creations(job, phase.actions)
            raise
        for position in skipped:
            self._not_done(job, chains[position])
        applied = [one for chain in done for one in chain]
        if phase.slow_start and (failed or not _has_no_failure(applied)):
            failures = [chain for chain, one in zip(chains, done, strict=False) if not _has_no_failure(one)]
            self._memory.note_failed(job.metadata.uid, failures_after(failed, chains, failures))
        if skipped or any(True for one in applied if not _may_go_on(one)):
            incomplete.add(phase.name)
        return applied

    def _run_chains(self, job: TFJob, chains: Sequence[Sequence[Action]]) -> list[list[Applied]]:
        """What became of the actions of each chain; the chains are carried out beside each other."""
        # A single chain is the most frequent case: it costs no change of threads.
        if self._creator is None or len(chains) == 1 or not _only_create(chains):
            return self._pool.all([partial(self._run_chain, job, chain) for chain in chains])
        namespace = job.metadata.namespace
        sent = self._creator.create_chains(
            [[Creation(self._resources[one.kind], namespace, one.body) for one in chain] for chain in chains]
        )
        created = [
            [action for action, error in zip(chain, errors, strict=False) if error is None]
            for chain, errors in zip(chains, sent, strict=True)
        ]
        self._note_created(job, [action for chain in created for action in chain])
        done = [[Applied(action, Result.DONE) for action in chain] for chain in created]
        failed = [position for position, errors in enumerate(sent) if errors[-1] is not None]
        rest = [partial(self._go_on, job, chains[position], sent[position]) for position in failed]
        for position, applied in zip(failed, self._pool.all(rest), strict=True):
            done[position] += applied
        return done

    def _go_on(self, job: TFJob, chain: Sequence[Create], errors: Sequence[KubeError | None]) -> list[Applied]:
        """What becomes of a chain from the creation on that has failed."""
        *done, error = errors
        assert error is not None
        failed = self._not_created(job, chain[len(done)], error)
        rest = chain[len(errors) :]
        if _may_go_on(failed):
            return [failed, *self._run_chain(job, rest)]
        self._not_done(job, rest)
        return [failed]

    def _run_chain(self, job: TFJob, chain: Sequence[Action]) -> list[Applied]:
        """What became of each, up to the first that what follows can't do without."""
        applied: list[Applied] = []
        for position, action in enumerate(chain):
            one = self._carry_out(job, action)
            applied.append(one)
            if not _may_go_on(one):
                self._not_done(job, chain[position + 1 :])
                break
        return applied

    def _not_done(self, job: TFJob, actions: Sequence[Action]) -> None:
        for action in actions:
            self._cache_lag.expect_no_more(job, action)

    def _carry_out(self, job: TFJob, action: Action) -> Applied:
        match action:
            case Create():
                return self._create(job, action)
            case Patch():
                return self._patch(job, action)
            case Delete():
                return self._delete(job, action)
            case KeepLogs() | LookAtLog() | TakeStacks():  # which have phases of their own
                return Applied(action, Result.DONE)

    def _create(self, job: TFJob, action: Create) -> Applied:
        try:
            self._client.create(self._resources[action.kind], job.metadata.namespace, action.body, decode_nothing)
        except KubeError as error:
            return self._not_created(job, action, error)
        self._note_created(job, (action,))
        return Applied(action, Result.DONE)

    def _not_created(self, job: TFJob, action: Create, error: KubeError) -> Applied:
        self._cache_lag.expect_no_more(job, action)
        if not was_refused(error):
            self._cache_lag.may_exist(job, (action,))
        if not isinstance(error, AlreadyExistsError):
            return Applied(action, Result.FAILED, error)
        resource, now = self._resources[action.kind], self._clock.now()
        try:
            return found_instead(self._client, self._claims, job, resource, action, now)
        except KubeError as second:
            return Applied(action, Result.FAILED, second)

    def _note_created(self, job: TFJob, actions: Sequence[Create]) -> None:
        self._cache_lag.may_exist(job, actions)
        for action in actions:
            if action.replica is None:
                logger.info("created %s %s", NOUNS[action.kind], action.name, extra={"job": job.metadata.key})

    def _patch(self, job: TFJob, action: Patch) -> Applied:
        metadata = {**action.body.get("metadata", {}), "uid": action.uid}
        body = {**action.body, "metadata": metadata}
        resource = self._resources[action.kind]
        patch_type = PatchType.STRATEGIC if action.strategic else PatchType.MERGE
        try:
            self._client.patch(
                resource, job.metadata.namespace, action.name, body, decode_nothing, patch_type=patch_type
            )
        except (NotFoundError, ConflictError):
            # It is gone or has changed, or another object has its name: the cache will show it.
            return Applied(action, Result.LEAVING)
        except KubeError as error:
            return Applied(action, Result.FAILED, error)
        logger.info("changed %s %s", NOUNS[action.kind], action.name, extra={"job": job.metadata.key})
        return Applied(action, Result.DONE)

    def _delete(self, job: TFJob, action: Delete) -> Applied:
        kind, name, uid = action.kind, action.name, action.uid
        resource, namespace = self._resources[kind], job.metadata.namespace
        try:
            self._client.delete(
                resource,
                namespace,
                name,
                uid=uid,
                resource_version=action.resource_version,
                grace_period_seconds=action.grace_period_seconds,
                # What a job or a deployment owns goes with it, and not before it.
                propagation_policy="Background" if kind in ("tfjobs", "deployments") else "",
            )
        except KubeError as error:
            if isinstance(error, ConflictError) and action.resource_version:
                self._cache_lag.expect_no_more(job, action)
                return Applied(action, Result.LEAVING)
            gone = was_deleted(self._client, resource, namespace, name, uid, error)
            # Of what is gone and still in the cache the watch will tell; of anything else nothing is to be expected.
            if not gone or not self._cache_lag.shows_alive(kind, namespace, name, uid):
                self._cache_lag.expect_no_more(job, action)
            return Applied(action, Result.DONE) if gone else Applied(action, Result.FAILED, error)
        logger.info("deleted %s %s: %s", NOUNS[kind], name, action.reason, extra={"job": job.metadata.key})
        return Applied(action, Result.DONE)

    def _keep_logs(self, job: TFJob, phase: Phase) -> list[Applied]:
        if self._archive is not None:
            pods = [action.pod for action in phase.actions if isinstance(action, KeepLogs)]
            self._archive.keep(job.metadata, pods, partial(self._plan_again, job.metadata.key))
        return []

    def _ask_witnesses(self, job: TFJob, phase: Phase) -> list[Applied]:
        done = partial(self._plan_again, job.metadata.key)
        looks = [action for action in phase.actions if isinstance(action, LookAtLog)]
        stacks = [action.pod for action in phase.actions if isinstance(action, TakeStacks)]
        if looks and self._witnesses.logs is not None:
            pods = [action.pod for action in looks]
            self._witnesses.logs.look(job.metadata, pods, looks[0].newer_than, done)
        if stacks and self._witnesses.stacks is not None:
            self._witnesses.stacks.take(job.metadata, stacks, done)
        return []


def _only_create(chains: Sequence[Sequence[Action]]) -> TypeGuard[Sequence[Sequence[Create]]]:
    """Whether each of the chains is made of creations, and of nothing else."""
    return all(chains) and not any(True for chain in chains for action in chain if not isinstance(action, Create))


def _may_go_on(one: Applied) -> bool:
    """Whether what follows may rely on it: not if a creation left nothing of the job's there, or a deletion failed."""
    match one.action:
        case Create():
            return one.result in (Result.DONE, Result.OURS)
        case Delete():
            return one.result is Result.DONE
    return True


def _has_no_failure(applied: Sequence[Applied]) -> bool:
    return Result.FAILED not in [one.result for one in applied]
