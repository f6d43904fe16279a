"""Why a replica does not run, as a value; and the reasons of many replicas as a part of the status and as text.

`status.waiting` has an entry for each reason, with the replicas that wait for it. The condition Running has the same
entries as text: `Worker-1 waits: REASON; PS-0 and PS-1 wait: REASON`. Programs read the entries, and people the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from tfoperator.api.v1.status import WaitingReplicas, format_indexes, parse_indexes

NOT_PULLED = "can't be pulled"
"""A statement about an image ends with this text if the cause is not known; if the cause is known, more
text follows.
"""

MAX_WORDS = 240
"""The maximum number of characters of another program's words in a reason."""

_MAX_REASONS = 8
"""The maximum number of entries for reasons of replicas. MAX_WAITING_ENTRIES also has room for one entry about all
remaining replicas, and for four entries about the whole job.
"""
_MAX_NAMES = 8
_MAX_RANGES = 20


class ReasonKind(StrEnum):
    """The kind of a reason; in most cases the text of the reason begins with it.

    If the kubelet has a word for the reason, the kind is that word.
    """

    QUOTA = "QuotaExceeded"
    LIMIT_RANGE = "LimitRange"
    POD_SECURITY = "PodSecurity"
    DENIED = "AdmissionDenied"
    WEBHOOK_FAILS = "WebhookFails"
    NO_SERVICE_ACCOUNT = "NoServiceAccount"
    NO_PRIORITY_CLASS = "NoPriorityClass"
    NO_RUNTIME_CLASS = "NoRuntimeClass"
    NO_RIGHTS = "OperatorHasNoRight"
    NAME_TAKEN = "NameTaken"
    NAME_LEAVING = "NameNotFreeYet"
    REFUSED = "CreationRefused"
    UNSCHEDULABLE = "Unschedulable"
    GATED = "SchedulingGated"
    CONFIG = "CreateContainerConfigError"
    IMAGE_NAME = "InvalidImageName"
    IMAGE = "ImagePullBackOff"
    CRASHES = "CrashLoopBackOff"
    INIT_RUNS = "InitContainerRuns"
    PREPARED = "PodIsPrepared"
    NODE_SILENT = "NodeDoesNotAnswer"
    NODE_LOST = "NodeLost"
    RESTARTS = "Restarts"
    GANG = "GangWaits"
    NO_LEADER = "NoLeader"
    OLD_PODS = "OldPodsTerminate"
    NO_TOPOLOGY = "NoTopology"
    FEWER_WORKERS = "FewerWorkers"
    OTHER = "Other"
    """A reason for which the kubelet has a word that is not in this list; its text begins with that word."""

    @property
    def is_in_text(self) -> bool:
        """Whether the text of a reason begins with the name of its kind.

        For some kinds, the message is clear without the name.
        """
        return self not in _NOT_IN_TEXT


_NOT_IN_TEXT = frozenset(
    {
        ReasonKind.RESTARTS,
        ReasonKind.GANG,
        ReasonKind.NO_LEADER,
        ReasonKind.OLD_PODS,
        ReasonKind.NO_TOPOLOGY,
        ReasonKind.FEWER_WORKERS,
        ReasonKind.OTHER,
    }
)

_KINDS = frozenset(ReasonKind)

REFUSALS = frozenset(
    {
        ReasonKind.QUOTA,
        ReasonKind.LIMIT_RANGE,
        ReasonKind.POD_SECURITY,
        ReasonKind.DENIED,
        ReasonKind.WEBHOOK_FAILS,
        ReasonKind.NO_SERVICE_ACCOUNT,
        ReasonKind.NO_PRIORITY_CLASS,
        ReasonKind.NO_RUNTIME_CLASS,
        ReasonKind.NO_RIGHTS,
        ReasonKind.NAME_TAKEN,
        ReasonKind.NAME_LEAVING,
        ReasonKind.REFUSED,
    }
)
"""The kinds of reasons why an object of a replica could not be created."""


class Reason(msgspec.Struct, frozen=True):
    """The reason why a replica does not run.

    - `message`: a statement.
    - `next_step`: an instruction for the reader. It is empty if nothing helps.
    - `since`: the time at which the reason began, if the time is known and useful.
    - `detail`: another program's words, which change at each attempt. They are for a person who reads them now, and not
      for a condition.
    - `container`: the container that the reason concerns, for example "init container fetch"; empty for the container
      `tensorflow`.

    `message` and `next_step` have no semicolon, because a semicolon separates the reasons in a condition.
    """

    kind: ReasonKind
    message: str
    next_step: str = ""
    since: datetime | None = None
    detail: str = ""
    container: str = ""

    def in_full(self) -> str:
        """Return the text with the detail."""
        message = f'{self.message} ("{self.detail}")' if self.detail else self.message
        return str(msgspec.structs.replace(self, message=message))

    def __str__(self) -> str:
        """Return the text: `QuotaExceeded: ... Next: ...`."""
        since = f" since {self.since:%H:%M:%S} UTC" if self.since is not None else ""
        text = f"{self.kind}: {self.message}".rstrip(": ") if self.kind.is_in_text else self.message
        text = f"{self.container}: {text}" if self.container else text
        return f"{text}{since}. Next: {self.next_step}" if self.next_step else f"{text}{since}"


