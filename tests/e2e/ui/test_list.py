"""The list of jobs, as a person uses it."""

import re

from playwright.sync_api import Locator, expect

from tests.support.browsing import Shown, overflow
from tests.support.stage import condition, moment, train
from tfoperator.api.v1.types import TFJOBS


def test_a_link_lets_one_browser_in(shown: Shown) -> None:
    train(shown.stage)
    link = shown.links[0]
    with shown.by() as somebody:
        page = shown.open(somebody)
        assert "token" not in page.url
        expect(page.get_by_role("link", name="mnist")).to_be_visible()
        page.reload()
        expect(page.get_by_role("link", name="mnist")).to_be_visible()
        again = somebody.open(link)  # it has a session, so a used link does no harm
        expect(again.get_by_role("link", name="mnist")).to_be_visible()
    with shown.by() as stranger:
        page = stranger.open(link)
        expect(page.get_by_role("heading", name="Open the link from the terminal")).to_be_visible()


def test_the_list_is_filtered_by_words_and_states_and_follows_what_happens(shown: Shown) -> None:
    train(shown.stage)
    shown.stage.job(
        "resnet", namespace="vision", status={"conditions": [condition("Failed", "worker-1 failed: exit code 1.")]}
    )
    shown.stage.job(
        "bert",
        status={
            "conditions": [
                condition("Created", "made"),
                condition("Running", "worker-0 waits: Unschedulable.", "False"),
            ]
        },
    )
    with shown.by() as somebody:
        page = shown.open(somebody)
        rows = page.get_by_role("table", name="Jobs").get_by_role("link")
        expect(rows).to_have_count(3)
        page.get_by_label("Filter jobs").fill("exit code")
        expect(rows).to_have_text(["resnet"])
        page.get_by_label("Filter jobs").fill("vis res")
        expect(rows).to_have_text(["resnet"])
        page.get_by_label("Filter jobs").fill("nothing like it")
        expect(page.get_by_role("heading", name="No job matches the filter")).to_be_visible()
        page.get_by_label("Filter jobs").fill("")
        page.get_by_role("button", name=re.compile("Running")).click()
        expect(rows).to_have_text(["mnist"])
        assert "state=Running" in page.url
        page.reload()
        expect(rows).to_have_text(["mnist"])
        page.get_by_role("button", name=re.compile("All")).click()
        shown.stage.edit(
            TFJOBS, "default", "bert", {"status": {"conditions": [condition("Succeeded", "bert is done.")]}}
        )
        expect(page.get_by_role("row").filter(has_text="bert")).to_contain_text("Succeeded")
        shown.stage.remove(TFJOBS, "vision", "resnet")
        expect(rows).to_have_count(2)
        page.get_by_role("button", name="Job", exact=True).click()
        expect(rows).to_have_text(["bert", "mnist"])


def test_the_list_says_how_long_what_it_came_to_and_what_is_used(shown: Shown) -> None:
    job = train(shown.stage)
    for index, gpu in ((0, "900m"), (1, "600m")):
        shown.stage.use(shown.stage.pod(job, index), "300m", "512Mi", at=21, **{"nvidia.com/gpu": gpu})
    ended = {"startTime": moment(2), "completionTime": moment(302), "ready": "0/2"}
    done = {"progress": {"percentage": 100, "metrics": [{"name": "loss", "value": "0.0312345"}]}}
    shown.stage.job("bert", status=ended | done | {"conditions": [condition("Succeeded", "bert is done.")]})
    with shown.by() as somebody:
        page = shown.open(somebody)
        heads = page.get_by_role("columnheader")
        expect(heads).to_have_text(
            ["Job", "State", "Activity", "Last metric", "CPU", "GPU", "Ready", "Restarts", "Duration", "Age"]
        )

        def cells(name: str) -> Locator:
            return page.get_by_role("row").filter(has=page.get_by_role("link", name=name)).get_by_role("cell")

        expect(cells("bert").nth(0)).to_have_text("bert")  # its namespace is everybody's
        expect(cells("bert")).to_contain_text(
            ["bert", "Succeeded", "bert is done.", "loss 0.03123", "", "", "", "", "5m", ""]
        )
        expect(cells("mnist")).to_contain_text(
            ["mnist", "Running", "42%, 3m 20s left", "loss 2.301", "0.902", "1.5", "3/3", "", "", ""]
        )
        assert page.get_by_text("Is running.").count() == 0
        shown.stage.job("resnet", namespace="vision")
        expect(cells("bert").nth(0)).to_have_text("bertdefault")
        page.set_viewport_size({"width": 1000, "height": 800})
        assert overflow(page) == 0


def test_five_thousand_jobs_and_400_000_lines_are_a_handful_of_elements(shown: Shown) -> None:
    for number in range(5000):
        shown.stage.job(f"job-{number:04}", created=moment(number))
    log = "".join(f"line {number}\n" for number in range(400_000))
    job = shown.stage.job("big", workers=1, created=moment(9000))
    shown.stage.pod(job, 0)
    shown.stage.logs["big-worker-0"].write(log)
    with shown.by() as somebody:
        page = shown.open(somebody)
        table = page.get_by_role("table", name="Jobs")
        expect(table).to_have_attribute("aria-rowcount", "5002")
        assert table.get_by_role("link").count() < 60
        page.get_by_role("link", name="big").focus()
        page.keyboard.press("End")
        expect(page.get_by_role("link", name="job-0000")).to_be_focused()
        assert table.get_by_role("link").count() < 60
        page.goto(f"{shown.server.url}#/jobs/default/big/logs")
        page.get_by_role("button", name="Load more lines").click()
        pane = page.get_by_role("log", name="Log of worker-0")
        expect(page.locator("[data-replica=worker-0] header")).to_contain_text("400,000 lines")
        expect(pane).to_contain_text("line 399999")
        pane.press("Home")
        expect(pane).to_contain_text("line 0")
        assert pane.locator(".row").count() < 100
        pane.press("End")
        expect(pane).to_contain_text("line 399999")
        pane.press("Home")
        expect(pane).to_contain_text("line 0")
        page.get_by_label("Search the logs").fill("line 344444")
        expect(page.locator("[data-replica=worker-0] header")).to_contain_text("1 found")
        page.get_by_label("Search the logs").press("Enter")
        expect(pane.locator(".now")).to_have_text("line 344444")
