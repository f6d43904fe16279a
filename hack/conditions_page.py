"""docs/conditions.md: each condition, reason, event and column of a TFJob, as the package's tables declare them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tfoperator.api.schema.crd import PRINTER_COLUMNS
from tfoperator.api.v1.condition_types import TROUBLES, ConditionType
from tfoperator.api.v1.reasons import JobReason

_HEAD = """\
<!-- Made by hack/generate.py from the tables in tfoperator/api; change those instead. -->
# Conditions, events and columns

The words by which a TFJob shows what it does. [The states of a job](tfjob.md#the-states-of-a-job) compares them with
the Go operator's, [messages](messages.md) explains messages.

## Conditions

`status.conditions` has the Go operator's types and no others, since foreign clients interpret each type that they find
there. The last condition of the list is true. Our own types are in `status.operatorConditions`, with the same fields
([what Helm, Flux and Argo CD see](gitops.md#conditions)). A condition that the job never had is absent. A job is *held*
while it is suspended, or waits in its queue.
"""

_STATE = """
`tfoperator get` and `describe`, the page, Python and notebooks show one word for the state: `Terminating`; how the job
has ended; or else the true condition of `status.conditions` that stands last in the table. In the place of `Running`
they show what troubles the job: {troubles}, or
`CrashLoopBackOff` of a replica; of several, the first in this order. `kubectl get` shows the last condition of
`status.conditions`.
"""

_REASONS = """
## Reasons of conditions

`reason` is one word for programs, `message` a sentence for people. `Admitted` has the words of Kueue.
"""

_EVENTS = """
## Events

Events about the job: `kubectl describe tfjob` and `tfoperator events` show them. A Warning is worth a look.
"""

_COLUMNS = """
## Columns of kubectl

`kubectl get tfjobs` has the columns without a mark, `-o wide` all of them.
"""


def conditions_markdown() -> str:
    """Return the text of the page."""
    troubles = ", ".join(f"`{trouble}`" for trouble in TROUBLES)
    parts = (
        _HEAD,
        _table(("condition", "in `status`", "is true", "when the job is held", "when it has ended"), _conditions()),
        _STATE.format(troubles=troubles),
        _REASONS,
        _table(("reason", "conditions", "meaning"), _reasons()),
        _EVENTS,
        _table(("reason", "type", "meaning"), _events()),
        _COLUMNS,
        _table(("column", "shows", "path", ""), _columns()),
    )
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _conditions() -> Iterator[Sequence[str]]:
    for kind in ConditionType:
        traits = kind.traits
        place = "`conditions`" if traits.is_peers else "`operatorConditions`"
        yield f"`{kind}`", place, traits.meaning, str(traits.while_held), str(traits.at_end)


def _reasons() -> Iterator[Sequence[str]]:
    for kind in ConditionType:
        for own in kind.traits.own_reasons:
            yield f"`{own.word}`", f"`{kind}`", own.meaning
    for reason in JobReason:
        conditions = dict.fromkeys(reason.traits.conditions)
        if conditions:
            yield f"`{reason}`", ", ".join(f"`{condition}`" for condition in conditions), reason.traits.meaning


def _events() -> Iterator[Sequence[str]]:
    for reason in JobReason:
        if reason.traits.event is not None:
            yield f"`{reason}`", reason.traits.event, reason.traits.meaning


def _columns() -> Iterator[Sequence[str]]:
    for column in PRINTER_COLUMNS:
        path = column.path.replace("|", "\\|")
        yield column.name, column.description or "-", f"`{path}`", "`-o wide`" if column.wide else ""


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
