"""Why a replica does not run, as a value; and the reasons of many replicas as one text for a condition, and back.

The text is `Worker-1 waits: REASON; PS-0 and PS-1 wait: REASON`. A reason has no semicolon, so it can be read back:
clients find the reason of a replica without a pod in the condition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import groupby

import msgspec

NOT_PULLED = "can't be pulled"
"""The end of a statement about an image whose cause is not known; if the cause is known, more text follows."""

MAX_WORDS = 240
"""The maximum number of characters of another program's words in a reason."""

_MAX_REASONS = 8
_MAX_NAMES = 8
_MAX_RANGES = 20
_ONE_REASON = re.compile(r"(?P<who>[A-Za-z]+-\d[\w., -]*?) waits?: (?P<why>.*)", re.DOTALL)
_NAMES = re.compile(r"(?P<type>[A-Za-z]+)-(?P<first>\d+)(?:\.\.(?P<last>\d+))?")
_MAX_INDEX = 100_000


class ReasonKind(StrEnum):
    """The kind of a reason: the first word of its text. It is the kubelet's own word if the kubelet has a word."""

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
    OTHER = "Other"
    """A reason whose text begins with a word of the kubelet that is not listed here."""


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


def is_refusal_text(text: str) -> bool:
    """Return whether a text of a reason is about an object that the API server refuses to create."""
    return text.partition(":")[0] in REFUSALS


class Reason(msgspec.Struct, frozen=True):
    """Why a replica does not run. `message` is a statement, `next_step` a request to the reader, empty if none helps.

    `since` is the time at which the reason began, if it is known and helps. Both texts have no semicolon, because it
    separates reasons in a condition. `detail` has another program's words, which change at each attempt: they are for a
    person who looks now, and not for a condition.
    """

    kind: ReasonKind
    message: str
    next_step: str = ""
    since: datetime | None = None
    detail: str = ""

    def in_full(self) -> str:
        """Return the text with the detail."""
        message = f'{self.message} ("{self.detail}")' if self.detail else self.message
        return str(msgspec.structs.replace(self, message=message))

    def __str__(self) -> str:
        """Return the text: `QuotaExceeded: ... Next: ...`."""
        since = f" since {self.since:%H:%M:%S} UTC" if self.since is not None else ""
        said = self.message if self.kind is ReasonKind.OTHER else f"{self.kind}: {self.message}".rstrip(": ")
        return f"{said}{since}. Next: {self.next_step}" if self.next_step else f"{said}{since}"


def words(text: str, most: int = MAX_WORDS) -> str:
    """Return another program's words as a part of a reason: on one line, without semicolons, of bounded length."""
    text = " ".join(text.replace(";", ",").split()).rstrip(".")
    return text if len(text) <= most else text[: most - 3] + "..."


def summary(reasons: Iterable[tuple[str, int, Reason]], before: str = "") -> str:
    """Return the text about these replicas (type, index, reason), which names each; empty if there are none.

    Replicas with the same reason are named together, with the time of the first of them. `before` is the condition's
    present text: if the kubelet names the cause of an image that can't be pulled only in every other message, the cause
    is kept from there.
    """
    reasons_before = reasons_in(before)
    groups: dict[Reason, list[tuple[str, int]]] = {}
    since: dict[Reason, datetime] = {}
    texts: dict[Reason, str] = {}
    for kind, index, reason in reasons:
        bare = msgspec.structs.replace(reason, since=None, detail="")
        groups.setdefault(bare, []).append((kind, index))
        if reason.since is not None:
            since[bare] = min(since.get(bare, reason.since), reason.since)
        reason_before = reasons_before.get(f"{kind}-{index}", "") if bare.message.endswith(NOT_PULLED) else ""
        if reason_before.startswith(f"{msgspec.structs.replace(bare, next_step='')}: "):
            texts[bare] = reason_before
    parts = [
        f"{_names(who)}: {texts.get(bare) or str(msgspec.structs.replace(bare, since=since.get(bare)))}"
        for bare, who in list(groups.items())[:_MAX_REASONS]
    ]
    if len(groups) > _MAX_REASONS:
        others = sum(len(who) for who in list(groups.values())[_MAX_REASONS:])
        parts.append(f"{others} more for other reasons")
    return "; ".join(parts)


def reasons_in(message: str) -> Mapping[str, str]:
    """Return the reason of each replica in a condition's message, by names such as `Worker-1`."""
    found: dict[str, str] = {}
    for part in message.split("; "):
        match = _ONE_REASON.match(part)
        if match is not None:
            for name in _named(match["who"]):
                found[name] = match["why"].rstrip(".")
    return found


def _named(who: str) -> Iterator[str]:
    for match in _NAMES.finditer(who):
        first = int(match["first"])
        last = int(match["last"] or first)
        for index in range(first, min(last, _MAX_INDEX) + 1):
            yield f"{match['type']}-{index}"


def _names(who: Sequence[tuple[str, int]]) -> str:
    """Return `Worker-1 waits`, `Worker-1 and PS-0 wait`, or, of many, `PS-0, Worker-0..99 and Worker-200 wait`."""
    if len(who) == 1:
        return f"{who[0][0]}-{who[0][1]} waits"
    names = [f"{kind}-{index}" for kind, index in who] if len(who) <= _MAX_NAMES else list(_ranges(who))
    if len(names) == 1:
        return f"{names[0]} wait"
    if len(names) > _MAX_RANGES:
        return f"{', '.join(names[:_MAX_RANGES])} and others wait"
    return f"{', '.join(names[:-1])} and {names[-1]} wait"


def _ranges(who: Sequence[tuple[str, int]]) -> Iterator[str]:
    numbered = enumerate(sorted(who))
    for (kind, _), row in groupby(numbered, lambda replica: (replica[1][0], replica[1][1] - replica[0])):
        indexes = [index for _, (_, index) in row]
        yield f"{kind}-{indexes[0]}" + (f"..{indexes[-1]}" if len(indexes) > 1 else "")
