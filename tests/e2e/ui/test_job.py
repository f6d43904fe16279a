"""The page of one job, as a person reads it."""

import re
from datetime import timedelta

import pytest
from msgspec import convert
from playwright.sync_api import Browser, expect

from tests.support.browsing import Shown, faults, overflow
from tests.support.kueue_objects import no_quota, workload
from tests.support.stage import condition, moment, report, train
from tfoperator.api.kueue.queues import QUEUE_LABEL
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.api.v1.status import JobUsage
from tfoperator.api.v1.types import TFJOBS
from tfoperator.api.v1.usage_text import resources_text, usage_text
from tfoperator.kube.protocol.resources import PODS


def test_a_job_shows_what_it_does_and_what_it_waits_for(shown: Shown) -> None:
    job = train(shown.stage)
    with shown.by() as somebody:
        page = shown.open(somebody)
        page.get_by_role("link", name="mnist").click()
        expect(page.get_by_role("heading", name="mnist")).to_be_focused()
        expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "42")
        expect(page.get_by_text("step 420 of 1,000 · 3m 20s left")).to_be_visible()
        for number in range(1, 6):
            report(shown.stage, "mnist", number, 2.3 / number)
            expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", str(42 + number))
        expect(page.get_by_text("Behind: worker-2 at step 397")).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("^loss: loss 0.46, from 0.46 to 2.301"))).to_be_visible()
        expect(page.get_by_text("Created 3 pods.")).to_be_visible()
        # One is killed, and its successor finds no room.
        status = {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: no GPU"}
            ],
        }
        shown.stage.remove(PODS, "default", "mnist-worker-1")
        expect(page.get_by_role("row").filter(has_text="worker-1")).to_contain_text("Gone")
        shown.stage.pod(job, 1, status=status, created=moment(70))
        shown.stage.edit(
            TFJOBS,
            "default",
            "mnist",
            {"status": {"conditions": [condition("Running", "worker-1 waits: Unschedulable.", "False")]}},
        )
        expect(page.get_by_role("status").filter(has_text="worker-1 waits: Unschedulable.")).to_be_visible()
        lane = page.get_by_role("row").filter(has_text="worker-1").get_by_role("img")
        expect(lane).to_have_attribute("aria-label", re.compile("running from .*; pending from .*0/3 nodes: no GPU"))
        page.get_by_role("button", name="worker-1").click()
        runs = page.get_by_role("region", name="Runs of the selected replica")
        expect(runs).to_contain_text("example.com/train:1")
        expect(runs).to_contain_text("Unschedulable: 0/3 nodes: no GPU")


def test_a_run_that_was_killed_is_red_at_its_end_and_not_for_all_the_time_that_it_trained(shown: Shown) -> None:
    job = shown.stage.job("mnist", workers=1)
    ended = {"exitCode": 137, "startedAt": moment(10), "finishedAt": moment(100)}
    container = {"name": "tensorflow", "restartCount": 0, "state": {"terminated": ended}}
    shown.stage.pod(job, 0, status={"phase": "Failed", "containerStatuses": [container]})
    with shown.by() as somebody:
        page = shown.open(somebody, "#/jobs/default/mnist")
        lane = page.get_by_role("row").filter(has_text="worker-0").get_by_role("img")
        expect(lane).to_have_attribute("aria-label", re.compile("failed from .* for 1m 30s, exit code 137"))
        trained, end = (
            float(lane.locator(f".span-{state}").get_attribute("width") or 0) for state in ("running", "failed")
        )
        assert trained > 0
        assert 0 < end <= 10, "units of a thousand"
        begins = float(lane.locator(".span-failed").get_attribute("x") or 0)
        assert begins == pytest.approx(float(lane.locator(".span-running").get_attribute("x") or 0) + trained, abs=0.2)


