"""How the execution of a plan went: all that the executors of its parts have to tell whoever asked for it."""

from __future__ import annotations

from typing import TypeGuard

import msgspec

from tfoperator.kube.errors import BadRequestError, InvalidError, KubeError

__all__ = ["Outcome", "is_final", "refusal"]

_UNREADABLE = "cannot be handled as a"
"""What API servers answer, with 400, to an object that their types can't hold: a string where a list belongs, a
quantity that is none. Admission webhooks deny with 400, too, in words of their own, and may think better of it."""


class Outcome(msgspec.Struct):
    """How the execution went, as far as it matters for what happens next to the job.

    `errors` are to be repeated with growing delays, `waiting` says that something is in the way that goes away by
    itself, `refused` is what the API server will never accept of this spec, `gone` that there is no such job any more.
    `recorded`: the API server has the plan's status.
    """

    errors: list[KubeError] = []
    waiting: bool = False
    refused: str = ""
    gone: bool = False
    recorded: bool = False


def is_final(error: object) -> TypeGuard[InvalidError | BadRequestError]:
    """Whether the API server says that it will never accept what it was sent, however often it is asked."""
    return isinstance(error, InvalidError) or (isinstance(error, BadRequestError) and _UNREADABLE in str(error))


def refusal(field: str, what: str, error: InvalidError | BadRequestError) -> str:
    """What `Outcome.refused` says: the job's field to blame, the object that was refused, and the server's words."""
    causes = error.causes if isinstance(error, InvalidError) else ()
    words = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
    return f"{field}: the API server refuses the {what}: {words or error.status.message}"
