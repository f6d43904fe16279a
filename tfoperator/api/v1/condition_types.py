"""The conditions of a TFJob: each is declared once, with its type and its traits.

All other facts about conditions are derived from these traits. To add a condition, add a row to `ConditionType`, run
`python hack/generate.py` (it writes docs/conditions.md), and let a rule of the plan set the condition (with the
function `observation`). The row also declares the reasons that no other condition has.

The defaults of `ConditionTraits` fit a condition that is only an observation about a job that has not ended. Such a
condition is in `operatorConditions`, which other clients don't read. It never replaces the job's state. It is false
after the job has ended, and while the job is suspended or waits in a queue.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple, NewType

import msgspec

from tfoperator.base.words import Word


class Fate(StrEnum):
    """The change of a condition when its job ends, or when its job is suspended or waits in a queue."""

    FALSE = "becomes false"
    REMOVED = "is removed"
    STAYS = "stays"


class Concern(IntEnum):
    """How much a person must care about a true condition."""

    NONE = 0
    """The condition needs no attention: nothing is wrong, or the job's state already shows the problem."""

    NOTICE = 1
    """The job continues, but not as well as it could."""

    ALARM = 2
    """The job loses time or work. An alarm is shown before notices, the page shows it in red, and the report explains
    it.
    """


OwnReason = NewType("OwnReason", str)
"""A reason that only one condition can have: the row of this condition declares it."""


class DeclaredReason(NamedTuple):
    """A reason that only one condition can have. `meaning` is a statement about the job, for docs/conditions.md."""

    word: str
    meaning: str


class ConditionTraits(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a type of condition.

    `meaning` completes the sentence "It is true while ..." or "once ...", and is in docs/conditions.md.

    `is_peers`: the Go operator has the type, too. These types are in `status.conditions`, which other clients
    interpret. Each of these types can be the job's state. All other types are in `status.operatorConditions`.

    `concern`: if a condition needs attention, and the Go operator lacks its type, the condition is shown instead of
    `Running` while the condition is true.

    `at_end` is the change of the condition when the job ends. `while_held` is its change when the job is suspended or
    waits in a queue. A condition that becomes false at the end describes a job that has not ended: the condition is
    Unknown while the operator can't read the job's spec.

    `is_news`: `tfoperator run` prints a line when the condition becomes true.

    `when_true` and `when_false` are the reasons of the condition with the status True and False. They are set only if
    the condition has a single reason for this status, and shares it with no other condition. All other reasons are in
    `JobReason` (reasons.py).
    """

    meaning: str
    is_peers: bool = False
    concern: Concern = Concern.NONE
    at_end: Fate = Fate.FALSE
    while_held: Fate = Fate.FALSE
    is_news: bool = True
    when_true: DeclaredReason | None = None
    when_false: DeclaredReason | None = None

    @property
    def own_reasons(self) -> tuple[DeclaredReason, ...]:
        """The reasons `when_true` and `when_false`, if they are set."""
        return tuple(reason for reason in (self.when_true, self.when_false) if reason is not None)


class ConditionType(Word):
    """The types of conditions of a TFJob.

    The job's state is the last true type in this order, among the types that the Go operator also has.
    """

    traits: ConditionTraits

    CREATED = (
        "Created",
        ConditionTraits(
            meaning="once the operator has read the job for the first time. If the job does not run, the "
            "message of `Running` names the reason",
            is_peers=True,
            at_end=Fate.STAYS,
            while_held=Fate.STAYS,
            is_news=False,
        ),
    )
    RUNNING = (
        "Running",
        ConditionTraits(
            meaning="while the chief runs, or, if the job has no chief, while a worker runs. The message shows the "
            "number of replicas that are ready, and the reasons why other replicas wait. Unknown: an edit has made "
            "the spec invalid",
            is_peers=True,
        ),
    )
    READY = (
        "Ready",
        ConditionTraits(
            meaning="while every replica is ready or has succeeded",
            is_news=False,
            when_true=DeclaredReason("TFJobReady", "All replicas are ready or have succeeded."),
            when_false=DeclaredReason("TFJobNotReady", "A replica is not ready any more."),
        ),
    )
    DATA_SERVICE_READY = (
        "DataServiceReady",
        ConditionTraits(
            meaning="while the dispatcher and all data workers of the job's data service are ready. The message shows "
            "why pods that are not ready wait",
            is_news=False,
            when_true=DeclaredReason("DataServiceReady", "The dispatcher and all data workers are ready."),
            when_false=DeclaredReason(
                "DataServiceNotReady", "The dispatcher or a data worker is not ready; the job continues."
            ),
        ),
    )
    RESTARTING = (
        "Restarting",
        ConditionTraits(
            meaning="while a replica waits for its new pod after a failure, a disruption, or a change of the number of "
            "workers",
            is_peers=True,
            while_held=Fate.REMOVED,
        ),
    )
    STALLED = (
        "Stalled",
        ConditionTraits(
            meaning="while the job has made no progress for `progressDeadlineSeconds`. Unknown: neither reports nor "
            "logs show whether the job makes progress",
            concern=Concern.ALARM,
        ),
    )
    STRAGGLING = (
        "Straggling",
        ConditionTraits(
            meaning="while the steps of a replica take much longer than the steps of other replicas of its type",
            concern=Concern.NOTICE,
            when_true=DeclaredReason("SlowReplica", "The replicas that the message names are slow."),
            when_false=DeclaredReason("NoSlowReplica", "Every replica is as fast as the others of its type again."),
        ),
    )
    DIVERGED = (
        "Diverged",
        ConditionTraits(
            meaning="once the loss was not a number in ten reports in a row, until a report has a loss that is a "
            "number. The condition stays true when the job ends, because the trained model is not usable",
            concern=Concern.ALARM,
            at_end=Fate.STAYS,
            while_held=Fate.STAYS,
            when_false=DeclaredReason("LossIsANumber", "The loss is a number again."),
        ),
    )
    SUSPENDED = (
        "Suspended",
        ConditionTraits(
            meaning="while `runPolicy.suspend` is true, and then until all old pods are gone",
            is_peers=True,
            at_end=Fate.STAYS,
            while_held=Fate.STAYS,
        ),
    )
    ADMITTED = (
        "Admitted",
        ConditionTraits(
            meaning="while a job in a queue of Kueue has its quota. False: the job waits in the queue",
            at_end=Fate.STAYS,
        ),
    )
    SUCCEEDED = (
        "Succeeded",
        ConditionTraits(
            meaning="once the job has met its success policy; this condition does not change any more",
            is_peers=True,
            at_end=Fate.STAYS,
            while_held=Fate.STAYS,
        ),
    )
    FAILED = (
        "Failed",
        ConditionTraits(
            meaning="once the job has failed for good; this condition does not change any more",
            is_peers=True,
            concern=Concern.ALARM,
            at_end=Fate.STAYS,
            while_held=Fate.STAYS,
        ),
    )


PEER_CONDITIONS = frozenset(condition for condition in ConditionType if condition.traits.is_peers)
"""The types of conditions that the Go operator also has: `status.conditions` has only these types."""

TROUBLES = tuple(
    sorted(
        (condition for condition in ConditionType if condition.traits.concern and not condition.traits.is_peers),
        key=lambda condition: -condition.traits.concern,
    )
)
"""The condition types that are shown instead of `Running` while they are true, the most serious first."""

PASSING_CONDITIONS = tuple(condition for condition in ConditionType if condition.traits.at_end is Fate.FALSE)
"""The condition types for jobs that have not ended: they become false when the job ends."""
