"""Pipeline runs on the page, as a person reads them. All runs are real, but for records that strangers wrote."""

import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.ui.test_everybody import PHONE
from tests.e2e.ui.test_hostile import HOSTILE
from tests.support.browsing import Shown, faults, overflow
from tests.support.threads import InThread
from tests.unit.pipeline.samples import ON_THE_WAY, diamond, fails, runner
from tfoperator.launcher import PermanentFailure
from tfoperator.launcher.core.record import LaunchRecord, WorkDirectory
from tfoperator.pipeline import Home, PipelineFailed
from tfoperator.pipeline.store.records import ArtifactRecord, ExecutionRecord, RunRecord

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    ON_THE_WAY.clear()
    yield Home(tmp_path / "home")
    ON_THE_WAY.clear()


@pytest.fixture
def shown(browser: Browser, home: Home) -> Iterator[Shown]:
    made = Shown(browser, pipelines=home.path)
    yield made
    made.server.stop()


def log_of(home: Home, run: str, step: str, text: str) -> None:
    log = home.logs.append_to(run, step)
    for line in text.splitlines():
        log(line)


def says(*lines: str, until: threading.Event | None = None) -> Any:
    def work(_: Any, __: Any, exec_properties: Any) -> None:
        folder = Path(exec_properties["tmp_path"]).parents[2]
        log_of(Home(folder.parents[1]), folder.name, exec_properties["name"], "\n".join(lines))
        if until is not None:
            until.wait(60)

    return work


def a_failed_run(tmp_path: Path) -> str:
    ON_THE_WAY["left"] = fails(PermanentFailure("no data"))
    with pytest.raises(PipelineFailed) as caught:
        runner(tmp_path).run(diamond(tmp_path, left=99))
    ON_THE_WAY.clear()
    return caught.value.result.run_id


def node(page: Page, step: str) -> Any:
    return page.get_by_role("region", name="Graph of the steps").get_by_role("link", name=re.compile(f"^{step}:"))


def test_a_person_follows_a_run_from_the_list_to_what_came_of_it(shown: Shown, home: Home, tmp_path: Path) -> None:
    first = runner(tmp_path).run(diamond(tmp_path))
    go = threading.Event()
    ON_THE_WAY["left"] = says("epoch 1 of 2", "loss 0.31", until=go)
    with shown.by() as somebody:
        page = shown.open(somebody)
        page.get_by_role("link", name="Pipelines").click()
        expect(page.get_by_role("heading", name="Pipeline runs")).to_be_visible()
        expect(page.get_by_role("row").filter(has_text=first.run_id)).to_contain_text("Succeeded")
        # Another one begins, with another parameter: it uses again what does not depend on it.
        call = InThread(lambda: runner(tmp_path).run(diamond(tmp_path, left=20)))
        row = page.get_by_role("row").filter(has_text="Running")
        expect(row).to_contain_text("2/4")
        row.get_by_role("link").click()
        expect(page.get_by_role("heading", name="diamond")).to_be_focused()
        expect(node(page, "begin")).to_have_attribute("aria-label", re.compile("cached"))
        expect(node(page, "left")).to_have_attribute("aria-label", re.compile("running, "))
        # A running step is shown by itself, with its log as it comes.
        log = page.get_by_role("log", name="Log of left")
        expect(log).to_contain_text("loss 0.31")
        go.set()
        second = call.result(60)
        expect(node(page, "end")).to_have_attribute("aria-label", re.compile("succeeded"))
        expect(page.get_by_text("4 of 4 done")).to_be_visible()
        expect(page.locator(".title .badge")).to_have_text("Succeeded")
        # A reused step names the run that made its output.
        node(page, "begin").click()
        detail = page.get_by_role("region", name="Step begin")
        expect(detail.get_by_role("heading", name="begin")).to_be_focused()
        expect(detail.get_by_role("link", name=f"begin of run {first.run_id}").first).to_be_visible()
        # From a step to what it made, from there to where it came from, and on to the run that made that.
        page.get_by_role("region", name="Steps", exact=True).get_by_role("link", name="end").click()
        detail = page.get_by_role("region", name="Step end")
        expect(detail.get_by_role("region", name="Inputs")).to_contain_text(f"left of run {second.run_id}")
        expect(detail.get_by_role("region", name="Outputs")).to_contain_text("total 122")
        detail.get_by_role("region", name="Outputs").get_by_role("link").first.click()
        made = page.get_by_role("region", name="Made from")
        expect(made).to_contain_text(f"left of run {second.run_id}")
        expect(made).to_contain_text(f"begin of run {first.run_id}")
        made.get_by_role("link", name=f"right of run {first.run_id}").click()
        expect(page.get_by_role("region", name="Step right")).to_contain_text("total 101")
        page.go_back()
        expect(page.get_by_role("region", name="Used for")).to_be_visible()


