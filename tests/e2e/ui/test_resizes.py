"""The timeline of an elastic job: a mark for each change of its number of workers, with its cost, in words, too."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.ui.test_widths import CUT_WITHOUT_A_SIGN, OUTSIDE_OF_THE_WINDOW, WIDTHS
from tests.support.browsing import Shown, faults, overflow
from tests.support.stage import START, condition, moment
from tfoperator.api.v1.parts.elastic import MAX_RESIZES
from tfoperator.api.v1.types import TFJOBS

LOST = "1 replica has had no node for 60 seconds (Insufficient nvidia.com/gpu)"
FOUND = "there is room for 1 more worker"
NOW = START + timedelta(seconds=900)


LABELS_OVER_OTHERS = """() => { const lane = document.querySelector('.sizes').getBoundingClientRect();
  const marks = [...document.querySelectorAll('.resize')].map((one) => one.getBoundingClientRect());
  return [...document.querySelectorAll('.size')].map((one) => one.getBoundingClientRect())
    .filter((label) => label.right > lane.right
      || marks.some(({ left }) => label.left + 1 < left && left < label.right))
    .map(({ left, right }) => [left, right]); }"""

PLACES_OF_MARKS = """() => { const lane = document.querySelector('.sizes').getBoundingClientRect();
  return [...document.querySelectorAll('.resize')].map((one) => one.getBoundingClientRect())
    .map((mark) => [(mark.left - lane.left) / lane.width, mark.width / lane.width]); }"""
"""The page draws the marks again at any time, so a test measures all of them at once."""


def resize(at: int, before: int, workers: int, reason: str, cost: int | None) -> dict[str, Any]:
    fields = {"time": moment(at), "before": before, "workers": workers, "reason": reason}
    return fields if cost is None else fields | {"untrainedSeconds": cost}


def played(shown: Shown, *resizes: dict[str, Any], changes: int = 0, **usage: Any) -> None:
    """Play a job of four workers with these changes; `usage` is what its status has beside its phase."""
    elastic = {"workers": 4, "wanted": 4, "changes": changes or len(resizes), "resizes": list(resizes)}
    spent = {"phase": "training", "since": moment(600), "seconds": {"starting": 30, "training": 570}, **usage}
    status = {"conditions": [condition("Running", "It runs.")], "usage": spent, "startTime": moment(2)}
    job = shown.stage.job("mnist", workers=4, status=status | ({"elastic": elastic} if resizes else {}))
    for index in range(4):
        shown.stage.pod(job, index)


def opened(shown: Shown, somebody: Any, now: datetime = NOW) -> Page:
    page = shown.open(somebody)
    page.clock.set_fixed_time(now)
    page.goto(f"{shown.server.url}#/jobs/default/mnist")
    expect(page.get_by_role("region", name="Time")).to_be_visible()
    return page


@pytest.mark.parametrize("width", WIDTHS)
def test_each_change_is_on_the_timeline_with_its_cost_and_its_reason(shown: Shown, width: int) -> None:
    played(shown, resize(200, 4, 3, LOST, 21), resize(850, 3, 4, FOUND, None))
    with shown.by(color_scheme="dark" if width == WIDTHS[0] else "light") as somebody:
        page = opened(shown, somebody)
        page.set_viewport_size({"width": width, "height": 800})
        time = page.get_by_role("region", name="Time")
        # For a screen reader, and in text that needs neither a mouse nor a screen reader.
        first, last = "4 to 3 workers", "3 to 4 workers"
        so_far = "not at work yet (50s so far)"
        clock = r"[0-9/., ]*\d\d:\d\d:\d\d"
        cost = rf"^{first} at {clock}: 21 s without training, because"
        label = rf"{cost} .*; {last} at {clock}: {re.escape(so_far)}, because"
        expect(time.get_by_role("img", name=re.compile(label))).to_be_visible()
        items = time.get_by_role("list").get_by_role("listitem")
        expect(items.locator("strong")).to_have_text([f"{last}: {so_far}", f"{first}: 21 s without training"])
        expect(items.locator("p")).to_have_text([FOUND.capitalize(), LOST])
        expect(time.get_by_role("heading", name="Changes of the number of workers (the newest first)")).to_be_visible()
        # The marks are at the times of the changes, and as long as the training stood still.
        marks = time.locator(".resize")
        expect(marks).to_have_count(2)
        for place, (begin, end) in zip(page.evaluate(PLACES_OF_MARKS), ((200, 221), (850, 900)), strict=True):
            assert place == [pytest.approx(begin / 900, abs=0.01), pytest.approx((end - begin) / 900, abs=0.02)]
        expect(marks.first).to_have_attribute("title", re.compile(cost))
        expect(time.locator(".size")).to_have_text(["4 to 3"])
        assert page.evaluate(OUTSIDE_OF_THE_WINDOW, ".panel, .resize, .size, .time li *") == []
        assert page.evaluate(CUT_WITHOUT_A_SIGN) == []
        assert overflow(page) == 0
        assert faults(page) == []


def test_a_change_has_its_cost_when_the_job_trains_again_and_after_the_job_has_ended(shown: Shown) -> None:
    played(shown, resize(850, 3, 4, FOUND, None))
    with shown.by() as somebody:
        page = opened(shown, somebody)
        items = page.get_by_role("region", name="Time").get_by_role("listitem")
        expect(items).to_contain_text("3 to 4 workers: not at work yet (50s so far)")
        now = {"elastic": {"resizes": [resize(850, 3, 4, FOUND, 63)]}}
        shown.stage.edit(TFJOBS, "default", "mnist", {"status": now})
        expect(items.locator("strong")).to_have_text("3 to 4 workers: 63 s without training")
        # A job that lasted a few seconds has a panel, too, if it has a change.
        ended = {"phase": "", "since": moment(9), "seconds": {"starting": 4, "training": 5}}
        done = {"conditions": [condition("Succeeded", "It is done.")], "completionTime": moment(9), "usage": ended}
        shown.stage.edit(TFJOBS, "default", "mnist", {"status": done})
        expect(page.get_by_text("Ended", exact=True).first).to_be_visible()
        expect(items.locator("strong")).to_have_text("3 to 4 workers: 63 s without training")


def test_of_many_changes_the_last_are_shown_and_stay_readable(shown: Shown) -> None:
    times = [100, 300, 310, 320, 330, 340, 350, 360, 370, 500]
    assert len(times) == MAX_RESIZES
    changes = [resize(time, 4 - n % 2, 3 + n % 2, f"reason {n}", 8) for n, time in enumerate(times)]
    played(shown, *changes, changes=50)
    with shown.by() as somebody:
        page = opened(shown, somebody)
        time = page.get_by_role("region", name="Time")
        expect(time.get_by_text("50 changes", exact=True)).to_be_visible()
        of_all = f"Changes of the number of workers (the last {MAX_RESIZES} of 50, the newest first)"
        expect(time.get_by_role("heading", name=of_all)).to_be_visible()
        expect(time.get_by_role("listitem")).to_have_count(MAX_RESIZES)
        expect(time.locator(".resize")).to_have_count(MAX_RESIZES)
        # A label has its place only if it does not reach the next mark, on a phone, too.
        for width, labels in ((1280, 3), (390, 1)):
            page.set_viewport_size({"width": width, "height": 800})
            page.clock.set_fixed_time(NOW)
            page.clock.run_for(6000)
            expect(time.locator(".size")).to_have_count(labels)
            assert page.evaluate(LABELS_OVER_OTHERS) == []
            assert overflow(page) == 0


def test_a_job_without_a_change_has_the_timeline_that_it_always_had(shown: Shown) -> None:
    played(shown)
    with shown.by() as somebody:
        page = opened(shown, somebody)
        time = page.get_by_role("region", name="Time")
        parts = "element => [...element.children].map((one) => [one.tagName, one.className, one.children.length])"
        before = [["HEADER", "", 2], ["DIV", "row", 4], ["DIV", "body", 3]]
        assert time.evaluate(parts) == before
        change = {"elastic": {"workers": 3, "wanted": 4, "changes": 1, "resizes": [resize(200, 4, 3, LOST, 21)]}}
        shown.stage.edit(TFJOBS, "default", "mnist", {"status": change})
        expect(time.get_by_role("heading", name="Changes of the number of workers", exact=True)).to_be_visible()
        assert time.evaluate(parts) == [before[0], before[1], ["DIV", "row", 4], ["DIV", "body", 4]]
