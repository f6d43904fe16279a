"""Jobs and pipeline runs as they are shown on the page: for screenshots, and to look at it by hand.

python -m hack.ui_demo                 # serve them until Ctrl-C
python -m hack.ui_demo --screenshots   # write docs/ui-*.png anew
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from hack.chromium import running_chromium
from hack.ui_demo_pipelines import played
from tests.support.stage import Stage
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.resources import PODS
from tfoperator.ui import PageContent, UiServer

DOCS = Path(__file__).resolve().parents[1] / "docs"
_NOW = datetime.now(UTC)


def ago(seconds: float) -> str:
    """A time so many seconds ago, as the API writes it."""
    return (_NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _condition(kind: str, message: str, seconds: float, status: str = "True") -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": f"TFJob{kind}",
        "message": message,
        "lastTransitionTime": ago(seconds),
    }


def _running(started: float, restarts: int = 0, last: dict[str, Any] | None = None) -> dict[str, Any]:
    status: dict[str, Any] = {
        "name": "tensorflow",
        "ready": True,
        "restartCount": restarts,
        "state": {"running": {"startedAt": ago(started)}},
    }
    if last is not None:
        status["lastState"] = {"terminated": last}
    return {"phase": "Running", "startTime": ago(started), "containerStatuses": [status]}


def _ended(started: float, ended: float, code: int, reason: str) -> dict[str, Any]:
    return {"startedAt": ago(started), "finishedAt": ago(ended), "exitCode": code, "reason": reason}


_LIFE = (
    ("queued", 1560),
    ("scheduling", 1556),
    ("starting", 1520),
    ("training", 1462),
    ("lost", 820),
    ("training", 735),
    ("lost", 240),
    ("training", 200),
)
"""The phases of the job that reports, and how many seconds ago each began."""


def _usage(number: int) -> dict[str, Any]:
    """What its time went to until the phase of this number."""
    seconds: dict[str, int] = {}
    for (phase, began), (_, ended) in pairwise(_LIFE[: number + 1]):
        seconds[phase] = seconds.get(phase, 0) + began - ended
    phase, since = _LIFE[number]
    trained, held = seconds.get("training", 0), sum(seconds.values())
    resources = {
        name: {"inUse": amount, "requestedSeconds": amount * held, "trainedSeconds": amount * trained}
        for name, amount in (("cpu", 32), ("memory", 128 * 2**30), ("nvidia.com/gpu", 4))
    }
    usage = {"phase": phase, "since": ago(since), "seconds": seconds, "source": "Reports"}
    return {**usage, "resources": resources, "resourcesSince": ago(since)}


def _report(stage: Stage, number: int) -> None:
    loss = 2.2 * math.exp(-number / 22) + 0.16 + 0.05 * math.sin(number * 1.7)
    accuracy = 0.97 - 0.85 * math.exp(-number / 16) + 0.012 * math.sin(number * 2.3)
    metrics = [{"name": "loss", "value": f"{loss:.4f}"}, {"name": "accuracy", "value": f"{accuracy:.4f}"}]
    metrics.append({"name": "learning_rate", "value": f"{0.001 * 0.97**number:.6f}"})
    progress = {
        "percentage": number * 62 // 60,
        "step": number * 620 // 60 * 50,
        "totalSteps": 50000,
        "estimatedRemainingSeconds": 1500 - number * 9,
        "metrics": metrics,
        "lastUpdatedTime": ago((60 - number) * 25),
    }
    stage.edit(TFJOBS, "vision", "resnet-imagenet", {"status": {"progress": progress}})


def play(stage: Stage) -> None:
    """Put the jobs on the stage. The one that reports does so afterwards: see `report`."""
    said = "TFJob vision/resnet-imagenet is running. 3/4 replicas ready; worker-2 waits: Unschedulable."
    status = {
        "conditions": [
            _condition("Created", "TFJob resnet-imagenet is created.", 1560),
            _condition("Running", said, 1490),
        ],
        "operatorConditions": [_condition("Ready", "3/4 replicas ready.", 240, "False")],
        "startTime": ago(1555),
        "ready": "3/4",
        "restarts": 2,
        "usage": _usage(0),
    }
    job = stage.job(
        "resnet-imagenet", namespace="vision", workers=3, status=status, created=ago(1560), labels={"team": "vision"}
    )
    stage.edit(
        TFJOBS, "vision", "resnet-imagenet", {"spec": {"tfReplicaSpecs": {"Chief": {"replicas": 1, "template": {}}}}}
    )
    oom = _ended(1490, 820, 137, "OOMKilled")
    stage.pod(job, 0, kind="chief", status=_running(1490), created=ago(1556))
    stage.pod(job, 0, status=_running(1488), created=ago(1556))
    stage.pod(job, 1, status=_running(790, 1, oom), created=ago(1556))
    stage.pod(job, 2, status=_running(1485), created=ago(1556))
    for pod in stage.objects(PODS, "vision"):
        _use(stage, pod, "6800m", "0.93")
    stage.event(job, "SuccessfulCreatePod", "Created 4 pods and 4 services.", at=ago(1556))
    again = "restart 1 in pod resnet-imagenet-worker-1, last exit code 137 (SIGKILL, OOMKilled)."
    stage.event(job, "RestartedInPlace", f"worker-1 is restarted in place: {again}", warning=True, at=ago(790))
    for other in _OTHERS:
        _play_other(stage, *other)


def _use(stage: Stage, pod: dict[str, Any], cpu: str, gpus: str) -> None:
    stage.use(pod, cpu, "24Gi", at=0, **{"nvidia.com/gpu": gpus})
    stage.metrics[pod["metadata"]["name"]]["timestamp"] = ago(5)


_OTHERS: tuple[tuple[str, str, str, str, float, str, int, int | None], ...] = (
    ("nlp", "bert-finetune", "Running", "is running.", 5400, "9/9", 0, 78),
    ("nlp", "gpt-small", "Restarting", "restarts. worker-3 failed with exit code 137.", 8100, "7/8", 4, 31),
    ("vision", "mnist-sweep-17", "Succeeded", "successfully completed.", 9900, "0/3", 0, 100),
    ("vision", "mnist-sweep-16", "Succeeded", "successfully completed.", 9960, "0/3", 0, 100),
    ("vision", "segmentation", "Failed", "has failed: worker-1 exited with code 1.", 12000, "0/4", 3, 12),
    ("audio", "speech-large", "Created", "does not run yet: no node has 8 nvidia.com/gpu.", 700, "0/8", 0, None),
    ("ads", "recommender", "Suspended", "is suspended.", 86000, "0/6", 0, 44),
)
"""Namespace, name, state, what it says, its age in seconds, ready replicas, restarts, percent."""


def _play_other(
    stage: Stage,
    namespace: str,
    name: str,
    state: str,
    says: str,
    age: float,
    ready: str,
    restarts: int,
    percent: int | None,
) -> None:
    over = state in ("Succeeded", "Failed")
    left = 60 * (100 - percent) if percent is not None else None
    metric = {"name": "loss", "value": f"{2.5 / (1 + (percent or 0) / 20):.3f}"}
    status = {
        "conditions": [_condition(state, f"TFJob {namespace}/{name} {says}", age / 2)],
        "startTime": ago(age - 20),
        "completionTime": ago(age / 2) if over else None,
        "ready": ready,
        "restarts": restarts,
        "progress": None
        if percent is None
        else {"percentage": percent, "estimatedRemainingSeconds": left, "metrics": [metric]},
    }
    job = stage.job(name, namespace=namespace, created=ago(age), status=status)
    if not over and percent is not None and state != "Suspended":
        for index in range(int(ready[0])):
            _use(stage, stage.pod(job, index, status=_running(age - 60), created=ago(age)), "3100m", "0.88")


def go_on(stage: Stage) -> None:
    """What happens while somebody watches: reports come, logs grow, and a worker's node goes."""
    for number in range(1, len(_LIFE)):
        stage.edit(TFJOBS, "vision", "resnet-imagenet", {"status": {"usage": _usage(number)}})
    for number in range(1, 61):
        _report(stage, number)
    job = next(one for one in stage.objects(TFJOBS) if one["metadata"]["name"] == "resnet-imagenet")
    for kind, index in (("chief", 0), ("worker", 0), ("worker", 1)):
        _log(stage, f"resnet-imagenet-{kind}-{index}", index)
    stage.remove(PODS, "vision", "resnet-imagenet-worker-2")
    waits = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/12 nodes have nvidia.com/gpu",
    }
    stage.pod(job, 2, status={"phase": "Pending", "conditions": [waits]}, created=ago(240))
    stage.event(
        job, "DisruptedPod", "worker-2 was on a node that is gone; it is made again.", warning=True, at=ago(240)
    )


