"""Finds the reason why a replica does not run, and the next step.

The condition, `describe`, the page and reports show the same reason. The function `why_it_waits` turns a replica's pod,
or the API server's refusal to create the pod, into a `Reason`. The text of a `Reason` changes only when the cause
changes. If a condition contained the numbers of a scheduler's attempt, or the time of a retry, then each attempt and
each retry would cost a write of the status.
"""

from tfoperator.api.waiting.pods import look_again, why_it_waits
from tfoperator.api.waiting.reason import (
    REFUSALS,
    Reason,
    ReasonKind,
    about_job,
    reason_of,
    reasons_of,
    text_of,
    waiting_for,
)
from tfoperator.api.waiting.refusals import refused_because_taken, refused_by, same_words
from tfoperator.api.waiting.scheduling import unschedulable_reasons

__all__ = [
    "REFUSALS",
    "Reason",
    "ReasonKind",
    "about_job",
    "look_again",
    "reason_of",
    "reasons_of",
    "refused_because_taken",
    "refused_by",
    "same_words",
    "text_of",
    "unschedulable_reasons",
    "waiting_for",
    "why_it_waits",
]
