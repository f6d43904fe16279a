"""Masks secrets in the facts of a report, before the report quotes them. Pure.

Users copy reports into issues, chats and mails. So secrets in log lines and messages are replaced by `<masked>`.
`tfoperator logs` shows log lines unchanged.
"""

from __future__ import annotations

import msgspec

from tfoperator.base.masking import masked, masked_lines
from tfoperator.report.facts import JobFacts, ReplicaFacts, RunFacts


def quotable(facts: JobFacts) -> JobFacts:
    """Return the facts with `<masked>` in place of each secret (a password, a token) in logs, messages and causes."""
    return msgspec.structs.replace(
        facts,
        message=masked(facts.message),
        stalled=masked(facts.stalled),
        no_number=masked(facts.no_number),
        taken=tuple(msgspec.structs.replace(taken, cause=masked(taken.cause)) for taken in facts.taken),
        replicas=tuple(map(_replica, facts.replicas)),
    )


def _replica(replica: ReplicaFacts) -> ReplicaFacts:
    return msgspec.structs.replace(
        replica, detail=masked(replica.detail), runs=tuple(_run(run) for run in replica.runs)
    )


def _run(run: RunFacts) -> RunFacts:
    return msgspec.structs.replace(run, tail=masked_lines(run.tail), kernel=masked(run.kernel))
