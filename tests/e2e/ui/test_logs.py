"""Logs, side by side, as a person searches them."""

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.support.browsing import Shown
from tests.support.stage import START, moment, train
from tfoperator.kube.protocol.resources import PODS
from tfoperator.local.node.log_store import LogStore

FROM_ABOVE = """(log) => [...log.querySelectorAll('.row')]
  .map((row) => [row.getBoundingClientRect().top, row.textContent])
  .sort(([a], [b]) => a - b).map(([, text]) => text)"""


def test_logs_stand_side_by_side_with_search_and_pause(shown: Shown) -> None:
    train(shown.stage)
    with shown.by() as somebody:
        page = shown.open(somebody, "#/jobs/default/mnist/logs")
        first, second = page.get_by_role("log", name="Log of worker-0"), page.get_by_role("log", name="Log of worker-1")
        expect(first).to_contain_text("step 299 loss=0.0033 worker 0")
        expect(second).to_contain_text("step 299 loss=0.0033 worker 1")
        expect(first.locator(".f2").last).to_have_text("step 299")  # green
        page.keyboard.press("/")
        page.keyboard.type("step 15")
        expect(page.locator("[data-replica=worker-0] [role=status]")).to_have_text(re.compile("^11 found"))
        page.keyboard.press("Enter")
        expect(page.locator("[data-replica=worker-0] .now")).to_contain_text("step 15 ")
        page.keyboard.press("Enter")
        expect(page.locator("[data-replica=worker-0] .now")).to_contain_text("step 150 ")
        page.keyboard.press("Shift+Enter")
        page.keyboard.press("Shift+Enter")
        expect(page.locator("[data-replica=worker-0] .now")).to_contain_text("step 159 ")
        page.get_by_role("button", name="Only matching lines").click()
        expect(first.locator(".row")).to_have_count(11)
        page.get_by_label("Search the logs").fill("")
        page.get_by_role("button", name="Pause").click()
        shown.stage.logs["mnist-worker-0"].write("while you were away\n")
        expect(page.locator("[data-replica=worker-0] header")).to_contain_text("paused, 1 new")
        expect(first).not_to_contain_text("while you were away")
        page.get_by_role("button", name="Pause").click()
        first.press("End")
        expect(first).to_contain_text("while you were away")
        page.get_by_role("button", name="worker-1", exact=True).click()
        expect(second).to_have_count(0)
        expect(first).to_contain_text("while you were away")


def test_enter_in_the_moment_of_the_last_letter_jumps_to_what_was_typed(shown: Shown) -> None:
    train(shown.stage)
    with shown.by() as somebody:
        page = shown.open(somebody, "#/jobs/default/mnist/logs")
        expect(page.get_by_role("log", name="Log of worker-0")).to_contain_text("step 299 loss=0.0033 worker 0")
        at_once = """(box) => {
            box.value = "step 15";
            box.dispatchEvent(new InputEvent("input", {bubbles: true}));
            box.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
        }"""
        page.get_by_label("Search the logs").evaluate(at_once)
        expect(page.locator("[data-replica=worker-0] .now")).to_contain_text("step 15 ")


def test_logs_that_are_left_take_none_of_the_few_connections_that_a_browser_has(shown: Shown) -> None:
    train(shown.stage, workers=1)
    with shown.by() as somebody:
        page = shown.open(somebody)
        for _ in range(8):  # browsers have six connections to a server
            page.get_by_role("link", name="mnist", exact=True).click()
            page.get_by_role("tab", name="Logs").click()
            expect(page.get_by_role("log", name="Log of worker-0")).to_contain_text("step 299")
            page.get_by_role("link", name="All jobs").click()
        expect(page.get_by_role("link", name="mnist", exact=True)).to_be_visible()


