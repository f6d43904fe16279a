"""Measures the speed of the web page in a real Chromium: first paint, a list of 5,000 jobs, a log of 400,000 lines.

    python -m hack.ui_bench

It prints the milliseconds until the page is shown in a browser with an empty cache, and the frames per second while a
user turns the mouse wheel, or drags the scroll bar from the beginning to the end in 5 s. docs/ui.md shows the results.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Browser, Page, expect

from hack.chromium import running_chromium
from tests.support.stage import Stage, moment
from tfoperator.ui import UiServer

JOBS = 5000
LINES = 400_000
_PAINTS = 5
_PATIENCE = 120_000
_WHEEL = 53
"""Pixels per frame: a wheel that is turned without a pause."""

_SCROLL = """async ([selector, seconds, pixels]) => {
  const element = document.querySelector(selector);
  const times = [], end = performance.now() + seconds * 1000;
  const step = pixels || (element.scrollHeight - element.clientHeight) / (seconds * 60);
  element.scrollTop = 0;
  await new Promise((done) => {
    const frame = (now) => {
      times.push(now);
      element.scrollTop += step;
      if (performance.now() < end) requestAnimationFrame(frame); else done();
    };
    requestAnimationFrame(frame);
  });
  return times.slice(1).map((time, i) => time - times[i]);
}"""


def _paint(browser: Browser, links: list[str]) -> tuple[float, float]:
    """Milliseconds until the first paint, and until the first jobs are in the list."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        began = time.monotonic()
        page.goto(links[-1])
        page.locator(".listing .row a").first.wait_for(timeout=_PATIENCE)
        listed = (time.monotonic() - began) * 1000
        paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"
        return float(page.evaluate(paint)), listed
    finally:
        context.close()


def _frames(page: Page, selector: str, pixels: int = 0, seconds: float = 5.0) -> str:
    """Scroll by so many pixels per frame; with 0 through everything, which draws all rows anew in each frame."""
    before = _busy()
    gaps = page.evaluate(_SCROLL, [selector, seconds, pixels])
    work = (_busy() - before) * 1000 / len(gaps)
    worst = sorted(gaps)[int(len(gaps) * 0.99)]
    rate = 1000 / statistics.mean(gaps)
    return f"{rate:.0f} frames/s, 99 of 100 within {worst:.0f} ms; {work:.1f} ms of CPU per frame"


def _busy() -> float:
    """Seconds of CPU that the processes which run pages have used so far: on a busy machine the measure to look at."""
    seconds = 0.0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "--type=renderer" in process.cmdline():
                times = process.cpu_times()
                seconds += times.user + times.system
    return seconds


def _fill(stage: Stage) -> None:
    conditions: list[Any] = [{"type": "Running", "status": "True", "message": "It runs."}]
    for number in range(JOBS):
        stage.job(f"job-{number:05}", created=moment(number), status={"conditions": conditions, "ready": "2/2"})
    job = stage.job("big", workers=1, created=moment(JOBS + 1), status={"conditions": conditions})
    stage.pod(job, 0)
    line = "\x1b[32mINFO\x1b[0m step {n} loss=0.{n} accuracy=0.97 images/s=812 learning_rate=0.001\n"
    stage.logs["big-worker-0"].write("".join(line.format(n=n) for n in range(LINES)))


def main() -> int:
    """Measure, and print."""
    stage, links = Stage(), list[str]()
    _fill(stage)
    server = UiServer(stage, on_link=links.append)  # type: ignore[arg-type]
    server.start()
    try:
        with tempfile.TemporaryDirectory() as folder, running_chromium(Path(folder)) as browser:
            _paint(browser, links)  # the server's caches are filled by the first page
            paints = [_paint(browser, links) for _ in range(_PAINTS)]
            print(f"first paint          {statistics.median(ms for ms, _ in paints):.0f} ms (median of {_PAINTS})")
            print(f"jobs in the list     {statistics.median(ms for _, ms in paints):.0f} ms after the link was opened")
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(links[-1])
            table = page.get_by_role("table", name="Jobs")
            expect(table).to_have_attribute("aria-rowcount", str(JOBS + 2), timeout=_PATIENCE)
            print(f"list of {JOBS:,} jobs   wheel: {_frames(page, '.listing .viewport', _WHEEL)}")
            print(f"                     flung: {_frames(page, '.listing .viewport')}")
            page.goto(f"{server.url}#/jobs/default/big/logs")
            began = time.monotonic()
            page.get_by_role("button", name="Load more lines").click()
            header = page.locator("[data-replica=worker-0] header")
            expect(header).to_contain_text(f"{LINES:,} lines", timeout=_PATIENCE)
            print(f"log of {LINES:,} lines loaded in {time.monotonic() - began:.1f} s")
            print(f"log of {LINES:,} lines wheel: {_frames(page, '.lines', _WHEEL)}")
            print(f"                     flung: {_frames(page, '.lines')}")
            began = time.monotonic()
            page.get_by_label("Search the logs").fill(f"step {LINES - 1} ")
            expect(header).to_contain_text("1 found", timeout=_PATIENCE)
            print(f"search in them       {time.monotonic() - began:.1f} s")
    finally:
        server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
