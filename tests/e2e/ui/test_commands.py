"""The page as commands serve it, of jobs that really run: `local up`, `ui`, `run --ui`."""

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browsing import faults, person
from tests.support.cli import Cli, CliProcess, replica, tfjob
from tests.support.eventually import eventually

_LINK = re.compile(r"http://127\.0\.0\.1:\d+/#token=[\w-]+")
_SPEAK = "echo hello from $$(hostname -s | wc -w); while true; do sleep 0.1; done"


def link_in(process: CliProcess) -> str:
    return eventually(lambda: (match := _LINK.search(process.output)) and match[0], within=60)


@contextmanager
def visited(browser: Browser, link: str) -> Iterator[Page]:
    """The page behind a link, as a person has it who opens it."""
    with person(browser, urlsplit(link).port or 0) as somebody:
        yield somebody.open(link)


_ON_A_CLUSTER = """
from tfoperator.launcher import ExecutorContainerSpec, TFJobPlatformConfig
from tfoperator.pipeline import BaseComponent, ChannelParameter, Pipeline, make_spec_class


class Train(BaseComponent):
    SPEC_CLASS = make_spec_class(outputs={"model": ChannelParameter(type="Model")})
    EXECUTOR_SPEC = ExecutorContainerSpec("example.invalid/x:1", ["sh", "-c"], [
        "trap 'exit 0' TERM; echo it trains; while ! test -e GO; do sleep 0.05; done; echo > {{ outputs.model.uri }}"])


def create_pipeline():
    return Pipeline("training", "root", [Train()])


PLATFORMS = {"jobs": {"default": [TFJobPlatformConfig({"Worker": 2})]}}
"""


def test_local_up_serves_the_page_and_status_has_the_next_link(cli: Cli, browser: Browser) -> None:
    kubeconfig = cli.local_up()["KUBECONFIG"]
    link = _LINK.findall(cli.run("local", "status").stdout)[0]
    manifest = cli.write(tfjob("talks", Worker=replica("sh", "-c", _SPEAK, replicas=2)))
    cli.run("submit", manifest, "--kubeconfig", kubeconfig, code=0)
    with visited(browser, link) as page:
        page.get_by_role("link", name="talks").click()
        expect(page.get_by_role("row").filter(has_text="worker-1")).to_contain_text("Running")
        page.get_by_role("tab", name="Logs").click()
        expect(page.get_by_role("log", name="Log of worker-1")).to_contain_text("hello from 1")
        page.get_by_role("tab", name="YAML").click()
        expect(page.get_by_label("The job as YAML")).to_contain_text("name: talks")
        cli.run("delete", "talks", "--kubeconfig", kubeconfig, code=0)
        expect(page.get_by_role("alert")).to_contain_text("does not exist, or it was deleted")
        _look_at_a_pipeline(cli, page, kubeconfig)
    again = json.loads(cli.run("local", "status", "-o", "json").stdout)["page"]
    assert _LINK.fullmatch(again)
    assert again != link
    with cli.start("ui", "-A", "--kubeconfig", kubeconfig) as served:
        own = link_in(served)
        with visited(browser, own) as page:
            expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
        assert served.end(signal.SIGINT) == 0
        assert served.output.rstrip().endswith("the page has stopped")


def _look_at_a_pipeline(cli: Cli, page: Page, kubeconfig: str) -> None:
    """A run that begins while the page is open: its step is a TFJob, to which it leads."""
    page.get_by_role("link", name="All jobs").click()
    (cli.folder / "train.py").write_text(_ON_A_CLUSTER.replace("GO", str(cli.folder / "go")))
    with cli.start("pipeline", "run", "train.py", "--platform", "jobs", "--kubeconfig", kubeconfig) as run:
        run.until("it trains")
        page.reload()  # there was no pipeline when it was opened
        page.get_by_role("link", name="Pipelines").click()
        page.get_by_role("link", name="training").click()
        expect(page.get_by_role("log", name="Log of Train")).to_contain_text("it trains")
        page.get_by_role("region", name="Step Train").get_by_role("link", name=re.compile("^train")).first.click()
        expect(page.get_by_role("row").filter(has_text="worker-1")).to_contain_text("Running")
        (cli.folder / "go").touch()
        assert run.wait(60) == 0
        page.go_back()
        expect(page.get_by_role("region", name="Step Train")).to_contain_text("Succeeded")


_TRAIN = """
import sys, time
from pathlib import Path
from tfoperator.progress import Progress, flush
rate = sys.argv[2]
with Progress(3) as progress:
    for step in (1, 2, 3):
        progress.update(step, loss=float(rate) / step, **({"late": step} if rate == "6" else {}))
        flush()
        while step < 3 and not Path(f"SEEN-{rate}-{step}").exists():
            time.sleep(0.05)
"""