def test_a_failure_is_what_one_sees_first(shown: Shown, home: Home, tmp_path: Path) -> None:
    run = a_failed_run(tmp_path)
    with shown.by() as somebody:
        page = shown.open(somebody, f"#/runs/{run}")
        detail = page.get_by_role("region", name="Step left")
        expect(detail).to_contain_text("no data")
        expect(page.get_by_role("status").filter(has_text="left:")).to_be_visible()
        expect(node(page, "end")).to_have_attribute("aria-label", "end: not run")
        # Somebody cleans up: the page shows it.
        with home.store() as store:
            store.forget_run(run)
        expect(page.get_by_role("alert")).to_contain_text("does not exist, or it was removed")


@pytest.mark.parametrize("options", [{"color_scheme": "light"}, {"color_scheme": "dark"}, PHONE])
def test_runs_are_for_everybody(shown: Shown, tmp_path: Path, options: dict[str, Any]) -> None:
    result = runner(tmp_path).run(diamond(tmp_path))
    failed = a_failed_run(tmp_path)
    log_of(
        Home(tmp_path / "home"), result.run_id, "end", "a log line that is longer than a phone is wide, by far\n" * 50
    )
    number = result.results["end"].execution_id
    with shown.by(**options) as somebody:
        page = shown.open(somebody, "#/runs")
        expect(page.get_by_role("link", name="diamond").first).to_be_visible()
        for address, there in (
            ("#/runs", "2"),
            (f"#/runs/{failed}", "no data"),
            (f"#/runs/{result.run_id}/end", "than a phone is wide"),
            (f"#/artifacts/{number}", "Made from"),
        ):
            page.goto(f"{shown.server.url}{address}")
            expect(page.locator("main")).to_contain_text(there)
            assert overflow(page) == 0, address
            if options is not PHONE:
                assert faults(page) == [], address


def test_the_keyboard_is_enough(shown: Shown, tmp_path: Path) -> None:
    runner(tmp_path).run(diamond(tmp_path))
    with shown.by() as somebody:
        page = shown.open(somebody, "#/runs")
        expect(page.get_by_role("link", name="diamond")).to_be_visible()
        page.keyboard.press("/")
        expect(page.get_by_label("Filter runs")).to_be_focused()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="diamond")).to_be_focused()
        node(page, "left").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="Step left").get_by_role("heading", name="left")).to_be_focused()
        page.keyboard.press("/")
        expect(page.get_by_label("Search the log")).to_be_focused()
        page.keyboard.press("Escape")
        page.get_by_role("region", name="Steps", exact=True).get_by_role("link", name="begin").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name=re.compile("^Step (left|right)$"))).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("heading", name="Pipeline runs")).to_be_focused()


def test_what_strangers_wrote_into_a_run_stays_text(shown: Shown, home: Home) -> None:
    """A hostile home: names of pipelines, steps, outputs and parameters, URIs, properties, messages and logs."""
    step = HOSTILE.replace("/", "")
    name = HOSTILE[:80]  # with the step it names a context, and a context's name has at most 255 characters
    run = RunRecord("evil", name, "failed", HOSTILE, "f", NOW, NOW, HOSTILE, {step: ()}, HOSTILE, {HOSTILE: HOSTILE})
    with home.store() as store:
        store.put_run(run)
        outputs = {HOSTILE: (ArtifactRecord(0, HOSTILE, "javascript:alert(8)", "PENDING", {HOSTILE: HOSTILE}),)}
        new = ExecutionRecord(0, "evil", step, HOSTILE, "RUNNING", "", "", "", {HOSTILE: [HOSTILE]}, {}, outputs)
        made = store.begin_execution(run, new, NOW)
        store.publish(run, msgspec.structs.replace(made, state="COMPLETE", message=HOSTILE, image_id=HOSTILE), NOW)
    home.logs.file("evil", step).parent.mkdir(parents=True)
    home.logs.file("evil", step).write_text(HOSTILE + "\n")
    with WorkDirectory(home.step_folder("evil", step)) as work:
        work.save(LaunchRecord(step, "f", 1, "x", 1, HOSTILE, HOSTILE, "created", kind=HOSTILE))
    with shown.by() as somebody:
        page = shown.open(somebody, "#/runs")
        page.get_by_role("link", name="<img src=x").click()
        expect(page.get_by_role("log")).to_contain_text("<img src=x onerror=alert(1)>")
        expect(page.get_by_role("region", name="Outputs")).to_contain_text("javascript:alert(8)")
        expect(page.locator("body")).to_contain_text("⟨202E⟩gnp.exe⟨2066⟩")
        harmless = "main img, main script, main a:not([href^='#/'])"
        assert page.locator(harmless).count() == 0
        page.get_by_role("region", name="Outputs").get_by_role("link").first.click()
        expect(page.get_by_role("region", name="Made from")).to_contain_text("javascript:alert(8)")
        assert page.locator(harmless).count() == 0
        for address in ("#/runs/" + quote("../../etc/passwd", safe=""), "#/artifacts/" + quote(HOSTILE, safe="")):
            page.goto(f"{shown.server.url}{address}")
            expect(page.get_by_role("alert")).to_be_visible()
        somebody.complaints[:] = [complaint for complaint in somebody.complaints if "404" not in complaint]
