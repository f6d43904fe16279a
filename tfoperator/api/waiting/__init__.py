"""The reason why a replica does not run, with a next step: said once, for the condition, `describe`, the page, reports.

`why_it_waits` is the one function from a replica's pod, and the API server's refusal to create it, to a `Reason`.
Texts change only with the reason: a condition that contained the numbers of a scheduler's attempt, or the time of a
retry, would cost a status write at each of them.
"""

from tfoperator.api.waiting.pods import look_again, why_it_waits
from tfoperator.api.waiting.reason import Reason, ReasonKind, is_refusal_text, reasons_in, summary
from tfoperator.api.waiting.refusals import refused_because_taken, refused_by, same_words
from tfoperator.api.waiting.scheduling import unschedulable_reasons

__all__ = [
    "Reason",
    "ReasonKind",
    "is_refusal_text",
    "look_again",
    "reasons_in",
    "refused_because_taken",
    "refused_by",
    "same_words",
    "summary",
    "unschedulable_reasons",
    "why_it_waits",
]
