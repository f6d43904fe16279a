"""The reasons why objects of replicas could not be created. The operator keeps these reasons between attempts. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tfoperator.api.waiting import Reason, refused_because_taken, refused_by, same_words
from tfoperator.controller.execute.outcome import Applied, Result
from tfoperator.controller.kinds import NOUNS
from tfoperator.controller.plan.values.actions import Create
from tfoperator.controller.plan.values.observed import Refusals


def refusals_after(before: Refusals, applied: Sequence[Applied]) -> Refusals:
    """Return the reasons why objects can't be created, after these actions. An object that exists now has no reason.

    If a reason differs from the earlier reason only in numbers or ids, the earlier reason stays. An error that does not
    concern the request itself, such as an outage, changes no reason.
    """
    after = dict(before)
    for attempt in applied:
        action = attempt.action
        if not isinstance(action, Create) or not action.required or action.kind == "tfjobs":
            continue
        key = action.kind if action.replica is None else action.replica
        if attempt.result in (Result.DONE, Result.OURS) or (attempt.result is Result.LEAVING and not attempt.message):
            after.pop(key, None)
        elif (reason := _reason(attempt, action)) is not None:
            reason_before = before.get(key)
            after[key] = reason_before if reason_before is not None and same_words(reason_before, reason) else reason
    return after


def _reason(attempt: Applied, action: Create) -> Reason | None:
    if attempt.message:
        return refused_because_taken(attempt.message, leaves=attempt.result is Result.LEAVING)
    return None if attempt.error is None else refused_by(NOUNS[action.kind], attempt.error)