def test_what_the_time_went_to_is_told_as_describe_tells_it(shown: Shown) -> None:
    shown.stage.job("mnist")
    seconds: dict[str, int] = {}
    with shown.by() as somebody:
        page = shown.open(somebody, "#/jobs/default/mnist")
        time = page.get_by_role("region", name="Time")
        expect(page.get_by_role("row").filter(has_text="worker-1")).to_be_visible()
        expect(time).to_be_hidden()
        # It waits, is suspended, reports, and restarts before it ends.
        for phase in ("queued", "suspended", "starting", "training", "lost", "training", ""):
            since, source = moment(sum(seconds.values())), "Reports" if "starting" in seconds else "Pods"
            gpus = {"inUse": 4 * (phase != ""), "requestedSeconds": 7200, "trainedSeconds": 60 * len(seconds)}
            spent = {"phase": phase, "since": since, "seconds": {**seconds}, "source": source}
            usage = {**spent, "resources": {"gpu": gpus}, "resourcesSince": since}
            shown.stage.edit(TFJOBS, "default", "mnist", {"status": {"usage": usage}})
            job_usage = convert(usage, JobUsage)
            now = job_usage.time + timedelta(seconds=200)
            page.clock.set_fixed_time(now)
            match = re.fullmatch(r"training (\d+%) of the time: (.*) (\(from .*\))", usage_text(job_usage, now))
            assert match is not None
            share, parts, source = match.groups()
            expect(time.locator("header .muted")).to_have_text(f"{share} of the time was training {source}")
            sums = [re.compile(part.replace(" ", "").replace("m", "m ?") + r" \(\d+%\)$") for part in parts.split(", ")]
            expect(time.locator("dl").first.locator("div")).to_have_text(sums)
            requested = "gpu requested \u00d7 time, hours\\1 (\\2 during the training)"
            held = re.sub(r"gpu (\S+) h \((\S+) trained\)", requested, resources_text(job_usage, now))
            expect(time.locator("dl").last).to_have_text(held)
            seconds[phase] = seconds.get(phase, 0) + 200
        order = " from [^;]*; ".join(("queued", "suspended", "starting", "training", "lost", "training"))
        expect(time.get_by_role("img")).to_have_attribute("aria-label", re.compile(f"^{order} from [^;]*$"))


def test_what_the_page_may_not_do_is_a_command_to_copy(browser: Browser) -> None:
    shown = Shown(browser, commands="--context lab")
    try:
        train(shown.stage)
        with shown.by(permissions=["clipboard-read", "clipboard-write"]) as somebody:
            page = shown.open(somebody, "#/jobs/default/mnist")
            lines = page.get_by_role("region", name="Commands").get_by_role("listitem")
            common = "mnist -n default --context lab"
            named = [f"tfoperator {verb} {common}" for verb in ("suspend", "scale", "delete")]
            named[1] += " --workers 3"
            expect(lines.get_by_role("code")).to_have_text(named)
            lines.nth(1).get_by_role("button", name=f"Copy {named[1]}").click()
            assert page.evaluate("navigator.clipboard.readText()") == named[1]
            assert faults(page) == []
            shown.stage.edit(TFJOBS, "default", "mnist", {"spec": {"runPolicy": {"suspend": True}}})
            expect(lines.first).to_contain_text(f"tfoperator resume {common}")
            ended = {"completionTime": moment(90), "conditions": [condition("Succeeded", "mnist is done.")]}
            shown.stage.edit(TFJOBS, "default", "mnist", {"status": ended})
            expect(lines.get_by_role("code")).to_have_text([named[2]])
    finally:
        shown.server.stop()


def test_a_job_that_waits_in_a_queue_says_what_for(shown: Shown) -> None:
    suspended = {"conditions": [condition("Suspended", "It is suspended.")]}
    job = shown.stage.job("mnist", status=suspended, labels={QUEUE_LABEL: "research"})
    body = workload(job, no_quota())
    shown.stage.put(WORKLOADS, {**body, "metadata": {**body["metadata"], "namespace": "default"}})
    with shown.by() as somebody:
        page = shown.open(somebody)
        waits = f"Queue research: Waiting: {no_quota()['message']}"
        expect(page.get_by_role("row").filter(has_text="mnist")).to_contain_text(waits)
        page.get_by_role("link", name="mnist").click()
        expect(page.get_by_role("status").filter(has_text=waits)).to_be_visible()