def reason_by_name(name: str, message: str, next_step: str) -> Reason:
    """Return the reason that Kubernetes calls `name`.

    If `ReasonKind` does not have `name`, or texts leave out the name of this kind, the kind of the result is OTHER, and
    its message begins with `name`.
    """
    if name in _KINDS and ReasonKind(name).is_in_text:
        return Reason(ReasonKind(name), message, next_step)
    return Reason(ReasonKind.OTHER, f"{name}: {message}" if message else name, next_step)


def words(text: str, most: int = MAX_WORDS) -> str:
    """Return another program's words as a part of a reason: on one line and without semicolons.

    A text with more than `most` characters is shortened.
    """
    text = " ".join(text.replace(";", ",").split()).rstrip(".")
    return text if len(text) <= most else text[: most - 3] + "..."


def waiting_for(
    reasons: Iterable[tuple[str, int, Reason]], before: Sequence[WaitingReplicas] = ()
) -> tuple[WaitingReplicas, ...]:
    """Return an entry for each of these reasons (type, index, reason), but at most nine entries.

    Replicas with the same reason are in one entry, with the earliest of their times. `before` has the present entries.
    If a kubelet names the cause of a failed image pull only in every second message, a missing cause is taken from
    the present entry.
    """
    old_reasons = reasons_of(before) if before else {}
    groups: dict[Reason, list[tuple[str, int]]] = {}
    since: dict[Reason, datetime] = {}
    in_full: dict[Reason, Reason] = {}
    for kind, index, reason in reasons:
        bare = msgspec.structs.replace(reason, since=None, detail="")
        groups.setdefault(bare, []).append((kind, index))
        if reason.since is not None:
            since[bare] = min(since.get(bare, reason.since), reason.since)
        if old_reasons and bare.message.endswith(NOT_PULLED):
            reason_before = old_reasons.get((kind, index))
            if reason_before is not None and _names_cause_of(reason_before, bare):
                in_full[bare] = reason_before
    entries = [
        _entry(in_full.get(bare) or msgspec.structs.replace(bare, since=since.get(bare)), replicas)
        for bare, replicas in list(groups.items())[:_MAX_REASONS]
    ]
    if len(groups) > _MAX_REASONS:
        others = sum(len(replicas) for replicas in list(groups.values())[_MAX_REASONS:])
        entries.append(about_job(Reason(ReasonKind.OTHER, f"{others} more for other reasons")))
    return tuple(entries)


def about_job(reason: Reason) -> WaitingReplicas:
    """Return the entry for a reason that concerns the whole job, and not single replicas."""
    return WaitingReplicas(str(reason.kind), reason.message, reason.next_step, reason.since, reason.container)


def text_of(waiting: Iterable[WaitingReplicas]) -> str:
    """Return the entries as text for the message of a condition; empty if there are no entries."""
    return "; ".join(
        f"{_names(entry)}: {reason_of(entry)}" if entry.count else str(reason_of(entry)) for entry in waiting
    )


def reason_of(entry: WaitingReplicas) -> Reason:
    """Return the reason of an entry.

    If this release does not have the kind of the entry, the reason has the kind OTHER.
    """
    kind = ReasonKind(entry.reason) if entry.reason in _KINDS else ReasonKind.OTHER
    return Reason(kind, entry.message, entry.next_step, entry.since, container=entry.container)


def reasons_of(waiting: Iterable[WaitingReplicas]) -> Mapping[tuple[str, int], Reason]:
    """Return the reason of each replica (type, index) that the entries name."""
    return {
        (kind, index): reason
        for entry in waiting
        for reason in (reason_of(entry),)
        for kind, indexes in entry.replicas.items()
        for index in parse_indexes(indexes)
    }


def _names_cause_of(before: Reason, bare: Reason) -> bool:
    same = (before.kind, before.container) == (bare.kind, bare.container)
    return same and before.message.startswith(f"{bare.message}: ")


def _entry(reason: Reason, replicas: Sequence[tuple[str, int]]) -> WaitingReplicas:
    indexes: dict[str, list[int]] = {}
    for kind, index in replicas:
        indexes.setdefault(kind, []).append(index)
    left, named = _MAX_RANGES, {}
    for kind, those in indexes.items():
        ranges = format_indexes(those).split(",")[:left]
        left -= len(ranges)
        if ranges:
            named[kind] = ",".join(ranges)
    return msgspec.structs.replace(about_job(reason), replicas=named, count=len(replicas))


def _names(entry: WaitingReplicas) -> str:
    """Return a text such as `Worker-1 waits`, `Worker-1 and PS-0 wait`, or `PS-0, Worker-0..99 and Worker-200 wait`."""
    if entry.count <= _MAX_NAMES:
        names = [f"{kind}-{index}" for kind, index in reasons_of((entry,))]
    else:
        names = [
            f"{kind}-{part.replace('-', '..')}"
            for kind, indexes in sorted(entry.replicas.items())
            for part in indexes.split(",")
        ]
    verb = "waits" if entry.count == 1 else "wait"
    if len(names) == 1:
        return f"{names[0]} {verb}"
    if sum(_count(part) for indexes in entry.replicas.values() for part in indexes.split(",")) < entry.count:
        return f"{', '.join(names)} and others {verb}"
    return f"{', '.join(names[:-1])} and {names[-1]} {verb}"


def _count(part: str) -> int:
    first, _, last = part.partition("-")
    return int(last or first) - int(first) + 1