def test_a_restart_is_seen_in_the_log(shown: Shown) -> None:
    job = train(shown.stage, workers=1)
    with shown.by() as somebody:
        page = shown.open(somebody, "#/jobs/default/mnist/logs")
        log = page.get_by_role("log", name="Log of worker-0")
        expect(log).to_contain_text("step 299")
        shown.stage.logs["mnist-worker-0"].end()
        ended = {
            "terminated": {"startedAt": moment(10), "finishedAt": moment(50), "exitCode": 137, "reason": "OOMKilled"}
        }
        del shown.stage.logs["mnist-worker-0"]
        shown.stage.logs["mnist-worker-0"].write("second run\n")
        again = {
            "name": "tensorflow",
            "restartCount": 1,
            "state": {"running": {"startedAt": moment(60)}},
            "lastState": ended,
        }
        shown.stage.pod(job, 0, status={"phase": "Running", "containerStatuses": [again]})
        expect(log).to_contain_text("mnist-worker-0, run 2")
        expect(log).to_contain_text("second run")
        page.get_by_role("tab", name="Overview").click()
        lane = page.get_by_role("row").filter(has_text="worker-0").get_by_role("img")
        expect(lane).to_have_attribute(
            "aria-label",
            re.compile("failed from .*exit code 137, OOMKilled; restarted in place; waiting from .*; running"),
        )


def test_a_page_that_is_opened_late_shows_every_attempt_and_where_each_began(browser: Browser, tmp_path: Path) -> None:
    logs = LogStore(tmp_path)
    shown = Shown(browser, attempts=logs.attempts)
    try:
        job = train(shown.stage, workers=1)
        pod = shown.stage.pod(job, 0)["metadata"]
        for owner, text in (("an-earlier-pod", "first words\n"), (pod["uid"], "second words\n"), (pod["uid"], "")):
            logs.open("default", pod["name"], "tensorflow", owner=owner).path.write_text(text)
        status = {"name": "tensorflow", "restartCount": 1, "state": {"running": {"startedAt": moment(10)}}}
        shown.stage.edit(PODS, "default", pod["name"], {"status": {"containerStatuses": [status]}})
        with shown.by() as somebody:
            page = shown.open(somebody, "#/jobs/default/mnist/logs")
            log = page.get_by_role("log", name="Log of worker-0")
            expect(log).to_contain_text("step 299")
            log.press("Home")
            begins = [
                "first words",
                "mnist-worker-0, a new pod with the same name, run 1",
                "second words",
                "mnist-worker-0, run 2",
                "step 0",
            ]
            expect(log.locator(".row").filter(has_text="first words")).to_be_in_viewport()
            first = log.evaluate(FROM_ABOVE)[: len(begins)]
            assert [line for line, part in zip(first, begins, strict=True) if part not in line] == []
    finally:
        shown.server.stop()


def test_logs_of_the_archive_can_be_read_when_their_pods_are_gone(browser: Browser, tmp_path: Path) -> None:
    from tfoperator.logs.archive.layout import RECORD, ArchivedContainer, ArchivedPod, encode_record, job_folder

    shown = Shown(browser, archive_dir=tmp_path)
    try:
        job = train(shown.stage)
        uid = job["metadata"]["uid"]
        folder = tmp_path / job_folder("default", "mnist", uid) / "mnist-worker-7.12345678"
        folder.mkdir(parents=True)
        kept = ArchivedContainer(name="tensorflow", exit_code=137, log="tensorflow.log", finished=START, size=11)
        labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "7"}
        record = ArchivedPod("default", "mnist", uid, "mnist-worker-7", "12345678-0", START, labels, containers=(kept,))
        (folder / RECORD).write_bytes(encode_record(record))
        (folder / "tensorflow.log").write_text("last words\n")
        with shown.by() as somebody:
            page = shown.open(somebody, "#/jobs/default/mnist/logs")
            page.get_by_label("Logs in the archive").select_option(index=1)
            expect(page.get_by_role("log", name="Log of worker-7, run 1 (archive)")).to_contain_text("last words")
    finally:
        shown.server.stop()
