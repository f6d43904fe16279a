"""The page for everybody: with a keyboard alone, on a phone, in the dark, with a screen reader."""

import pytest
from playwright.sync_api import expect

from tests.support.browsing import Shown, faults, overflow
from tests.support.stage import condition, moment, train
from tfoperator.api.v1.types import TFJOBS

PHONE = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}


def test_the_keyboard_is_enough(shown: Shown) -> None:
    train(shown.stage)
    shown.stage.job("other", created=moment(-60))
    with shown.by() as somebody:
        page = shown.open(somebody)
        expect(page.get_by_role("link", name="other")).to_be_visible()
        page.keyboard.press("/")
        expect(page.get_by_label("Filter jobs")).to_be_focused()
        page.keyboard.press("ArrowDown")
        expect(page.get_by_role("link", name="mnist")).to_be_focused()
        page.keyboard.press("ArrowDown")
        expect(page.get_by_role("link", name="other")).to_be_focused()
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="mnist")).to_be_focused()
        page.get_by_role("tab", name="Overview").focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name="Logs")).to_be_focused()
        expect(page.get_by_role("log", name="Log of worker-0")).to_be_visible()
        page.keyboard.press("End")
        expect(page.get_by_role("tab", name="YAML")).to_be_focused()
        expect(page.get_by_label("The job as YAML")).to_contain_text("kind: TFJob")
        page.keyboard.press("Home")
        page.get_by_role("button", name="worker-0").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="Runs of the selected replica")).to_contain_text("mnist-worker-1")
        page.keyboard.press("Escape")
        expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_focused()
        page.go_back()
        expect(page.get_by_role("heading", name="mnist")).to_be_focused()


def test_a_phone_shows_all_of_it_in_its_width(shown: Shown) -> None:
    train(shown.stage)
    with shown.by(**PHONE) as somebody:
        page = shown.open(somebody)
        expect(page.get_by_role("link", name="mnist")).to_be_visible()
        assert overflow(page) == 0
        page.get_by_role("link", name="mnist").tap()
        for tab in ("Overview", "Logs", "Resources", "YAML"):
            page.get_by_role("tab", name=tab).tap()
            expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
            assert overflow(page) == 0, tab
        page.get_by_role("tab", name="Logs").tap()
        expect(page.get_by_role("log", name="Log of worker-0")).to_contain_text("step 299")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(shown: Shown, scheme: str) -> None:
    job = train(shown.stage)
    shown.stage.event(job, "BackOff", "Back-off restarting.", warning=True)
    for state in ("Succeeded", "Failed", "Suspended", "Restarting"):
        shown.stage.job(state.lower(), status={"conditions": [condition(state, f"It is {state}.")]})
    hangs = [condition("Running", "It runs."), condition("Stalled", "It hangs.")]
    shown.stage.job("stalled", status={"conditions": hangs})
    with shown.by(color_scheme=scheme) as somebody:
        page = somebody.open(shown.server.url)
        expect(page.get_by_role("heading", name="Open the link from the terminal")).to_be_visible()
        assert faults(page) == []
        page = shown.open(somebody)
        expect(page.get_by_role("link", name="mnist")).to_be_visible()
        assert faults(page) == []
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 18, 24)"
        assert dark == (scheme == "dark")
        page.get_by_role("link", name="mnist").click()
        page.get_by_role("button", name="worker-0").click()
        expect(page.get_by_role("region", name="Runs of the selected replica")).to_be_visible()
        assert faults(page) == []
        for tab, there in (("Logs", "step 299"), ("Resources", "CPU (cores)"), ("YAML", "kind: TFJob")):
            page.get_by_role("tab", name=tab).click()
            expect(page.get_by_role("tabpanel")).to_contain_text(there)
            if tab == "Logs":
                page.get_by_label("Search the logs").fill("step 2")
                expect(page.locator("mark").first).to_be_visible()
            assert faults(page) == [], tab
        # Things that only some jobs have: a report, and a TensorBoard that is elsewhere; then a job that is gone.
        board = {"url": "http://mnist-tensorboard.default.svc", "ready": True}
        failed = {"conditions": [condition("Failed", "worker-1 exited with code 1")], "tensorBoard": board}
        shown.stage.edit(TFJOBS, "default", "mnist", {"status": failed})
        for tab, there in (("Failure report", "Next: read the conditions"), ("TensorBoard", "kubectl port-forward")):
            page.get_by_role("tab", name=tab).click()
            expect(page.get_by_role("tabpanel")).to_contain_text(there)
            assert faults(page) == [], tab
        shown.stage.remove(TFJOBS, "default", "mnist")
        expect(page.get_by_role("alert")).to_be_visible()
        assert faults(page) == []
        page.get_by_role("link", name="All jobs").click()
        page.get_by_label("Filter jobs").fill("nothing like it")
        expect(page.get_by_role("heading", name="No job matches the filter")).to_be_visible()
        assert faults(page) == []
        shown.server.stop()
        expect(page.get_by_text("Connection lost")).to_be_visible()
        assert faults(page) == []
