"""In which order a job's time went to its phases, out of its sums."""

from datetime import UTC, datetime, timedelta
from functools import reduce

import pytest

from tfoperator.api.v1.status import JobUsage
from tfoperator.ui.jobs.phases import MAX_SPANS, follow, phase_spans

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(phase: str, *, jump: int = 0, **seconds: int) -> JobUsage:
    """Sums of a job that has changed to a phase; `jump`: of a clock, since the job was made."""
    return JobUsage(phase, START + timedelta(seconds=sum(seconds.values()) + jump), seconds)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([JobUsage()], ""),
        ([JobUsage(), at("training", queued=2, starting=20)], "0 queued, 2 starting, 22 training"),
        ([at("lost", training=50, stalled=40)], "0? training, 50? stalled, 90 lost"),
        ([at("lost", lost=40), at("training", lost=60)], "0? lost, 40 lost, 60 training"),
        ([at("lost"), at("stalled", lost=5, training=20)], "0 lost, 5 training, 25 stalled"),
        ([at("training"), at("training", training=20), at("lost", training=31)], "0 training, 31 lost"),
        # It reports for the first time: it was starting.
        ([at("training"), at("lost", training=9), at("training", starting=50)], "0 starting, 50 training"),
        ([at("queued"), at("training", queued=5, jump=60)], "60 queued, 65 training"),
    ],
)
def test_the_order_of_phases_is_told_as_far_as_it_is_known(seen: list[JobUsage], expected: str) -> None:
    spans = phase_spans(reduce(follow, seen[1:], follow(None, seen[0])))
    texts = [f"{span.start - START.timestamp():.0f}{'?' * span.rough} {span.phase}" for span in spans]
    assert ", ".join(texts) == expected
    assert [span.end for span in spans[:-1]] == [span.start for span in spans[1:]]


def test_of_many_phases_the_latest_are_kept_and_all_add_up() -> None:
    life = [at("training" if n % 2 else "lost", training=n // 2 * 9, lost=(n + 1) // 2 * 3) for n in range(250)]
    *spans, present = phase_spans(reduce(follow, life[1:], follow(None, life[0])))
    assert (present.phase, present.start, len(spans)) == ("training", START.timestamp() + 1491, MAX_SPANS + 2)
    assert spans[0].start == START.timestamp()
    assert [span.end for span in spans] == [span.start for span in (*spans[1:], present)]
    assert [(span.end or 0) - span.start for span in spans if span.rough] == [666, 225]
    assert {(span.phase, (span.end or 0) - span.start) for span in spans if not span.rough} == {
        ("training", 9),
        ("lost", 3),
    }
