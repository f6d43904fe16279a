"""What became of each action of a plan, and of the plan as a whole."""

from __future__ import annotations

from enum import Enum
from typing import TypeGuard

import msgspec

from tfoperator.controller.plan import Action
from tfoperator.kube.errors import BadRequestError, ForbiddenError, InvalidError, KubeError

_UNREADABLE = "cannot be handled as a"
"""What API servers answer, with 400, to an object that their types can't hold: a string where a list belongs, a
quantity that is none. Admission webhooks deny with 400, too, in words of their own, and may think better of it."""

_DENIED = ("denied the request", "denied request")
"""What API servers say of an admission webhook and of a ValidatingAdmissionPolicy that deny, whatever code those give
(a policy without a reason of its own gives 422 Invalid). They may think better of it."""


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