def _log(stage: Stage, pod: str, index: int) -> None:
    lines = []
    for step in range(1, 400):
        loss, rate = 2.2 * math.exp(-step / 140) + 0.16, 810 + index * 7
        when = (_NOW - timedelta(seconds=(400 - step) * 3.5)).strftime("%H:%M:%S")
        lines.append(f"\x1b[2m{when}\x1b[0m \x1b[32mINFO\x1b[0m  step {step * 50:>6}  loss={loss:.4f}  images/s={rate}")
        if step % 37 == 0:
            lines.append(f"\x1b[2m{when}\x1b[0m \x1b[33mWARN\x1b[0m  input pipeline stalled for 1.2 s")
    stage.logs[pod].write("\n".join(lines) + "\n")


@contextmanager
def served() -> Iterator[tuple[Stage, UiServer, list[str]]]:
    """The stage, and the page's server on it, with its links."""
    stage, links = Stage(), list[str]()
    play(stage)
    running = _condition("Running", "TFJob train-distributed-3f2a is running.", 170)
    status = {"conditions": [running], "ready": "2/2", "startTime": ago(178)}
    job = stage.job("train-distributed-3f2a", created=ago(180), status=status)
    with tempfile.TemporaryDirectory() as folder, played(Path(folder), job["metadata"]["uid"]) as home:
        client: Any = stage
        content = PageContent(source="kind-demo", pipelines=home.path, commands="")
        server = UiServer(client, content, on_link=links.append)
        server.start()
        try:
            yield stage, server, links
        finally:
            server.stop()


