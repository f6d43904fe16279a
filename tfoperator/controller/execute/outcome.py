"""The result of each action and of the whole plan, and the time of the job's next sync. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TypeGuard

import msgspec

from tfoperator.controller.plan.values.actions import Action, Plan
from tfoperator.kube.protocol.errors import (
    ApiError,
    BadRequestError,
    ForbiddenError,
    InvalidError,
    KubeError,
    namespace_is_ending,
)

_UNREADABLE_TEXT = "cannot be handled as a"
"""Part of the API server's message (code 400) about an object that does not fit its types, for example a string instead
of a list, or an invalid quantity. Admission webhooks can also deny with code 400, but with their own messages, and they
may accept the object later.
"""

_DENIAL_TEXTS = ("denied the request", "denied request")
"""Parts of the API server's message about a denial by an admission webhook or a ValidatingAdmissionPolicy, with any
code (a policy without a reason gives 422 Invalid). Both may accept the object later.
"""

_SOONEST_REPEAT = 1.0
"""After a sync with failed actions, `Plan.requeue_after` counts as at least this many seconds: only the rate limiter of
the queue decides whether the sync is retried earlier.
"""


class AlreadyReported(KubeError):
    """An error that is retried, and about which an event of the job was already sent."""


class NameTaken(AlreadyReported):
    """A foreign object has the name that an object of the job needs, so the replica (or TensorBoard) must wait."""


class Result(Enum):
    """The result of an action."""

    DONE = "the action was carried out"
    FAILED = "the API server refused the action, or did not answer"
    OURS = "the existing object with this name is controlled by this job"
    LEAVING = "the existing object with this name is being deleted, is already gone, or has changed"
    FOREIGN = "the existing object with this name does not belong to the job"


class Applied(msgspec.Struct, frozen=True):
    """An action and its result. FAILED has an `error`, and FOREIGN has a `message` for people.

    LEAVING has a `message` if the deletion takes too long. DONE has the `warnings` from the API server.
    """

    action: Action
    result: Result
    error: KubeError | None = None
    message: str = ""
    warnings: tuple[str, ...] = ()


class Outcome(msgspec.Struct):
    """The result of executing a plan, as far as the time and the content of the next sync depend on it."""

    errors: list[KubeError] = []
    """The errors after which the sync is repeated, with growing delays."""

    waiting: bool = False
    """Whether the sync is repeated because of an obstacle that will disappear by itself."""

    refused: str = ""
    """The field of the job that the API server will never accept, and the server's message; "" without such a field."""

    replan: bool = False
    """Whether a new plan is needed at once, because of `refused`."""

    gone: bool = False
    """Whether the job no longer exists."""


def is_final(error: object) -> TypeGuard[InvalidError | BadRequestError]:
    """Return whether the error means that the API server will never accept this request, however often it is sent.

    Such an error comes from the server's own validation, which names the invalid fields.
    """
    if isinstance(error, InvalidError):
        denied = any(words in error.status.message for words in _DENIAL_TEXTS)
        return not denied and any(cause.field for cause in error.causes)
    return isinstance(error, BadRequestError) and _UNREADABLE_TEXT in str(error)


def is_refusal(error: object) -> bool:
    """Return whether the API server, or a policy, understood a request and rejected it, temporarily or for good."""
    return isinstance(error, InvalidError | ForbiddenError) or is_final(error)


def refusal(field: str, what: str, error: InvalidError | BadRequestError) -> str:
    """Return an entry for `Outcome.refused`: the job's field, the refused object, and the server's message."""
    causes = error.causes if isinstance(error, InvalidError) else ()
    words = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
    return f"{field}: the API server refuses the {what}: {words or error.status.message}"


class Requeue(msgspec.Struct, frozen=True):
    """The time of a job's next sync. Several members may be set: then there are several syncs."""

    at_once: bool = False
    """Whether a sync comes without a delay."""

    retry: bool = False
    """Whether a sync comes after a delay that grows with every failure in a row.

    If it is false, the next delay is short again.
    """

    at_least: float = 0.0
    """The minimum of the delay of `retry`, in seconds."""

    after: float | None = None
    """The number of seconds after which there is a sync; None for no such sync."""

    errors: tuple[KubeError, ...] = ()
    """The errors that kept the present sync from completing."""


def requeue_after(plan: Plan, outcome: Outcome) -> Requeue:
    """Return when to sync again after the plan was executed with this outcome."""
    if outcome.gone:
        return Requeue()
    if outcome.replan:
        return Requeue(at_once=True)
    after = plan.requeue_after
    undone = bool(outcome.errors) or outcome.waiting
    if after is not None and undone:
        # A plan that was only partly carried out must not start much earlier than its retry.
        after = max(after, _SOONEST_REPEAT)
    if outcome.errors:
        return msgspec.structs.replace(requeue_after_errors(outcome.errors), after=after)
    return Requeue(retry=outcome.waiting, after=after)


def requeue_after_errors(errors: Sequence[KubeError]) -> Requeue:
    """Return when to sync again after these errors (one or more) kept the sync from completing.

    If the job's namespace is being deleted, the job is deleted, too, so there is no further sync. A server's
    `Retry-After` is only a minimum: even if a server always answers "in a second" or "at once", the requests become
    less and less frequent.
    """
    if all(namespace_is_ending(error) for error in errors):
        return Requeue(errors=tuple(errors))
    wishes = [error.retry_after for error in errors if isinstance(error, ApiError) and error.retry_after is not None]
    return Requeue(retry=True, at_least=max(wishes, default=0.0), errors=tuple(errors))