def test_two_runs_are_laid_side_by_side_on_the_page(cli: Cli, browser: Browser) -> None:
    (cli.folder / "train.py").write_text(_TRAIN.replace("SEEN", str(cli.folder / "seen")))
    for rate in ("3", "6"):
        with cli.start("run", "train.py", "--name", f"rate-{rate}", "--", "--rate", rate) as run:
            for step in (1, 2):
                run.until(f"step {step} of 3")
                (cli.folder / f"seen-{rate}-{step}").touch()
            assert run.wait() == 0, run.output
    [three] = (cli.folder / ".tfoperator/runs").glob("*-rate-3")
    with cli.start("runs", "compare", three.name, "latest", "--ui") as served:
        with visited(browser, link_in(served)) as page:
            expect(page.get_by_role("heading", name="Comparison of two runs")).to_be_visible()
            given = page.get_by_role("region", name="parameters")
            expect(given.get_by_role("row", name="rate 3 6", exact=True)).to_be_visible()
            curves = page.get_by_role("img", name=re.compile("^loss: "))
            expect(curves).to_have_attribute("aria-label", re.compile(r"rate-3 1, from 1 to .*rate-6 2, from 2 to "))
            expect(page.get_by_text("step 3").first).to_be_visible()
            alone = page.get_by_role("figure").filter(has=page.get_by_role("img", name=re.compile("^late: ")))
            expect(alone.get_by_role("listitem")).to_have_text([re.compile("rate-6$")])
            expect(alone.locator("path")).to_have_class("curve c1")  # its colour, also where it is alone
            assert faults(page) == []
        assert served.end(signal.SIGINT) == 0


@pytest.mark.journey
@pytest.mark.page
def test_run_serves_the_page_while_it_runs(cli: Cli, browser: Browser) -> None:
    cli.write(tfjob("talks", Worker=replica("sh", "-c", _SPEAK)))
    with cli.start("run", "--ui", "job.yaml") as run:
        link = link_in(run)
        with visited(browser, link) as page:
            page.get_by_role("link", name="talks").click()
            page.get_by_role("tab", name="Logs").click()
            expect(page.get_by_role("log", name="Log of worker-0")).to_contain_text("hello from 1")
            assert run.end(signal.SIGINT) == 130
            expect(page.get_by_text("Connection lost")).to_be_visible()


_PIPELINE = """
import time
from pathlib import Path

from tfoperator.launcher import ExecutorClassSpec
from tfoperator.pipeline import BaseComponent, ChannelParameter, Pipeline, make_spec_class


class Work:
    def do(self, inputs, outputs, parameters):
        while not Path("GO").exists():
            time.sleep(0.05)
        Path(outputs["out"][0].uri).write_text("done")


class Wait(BaseComponent):
    SPEC_CLASS = make_spec_class(outputs={"out": ChannelParameter(type="Text")})
    EXECUTOR_SPEC = ExecutorClassSpec(Work)


def create_pipeline():
    return Pipeline("waiting", "root", [Wait()])
"""


def test_a_pipeline_is_shown_while_it_runs_and_afterwards(cli: Cli, browser: Browser) -> None:
    (cli.folder / "wait.py").write_text(_PIPELINE)
    with cli.start("pipeline", "run", "--ui", "wait.py") as run:
        link = link_in(run)
        with visited(browser, link) as page:
            page.get_by_role("row").filter(has_text="Running").get_by_role("link", name="waiting").click()
            expect(page.get_by_role("region", name="Step Wait")).to_contain_text("Running")
            expect(page.get_by_role("navigation")).to_have_count(0)  # without a cluster there are no jobs to choose
            (cli.folder / "GO").touch()
            assert run.wait(60) == 0
    with cli.start("pipeline", "ui") as served:
        link = link_in(served)
        with visited(browser, link) as page:
            page.get_by_role("link", name="waiting").click()
            expect(page.get_by_role("region", name="Step Wait")).to_contain_text("Succeeded")
        assert served.end(signal.SIGINT) == 0
    done = cli.run("ui", "--pipelines", "nowhere", code=2)
    assert "nowhere" in done.stderr


def test_a_server_that_does_not_answer_is_said_at_once(cli: Cli) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "users": [{"name": "x", "user": {}}],
    }
    (cli.folder / "config").write_text(json.dumps(config))
    done = cli.run("ui", "--kubeconfig", "config", code=1)
    assert "127.0.0.1:1" in done.stderr
    assert "token" not in done.stdout
