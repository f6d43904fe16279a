"""The page on a phone, on a tablet and at a desk: each thing stays in its box, and text is only cut with a sign."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.browsing import Shown, overflow
from tests.support.stage import condition, train

WIDTHS = (390, 768, 1280)
TABS = ("Overview", "Logs", "Resources", "YAML")
LONG = "worker-1 failed with exit code 137 after the node ran out of memory, and it is made again for the third time."

CELLS_OUTSIDE = """() => [...document.querySelectorAll('.listing .viewport .row')].flatMap((row) => {
  const box = row.getBoundingClientRect(), list = row.closest('.listing').getBoundingClientRect();
  return [...row.children].filter((cell) => getComputedStyle(cell).display !== 'none')
    .map((cell) => cell.getBoundingClientRect())
    .filter((cell) => cell.left < list.left || cell.right > list.right || cell.width > box.width)
    .map((cell) => [cell.left, cell.right, list.right]);
})"""

CUT_WITHOUT_A_SIGN = """() => [...document.querySelectorAll('main *')].filter((element) => {
  const style = getComputedStyle(element);
  return element.children.length === 0 && element.clientWidth && element.scrollWidth > element.clientWidth + 1
    && style.overflowX === 'hidden' && style.textOverflow !== 'ellipsis' && !element.classList.contains('sr');
}).map((element) => element.outerHTML.slice(0, 120))"""

OUTSIDE_OF_THE_WINDOW = """(selector) => [...document.querySelectorAll(selector)].filter((one) => {
  const box = one.getBoundingClientRect();
  return box.width && (box.left < 0 || box.right > document.documentElement.clientWidth);
}).map((one) => one.textContent)"""

BROKEN_WORDS = """() => [...document.querySelectorAll('.scroll table :is(th, td)')].flatMap((cell) => {
  const text = cell.firstChild;
  if (!text || text.nodeType !== Node.TEXT_NODE) return [];
  return [...text.data.matchAll(/\\S+/g)].filter(({ 0: word, index }) => {
    const range = document.createRange();
    range.setStart(text, index);
    range.setEnd(text, index + word.length);
    return range.getClientRects().length > 1;
  }).map(([word]) => word);
})"""

SHARE_OF_THE_METER = """() => { const meter = document.querySelector('.listing .viewport .meter');
  return meter.firstElementChild.getBoundingClientRect().width / meter.getBoundingClientRect().width; }"""


@pytest.fixture
def played(shown: Shown) -> Shown:
    """A job that trains and is measured, and a job that restarts, whose message is long."""
    job = train(shown.stage)
    for index in (0, 1):
        shown.stage.use(shown.stage.pod(job, index), "300m", "512Mi", at=21, **{"nvidia.com/gpu": "900m"})
    progress = {"percentage": 16, "completion": "16%", "metrics": [{"name": "loss", "value": "0.3"}]}
    status = {"conditions": [condition("Running", f"TFJob slow is running. {LONG}")], "progress": progress}
    shown.stage.job("a-name-that-is-as-long-as-names-of-generated-jobs-tend-to-be", status=status)
    return shown


def open_at(shown: Shown, somebody: Any, width: int) -> Page:
    page = shown.open(somebody)
    page.set_viewport_size({"width": width, "height": 800})
    expect(page.get_by_role("link", name="mnist")).to_be_visible()
    return page


@pytest.mark.parametrize("width", WIDTHS)
def test_the_list_stays_in_its_box(played: Shown, width: int) -> None:
    with played.by() as somebody:
        page = open_at(played, somebody, width)
        expect(page.get_by_text("16%").first).to_be_visible()
        assert page.evaluate(CELLS_OUTSIDE) == []
        assert page.evaluate(CUT_WITHOUT_A_SIGN) == []
        assert page.evaluate(SHARE_OF_THE_METER) == pytest.approx(0.16, abs=0.01)
        assert overflow(page) == 0


@pytest.mark.parametrize("width", WIDTHS)
def test_each_tab_of_a_job_stays_in_its_box(played: Shown, width: int) -> None:
    with played.by() as somebody:
        page = open_at(played, somebody, width)
        page.get_by_role("link", name="mnist").click()
        for name in TABS:
            tab = page.get_by_role("tab", name=name)
            expect(tab).to_be_in_viewport(ratio=1)
            tab.click()
            expect(tab).to_have_attribute("aria-selected", "true")
            if name == "Resources":
                expect(page.get_by_role("region", name="Usage by replica")).to_be_visible()
            assert page.evaluate(OUTSIDE_OF_THE_WINDOW, ".tabs [role=tab], .panel, .facts dd") == [], name
            assert page.evaluate(CUT_WITHOUT_A_SIGN) == [], name
            assert page.evaluate(BROKEN_WORDS) == [], name
            assert overflow(page) == 0, name


def test_a_resource_has_one_unit_and_bytes_have_round_ones(played: Shown) -> None:
    with played.by() as somebody:
        page = open_at(played, somebody, 1280)
        shown = page.evaluate("""async () => {
          const { amount, bytes, percents, quantity } = await import('/static/format.js');
          return [[0, 0.022, 0.157, 1.5678, 12.34].map((cores) => amount('cpu', cores)), bytes(4 * 2 ** 30),
            ['1800m', '2', 'x'].map((text) => quantity('cpu', text)), quantity('memory', '4Gi'),
            Object.values(percents({ training: 1, queued: 1, lost: 1 }, 'training')).reduce((all, one) => all + one)];
        }""")
        assert shown == [["0", "0.022", "0.157", "1.57", "12.3"], "4 GiB", ["1.8", "2", "x"], "4 GiB", 100]
