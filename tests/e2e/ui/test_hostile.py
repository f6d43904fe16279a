"""Text of strangers in every place where text is shown: nothing of it runs."""

import re

from playwright.sync_api import expect

from tests.support.browsing import Shown
from tests.support.stage import condition, moment
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.resources import PODS

HOSTILE = (
    "<img src=x onerror=alert(1)><script>alert(2)</script>"
    "\x1b]0;owned\x07\x1b]8;;javascript:alert(3)\x1b\\link\x1b]8;;\x1b\\\x1b[2J\x1b[31mred\x1b[0m"
    "\u202egnp.exe\u2066javascript:alert(4)"
)


def test_strangers_text_stays_text(shown: Shown) -> None:
    """Names, messages, metrics, labels, YAML and logs that would run, retitle or reorder if they could."""
    progress = {
        "percentage": 1,
        "metrics": [{"name": HOSTILE, "value": HOSTILE}, {"name": f"{HOSTILE}2", "value": "1"}],
        "replica": HOSTILE,
        "behind": [{"name": HOSTILE, "step": 1}],
        "lastUpdatedTime": moment(5),
    }
    board = {"url": "javascript:alert(5)", "ready": True}
    status = {
        "conditions": [condition("Running", HOSTILE), condition(HOSTILE, HOSTILE)],
        "progress": progress,
        "tensorBoard": board,
        "ready": HOSTILE,
    }
    labels = {"kueue.x-k8s.io/queue-name": HOSTILE}
    job = shown.stage.job("evil<img src=x onerror=alert(6)>", workers=1, status=status, labels=labels)
    waiting = {"waiting": {"reason": HOSTILE, "message": HOSTILE}}
    pod = shown.stage.pod(
        job,
        0,
        image=HOSTILE,
        status={"phase": "Pending", "containerStatuses": [{"name": "tensorflow", "state": waiting}]},
    )
    shown.stage.use(pod, "1", "1Gi", at=5, **{HOSTILE: "1"})
    shown.stage.event(job, HOSTILE, HOSTILE, warning=True)
    name = pod["metadata"]["name"]
    with shown.by() as somebody:
        page = shown.open(somebody)
        page.get_by_role("link", name="evil").click()
        page.get_by_role("button", name="worker-0").click()
        expect(page.get_by_role("region", name="Runs of the selected replica")).to_contain_text("<img src=x")
        expect(page.locator("body")).to_contain_text("⟨202E⟩gnp.exe⟨2066⟩")
        for tab in ("Resources", "TensorBoard", "YAML"):
            page.get_by_role("tab", name=tab).click()
            expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
        expect(page.get_by_label("The job as YAML")).to_contain_text("onerror=alert(6)")
        shown.stage.logs[name].write(f"{HOSTILE}\n\0run 7 begins\n")
        running = {"name": "tensorflow", "state": {"running": {"startedAt": moment(3)}}}
        shown.stage.edit(PODS, "default", name, {"status": {"phase": "Running", "containerStatuses": [running]}})
        page.get_by_role("tab", name="Logs").click()
        row = page.get_by_role("log", name="Log of worker-0").locator(".row")
        expect(row.first).to_contain_text("<img src=x onerror=alert(1)>")
        assert (
            row.first.inner_text()
            == "<img src=x onerror=alert(1)><script>alert(2)</script>linkred⟨202E⟩gnp.exe⟨2066⟩javascript:alert(4)"
        )
        expect(row.first.locator(".f1")).to_have_text("red")
        expect(row.nth(1)).to_have_text("\ufffdrun 7 begins")
        expect(row.nth(1)).not_to_have_class("row mark")
        assert page.locator("main img, main script, main a[href^=javascript]").count() == 0
        assert page.title() == "evil<img src=x onerror=alert(6)> · tfoperator"
        for attempt in (
            "document.body.innerHTML = '<b>x</b>'",
            "document.createElement('script').text = 'alert(7)'",
            "document.body.insertAdjacentHTML('beforeend', '<img>')",
            "new DOMParser().parseFromString('<b>', 'text/html')",
            "trustedTypes.createPolicy('mine', {})",
        ):
            outcome = page.evaluate(f"try {{ {attempt}; 'it worked' }} catch (error) {{ String(error) }}")
            assert outcome.startswith("TypeError"), attempt
        # The browser reports what it has refused just now; nothing else, and no dialog.
        somebody.complaints[:] = [
            complaint for complaint in somebody.complaints if "Trusted" not in complaint and "trusted" not in complaint
        ]


def test_numbers_that_no_axis_can_span_are_said_and_harm_no_page(shown: Shown) -> None:
    shown.stage.job("mnist", workers=1, status={"conditions": [condition("Running", "It runs.")]})
    values = [("1.7e308", "1e-320", "nan"), ("-1.7e308", "1e-320", "inf"), ("1.7e308", "2e-320", "0x10")]
    with shown.by() as somebody:
        page = shown.open(somebody, "#/jobs/default/mnist")
        expect(page.get_by_role("heading", name="mnist")).to_be_visible()
        for number, (huge, tiny, none) in enumerate(values):
            values_by_name = {"huge": huge, "tiny": tiny, "none": none, "still": "1.79e308"}
            metrics = [{"name": name, "value": value} for name, value in values_by_name.items()]
            progress = {
                "percentage": number,
                "step": 2**52 + number,
                "totalSteps": 1,
                "estimatedRemainingSeconds": 2**63 - 1,
                "metrics": metrics,
                "lastUpdatedTime": moment(number),
            }
            shown.stage.edit(TFJOBS, "default", "mnist", {"status": {"progress": progress}})
            expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", str(number))
        expect(
            page.get_by_role("img", name=re.compile("^huge: huge 1.7e.?308, from -1.7e.?308 to 1.7e.?308"))
        ).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("^tiny: "))).to_be_visible()
        drawn = page.locator("svg[role=img] :is(path, line, circle, text)").evaluate_all(
            "all => all.map(one => one.outerHTML)"
        )
        assert drawn
        assert not [markup for markup in drawn if "NaN" in markup or "Infinity" in markup or "undefined" in markup]
