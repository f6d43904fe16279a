"""How the execution of a plan went: all that the executors of its parts have to tell whoever asked for it."""

from __future__ import annotations

import msgspec

from tfoperator.kube.errors import InvalidError, KubeError

__all__ = ["Outcome", "refusal"]


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


def refusal(field: str, what: str, error: InvalidError) -> str:
    """What `Outcome.refused` says: the job's field to blame, the object that was refused, and the server's words."""
    causes = "; ".join(f"{cause.field}: {cause.message}" for cause in error.causes)
    return f"{field}: the API server refuses the {what}: {causes or error.status.message}"