def test_what_replicas_use_is_drawn_beside_their_limits(shown: Shown) -> None:
    job = train(shown.stage)
    pod = shown.stage.pod(job, 0)
    shown.stage.use(pod, "300m", "512Mi", at=21, **{"nvidia.com/gpu": "1800m"})
    with shown.by() as somebody:
        page = shown.open(somebody, "#/jobs/default/mnist/resources")
        expect(page.get_by_role("img", name=re.compile(r"^CPU \(cores\): worker-0 0.3,"))).to_be_visible()
        expect(page.get_by_role("img", name="nvidia.com/gpu: worker-0 1.8")).to_be_visible()
        row = page.get_by_role("region", name="Usage by replica").get_by_role("row").filter(has_text="worker-2")
        expect(row).to_contain_text("302")
        expect(row).to_contain_text("512 MiB")
        expect(row).to_contain_text("4 GiB")


def test_a_failed_job_says_what_went_wrong(shown: Shown) -> None:
    job = train(shown.stage)
    with shown.by() as somebody:
        page = shown.open(somebody, "#/jobs/default/mnist")
        tab = page.get_by_role("tab", name="Failure report")
        expect(page.get_by_role("tab", name="YAML")).to_be_visible()
        expect(tab).to_have_count(0)
        traceback = 'Traceback (most recent call last):\n  File "/app/train.py", line 7, in load\n'
        traceback += f"ValueError: no <b>data</b> in {'a-long-path/' * 60}\n"
        shown.stage.logs["mnist-worker-1"].write(traceback)
        ended = {"exitCode": 1, "reason": "Error", "startedAt": moment(10), "finishedAt": moment(40)}
        state = {"name": "tensorflow", "restartCount": 0, "state": {"terminated": ended}}
        shown.stage.remove(PODS, "default", "mnist-worker-1")
        shown.stage.pod(job, 1, status={"phase": "Failed", "containerStatuses": [state]})
        failed = {"status": {"conditions": [condition("Failed", "worker-1 exited with code 1")]}}
        shown.stage.edit(TFJOBS, "default", "mnist", failed)
        tab.click()
        panel = page.get_by_role("tabpanel")
        expect(panel).to_contain_text("worker-1")
        expect(panel).to_contain_text("ValueError: no <b>data</b>")
        expect(panel).to_contain_text("/app/train.py")
        # All of it fits into the width of the page, also on a phone.
        text = page.locator("pre")
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 800})
            assert text.evaluate("element => element.scrollWidth - element.clientWidth") == 0
            assert overflow(page) == 0
        # A line that is wrapped hangs below its own beginning, and is one line when it is copied.
        line = text.locator(".line", has_text="ValueError")
        box = line.bounding_box()
        assert box is not None
        assert box["height"] > 60
        assert line.inner_text().count("\n") <= 1


def test_tensorboard_is_framed_on_this_machine_and_explained_elsewhere(local: Shown) -> None:
    shown = local
    train(shown.stage)
    with shown.by() as somebody:
        page = shown.open(somebody, "#/jobs/default/mnist")
        inside = {"url": "http://mnist-tensorboard.default.svc", "ready": True}
        shown.stage.edit(TFJOBS, "default", "mnist", {"status": {"tensorBoard": inside}})
        page.get_by_role("tab", name="TensorBoard").click()
        expect(page.get_by_role("tabpanel")).to_contain_text(
            "kubectl port-forward --namespace default service/mnist-tensorboard 6006:80"
        )
        assert page.locator("iframe").count() == 0
        # The page's own address stands for a TensorBoard of this machine; it refuses to be framed, as it should.
        here = {"url": f"{shown.server.url}static/icon.svg", "ready": True}
        shown.stage.edit(TFJOBS, "default", "mnist", {"status": {"tensorBoard": here}})
        expect(page.locator("iframe")).to_have_attribute("src", here["url"])
        somebody.complaints[:] = [complaint for complaint in somebody.complaints if "frame" not in complaint]
