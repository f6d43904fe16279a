"""The oracle's judgement of the number of workers in the status of an elastic job."""

from typing import Any

import pytest

from tests.hack.faults.story import Story

QUOTA = "Kueue admitted 1 of the 3 requested workers"


def elastic(**status: Any) -> Story:
    """An elastic job of three workers, with this number in its status."""
    story = Story("OnFailure", {"elasticPolicy": {}, "runPolicy": {"restartScope": "Job"}}, Worker=3)
    return size(story.status(Worker={}), **status)


def size(story: Story, **status: Any) -> Story:
    return story.report("j", elastic={"wanted": 3, **status})


def change(before: int, workers: int) -> dict[str, Any]:
    return {"changes": 1, "reason": QUOTA, "resizes": [{"before": before, "workers": workers, "reason": QUOTA}]}


def test_a_change_at_an_admission_is_counted_and_described() -> None:
    assert size(size(elastic(workers=3), workersBefore=3), workers=1, **change(3, 1)).never() == []


def test_an_admission_with_the_same_number_is_no_change() -> None:
    assert size(size(elastic(workers=3), workersBefore=3), workers=3).never() == []


@pytest.mark.parametrize(
    ("later", "text"),
    [
        ({"workers": 1}, "it goes from 3 to 1 workers, and counts 0 changes more"),
        ({"workers": 3, **change(3, 3)}, "it goes from 3 to 3 workers, and counts 1 changes more"),
        ({"workers": 1, **change(2, 1)}, "it goes from 3 to 1 workers, and its last change is"),
        ({"workers": 3, "wanted": 1}, "it records 1 wanted workers, and its spec had [3]"),
    ],
    ids=["not counted", "no change", "another change", "the admitted number"],
)
def test_a_change_that_is_not_recorded_or_did_not_happen_is_wrong(later: dict[str, Any], text: str) -> None:
    held = size(elastic(workers=3), workersBefore=3)
    (violation,) = size(held, **later).never()
    assert violation.startswith(f"wrong: job: {text}")


def test_the_number_is_forgotten_only_after_a_suspension_by_a_user() -> None:
    assert size(elastic(workers=3)).never() == [
        "wrong: job: it had 3 workers when its queue stopped it, and records 0",
    ]
    asleep = size(elastic(workers=3).spec(runPolicy={"suspend": True}), wanted=0)
    assert size(asleep.spec(runPolicy={"suspend": False}), workers=1).never() == []


def test_a_change_at_an_admission_accounts_for_no_restart() -> None:
    def again(story: Story) -> list[str]:
        return size(story, workers=1, **change(3, 1)).report("j", jobRestarts=1, restarts=1).never()

    assert again(elastic(workers=3)) == []
    assert again(size(elastic(workers=3), workersBefore=3)) == [
        "doubled: job: it counts 1 restarts of all replicas, there were at most 0"
    ]
