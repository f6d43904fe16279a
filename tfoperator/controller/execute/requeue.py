"""When a job is looked at again after a sync, as one value that the sync returns. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tfoperator.controller.execute.outcome import Outcome
from tfoperator.controller.plan import Plan
from tfoperator.kube.errors import ApiError, KubeError, namespace_is_ending

_SOONEST_REPEAT = 1.0
"""Seconds until a plan's own timer may repeat a sync that failed; what is sooner is the rate limiter's business."""


class Requeue(msgspec.Struct, frozen=True):
    """When a job is looked at again.

    `at_once`: without delay. `retry`: with a delay that grows with every failure in a row, and is `at_least` so many
    seconds; without it, failures so far are forgotten. `after`: besides, when so many seconds have passed. `errors` are
    what kept the sync from doing all that it wanted.
    """

    at_once: bool = False
    retry: bool = False
    at_least: float = 0.0
    after: float | None = None
    errors: tuple[KubeError, ...] = ()


def requeue_after(plan: Plan, outcome: Outcome) -> Requeue:
    """The plan was carried out with this outcome."""
    if outcome.gone:
        return Requeue()
    if outcome.replan:
        return Requeue(at_once=True)
    after = plan.requeue_after
    undone = bool(outcome.errors) or outcome.waiting
    if after is not None and undone:
        # A plan that was not carried out as a whole must not overtake the waiting for its repetition by much.
        after = max(after, _SOONEST_REPEAT)
    if outcome.errors:
        return msgspec.structs.replace(requeue_after_errors(outcome.errors), after=after)
    return Requeue(retry=outcome.waiting, after=after)


def requeue_after_errors(errors: Sequence[KubeError]) -> Requeue:
    """These errors (one or more) kept the sync from doing all that it wanted.

    A namespace that is being deleted takes the job with it, and nothing more is done. A server's `Retry-After` is the
    least: whoever answers "in a second", or "at once", for ever is asked ever more rarely.
    """
    if all(namespace_is_ending(error) for error in errors):
        return Requeue(errors=tuple(errors))
    wishes = [one.retry_after for one in errors if isinstance(one, ApiError) and one.retry_after is not None]
    return Requeue(retry=True, at_least=max(wishes, default=0.0), errors=tuple(errors))
