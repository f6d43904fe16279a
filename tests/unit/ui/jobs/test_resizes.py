"""The marks of an elastic job's changes of size, on the timeline of its page."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tests.unit.ui.jobs.test_views import seen
from tfoperator.api.v1.parts.elastic import MAX_RESIZES, ElasticStatus, Resize
from tfoperator.ui.jobs.resizes import ResizeMark, resize_marks
from tfoperator.ui.jobs.views import job_detail
from tfoperator.ui.streaming import MAX_TEXT

LOST = "1 replica has had no node for 60 seconds"
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
BEGAN = START.timestamp()


def at(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("resize", "mark"),
    [
        (
            Resize(at(60), 4, 3, LOST, 21, 30),
            ResizeMark(BEGAN + 60, 4, 3, "21 s without training", LOST, BEGAN + 81),
        ),
        (Resize(at(60), 3, 4, LOST, None, 30), ResizeMark(BEGAN + 60, 3, 4, "not at work yet", LOST)),
        (Resize(at(60), 3, 4, "", 0, 30), ResizeMark(BEGAN + 60, 3, 4, "0 s without training", "", BEGAN + 60)),
        (Resize(None, 3, 4, "", 5), ResizeMark(None, 3, 4, "5 s without training")),
        (Resize(at(60), 3, 4, "", -5), ResizeMark(BEGAN + 60, 3, 4, "-5 s without training", "", BEGAN + 60)),
    ],
    ids=["ended", "goes on", "costs nothing", "without a time", "wrong status"],
)
def test_a_mark_has_the_time_the_cost_and_the_reason_of_a_change(resize: Resize, mark: ResizeMark) -> None:
    assert resize_marks(ElasticStatus(3, 4, resizes=(resize,))) == (mark,)
    assert mark.cost == resize.cost
    assert mark.cost in resize.text(), "the page and `describe` show the same cost"


def test_marks_are_bounded() -> None:
    resizes = tuple(Resize(at(number), 2, 1, "x" * 10_000, 1) for number in range(50))
    marks = resize_marks(ElasticStatus(1, 2, changes=50, resizes=resizes))
    assert [mark.time for mark in marks] == [BEGAN + number for number in range(50 - MAX_RESIZES, 50)]
    assert {len(mark.why) < MAX_TEXT + 10 for mark in marks} == {True}
    assert (resize_marks(None), resize_marks(ElasticStatus(2, 2))) == ((), ())


def test_only_the_time_of_a_job_with_changes_has_marks() -> None:
    usage = {"phase": "training", "since": "2026-03-01T12:00:30Z", "seconds": {"starting": 30}}
    resize = {"time": "2026-03-01T12:01:00Z", "before": 2, "workers": 1, "reason": "a test", "untrainedSeconds": 9}
    elastic = {"workers": 1, "wanted": 2, "changes": 50, "resizes": [resize]}

    def time_of(**status: object) -> dict[str, object]:
        time: dict[str, object] = msgspec.json.decode(msgspec.json.encode(job_detail(seen(status=status))["time"]))
        return time

    mark = {"time": BEGAN + 60, "before": 2, "workers": 1, "cost": "9 s without training", "why": "a test"}
    without = time_of(usage=usage)
    assert time_of(usage=usage, elastic=elastic) == without | {"resizes": [mark | {"end": BEGAN + 69}], "changes": 50}
    assert time_of(usage=usage, elastic={"workers": 2, "wanted": 2}) == without
    assert time_of(usage=usage, elastic={**elastic, "changes": 0})["changes"] == 1, "a status that is wrong"
    assert job_detail(seen(status={"elastic": elastic}))["time"] is None
