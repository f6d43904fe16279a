"""The manifests of docs/tasks run under `tfoperator run` as they are, and the lines that a page shows are printed."""

import re
from pathlib import Path

import pytest
import yaml

from tests.support.cli import Cli

TASKS = Path(__file__).parents[2] / "docs" / "tasks"
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IMAGE = "python:3.12-slim"
"""The image of manifests whose programs need only Python: they run as processes of every machine."""

STOPPED = 124
ENDS = {
    "gangs": 0,
    "hangs": STOPPED,
    "keep-logs": 0,
    "preemption-and-spot": STOPPED,
    "queues": 0,
    "reports": 1,
    "restart-on-failure": 1,
    "resume-from-a-checkpoint": 0,
    "scale-workers": STOPPED,
    "sidecars": 0,
    "stop-at-a-deadline": 1,
    "suspend-and-resume": STOPPED,
}
"""By page, the exit code of its job. A job that trains for long is stopped after some seconds."""

SHOWN_BY_RUN = {"restart-on-failure", "resume-from-a-checkpoint"}
"""Pages whose first output is lines of the run, without times."""


def first(page: str, language: str) -> str:
    """The first block of a page in this language; "" is the language of output."""
    return next(text for tag, text in _BLOCK.findall((TASKS / f"{page}.md").read_text()) if tag == language)


def test_the_pages_begin_with_jobs_that_need_only_python() -> None:
    """Other pages need TensorFlow, a cluster or a folder; the tests of their own subject run them."""
    for page in ENDS:
        text = first(page, "yaml")
        assert IMAGE in text, page
        assert "TFJob" in {document["kind"] for document in yaml.safe_load_all(text)}, page


@pytest.mark.parametrize("page", sorted(ENDS))
def test_the_manifest_of_a_page_runs_as_it_is(page: str, tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    limit = ("--timeout", "8s") if ENDS[page] == STOPPED else ()
    done = cli.run("run", cli.write(first(page, "yaml")), *limit, code=ENDS[page])
    if page in SHOWN_BY_RUN:
        assert set(first(page, "").splitlines()) <= set(done.stdout.splitlines())
