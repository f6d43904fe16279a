"""Judges who served a namespace, where operators have a shard each: by what each process has sent, in that order.

Like the rest of the oracle it shares no code with the operator; the rule by which namespaces belong to shards is
written down here a second time.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Set
from dataclasses import dataclass

from hack.faults.oracle.history import Violation

_APART = 0.25
"""Real seconds, five of the operators'. Who takes over waits until the lease of 60 s is over, and who can't renew it
gives up after 40 s: so between the last write of one layout and the first of another are 20 s, less what is on its way.
"""


@dataclass(frozen=True)
class Write:
    """A process, of shard `number` of `count`, asked at `at` (real seconds) for a change in a namespace."""

    process: str
    number: int
    count: int
    namespace: str
    at: float


def judge_writes(writes: Iterable[Write], paused: Set[str] = frozenset()) -> list[Violation]:
    """Whether each namespace was served by its shard alone, and by one layout of shards at a time.

    Of the processes that were `paused` nothing is said but the former: what they were about to send comes later.
    """
    by_time = sorted(writes, key=lambda write: write.at)
    if not by_time:
        return [Violation("wrong", "-", "no operator with a shard has written anything")]
    found: list[Violation] = []
    for write in by_time:
        if write.number != _shard_of(write.namespace, write.count):
            found.append(_violation(write, f"shard {write.number} of {write.count} wrote, which does not serve it"))
    by_time = [write for write in by_time if write.process not in paused]
    for before, after in itertools.pairwise(by_time):
        if before.count != after.count and after.at - before.at < _APART:
            text = f"shards of {before.count} and of {after.count} wrote {after.at - before.at:.3f} s apart"
            found.append(_violation(after, text))
    return found


def _violation(write: Write, text: str) -> Violation:
    return Violation("doubled", "-", f"namespace {write.namespace}: {text} ({write.process})")


def _shard_of(namespace: str, count: int) -> int:
    return int(hashlib.sha256(namespace.encode()).hexdigest()[:16], 16) % count