def _shoot(browser: Browser, url: str, links: list[str], stage: Stage, name: str, **options: Any) -> Page:
    context = browser.new_context(**{"viewport": {"width": 1180, "height": 760}, "locale": "en-GB", **options})
    page = context.new_page()
    page.goto(links[-1])
    expect(page.get_by_role("link", name="resnet-imagenet")).to_be_visible()
    if not stage.logs:
        expect(page.get_by_role("row").filter(has_text="bert-finetune")).to_contain_text("27.9")
        page.screenshot(path=DOCS / f"{name}-jobs.png")
        go_on(stage)
    page.goto(f"{url}#/jobs/vision/resnet-imagenet")
    expect(page.get_by_text("0/12 nodes").first).to_be_attached()
    expect(page.get_by_role("img", name="loss: loss")).to_be_visible()
    return page


def screenshots() -> None:
    """Write the pictures of docs/ui.md and docs/usage.md."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_chromium(Path(folder)) as browser,
        served() as (stage, server, links),
    ):
        page = _shoot(browser, server.url, links, stage, "ui")
        page.screenshot(path=DOCS / "ui-job.png", full_page=True)
        page.get_by_role("region", name="Time").screenshot(path=DOCS / "ui-time.png")
        page.get_by_role("tab", name="Logs").click()
        expect(page.get_by_role("log", name="Log of worker-1")).to_contain_text("step  19950")
        page.get_by_role("button", name="worker-2").click()
        page.get_by_label("Search the logs").fill("stalled")
        page.keyboard.press("Enter")
        # The panes are drawn anew after both, and were empty in a picture that was taken at once.
        expect(page.get_by_text("1 of 10 found")).to_be_visible()
        expect(page.get_by_role("log", name="Log of chief-0")).to_contain_text("input pipeline stalled")
        expect(page.get_by_role("log", name="Log of worker-1")).to_contain_text("step  19950")
        page.screenshot(path=DOCS / "ui-logs.png")
        page.goto(f"{server.url}#/runs")
        page.get_by_role("row").filter(has_text="Running").get_by_role("link").click()
        expect(page.get_by_role("log")).to_contain_text("step  2950")
        expect(page.get_by_role("link", name="train-distributed-3f2a")).to_be_visible()
        page.set_viewport_size({"width": 1180, "height": 1230})
        page.screenshot(path=DOCS / "ui-pipeline.png")
        page = _shoot(browser, server.url, links, stage, "tablet", viewport={"width": 768, "height": 1024})
        page.screenshot(path=DOCS / "ui-tablet.png", full_page=True)
        phone = {"viewport": {"width": 390, "height": 760}, "is_mobile": True, "device_scale_factor": 1.5}
        page = _shoot(browser, server.url, links, stage, "phone", color_scheme="dark", **phone)
        page.screenshot(path=DOCS / "ui-phone.png")


def main(arguments: list[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Jobs to look at, on the page.")
    parser.add_argument("--screenshots", action="store_true", help="write docs/ui-*.png anew, and end")
    if parser.parse_args(arguments).screenshots:
        screenshots()
        return 0
    with served() as (stage, _, links):
        print(links[-1], flush=True)
        with suppress(KeyboardInterrupt):
            time.sleep(3)
            go_on(stage)
            while True:
                time.sleep(3600)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
