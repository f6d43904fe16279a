"""What became of each action of a plan, of the plan as a whole, and when the job is looked at again. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TypeGuard

import msgspec

from tfoperator.controller.plan import Action, Plan
from tfoperator.kube.errors import (
    ApiError,
    BadRequestError,
    ForbiddenError,
    InvalidError,
    KubeError,
    namespace_is_ending,
)

_UNREADABLE = "cannot be handled as a"
"""What API servers answer, with 400, to an object that their types can't hold: a string where a list belongs, a
quantity that is none. Admission webhooks deny with 400, too, in words of their own, and may think better of it."""

_DENIED = ("denied the request", "denied request")
"""What API servers say of an admission webhook and of a ValidatingAdmissionPolicy that deny, whatever code those give
(a policy without a reason of its own gives 422 Invalid). They may think better of it."""

_SOONEST_REPEAT = 1.0
"""Seconds until a plan's own timer may repeat a sync that failed; what is sooner is the rate limiter's business."""


class AlreadyReported(KubeError):
    """Something that is tried again and again, and of whose failure the job's owner has been told by an event."""


class NameTaken(AlreadyReported):
    """A name that the job needs belongs to a foreign object, so the replica (or TensorBoard) has to wait."""


class Result(Enum):
    """What became of an action."""

    DONE = "it was carried out"
    FAILED = "the API server refused it, or did not answer"
    OURS = "the object of that name is controlled by this job, or is now"
    LEAVING = "the object of that name is being deleted, or gone by now, or about to be, or has changed"
    FOREIGN = "the object of that name is not the job's"


class Applied(msgspec.Struct, frozen=True):
    """An action and what became of it. `error` is set for FAILED, `message` (for people) for FOREIGN.

    A LEAVING has a `message` if it takes too long.
    """

    action: Action
    result: Result
    error: KubeError | None = None
    message: str = ""


class Outcome(msgspec.Struct):
    """How the execution went, as far as it matters for what happens next to the job.

    `errors` are to be repeated with growing delays, `waiting` says that something is in the way that goes away by
    itself, `refused` is what the API server will never accept of this spec, `replan` that the next plan will take that
    into account, and `gone` that there is no such job any more.
    """

    errors: list[KubeError] = []
    waiting: bool = False
    refused: str = ""
    replan: bool = False
    gone: bool = False


def is_final(error: object) -> TypeGuard[InvalidError | BadRequestError]:
    """Whether the API server says that it will never accept what it was sent, however often it is asked.

    Its own validation names the fields that it complains of.
    """
    if isinstance(error, InvalidError):
        denied = any(words in error.status.message for words in _DENIED)
        return not denied and any(cause.field for cause in error.causes)
    return isinstance(error, BadRequestError) and _UNREADABLE in str(error)


def is_refusal(error: object) -> bool:
    """Whether the API server, or a policy, understood a request and does not want it, now or for ever."""
    return isinstance(error, InvalidError | ForbiddenError) or is_final(error)


def refusal(field: str, what: str, error: InvalidError | BadRequestError) -> str:
    """What `Outcome.refused` says: the job's field to blame, the object that was refused, and the server's words."""
    causes = error.causes if isinstance(error, InvalidError) else ()
    words = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
    return f"{field}: the API server refuses the {what}: {words or error.status.message}"


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
