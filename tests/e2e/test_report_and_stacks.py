"""`tfoperator report` and `tfoperator stacks` against a control plane that stays, as against a cluster."""

import json
from typing import Any

import pytest

from tests.support.cli import Cli, replica, tfjob
from tests.support.eventually import eventually

CRASH = """
import sys
print('step 1', flush=True)
def train():
    raise ValueError('shapes differ')
train()
"""
HANG = """
import threading
from tfoperator.progress import stacks
stacks.register()
def wait_for_ever():
    print('waits', flush=True)
    threading.Event().wait()
wait_for_ever()
"""

pytestmark = pytest.mark.usefixtures("local_up")


def report_of(cli: Cli, name: str) -> dict[str, Any]:
    return json.loads(cli.run("report", name, "-o", "json", code=0).stdout)


def test_a_crash_loop_is_explained_while_it_goes_on(cli: Cli) -> None:
    (cli.folder / "crash.py").write_text(CRASH)
    worker = replica("python", "crash.py", replicas=2, restart="OnFailure")
    cli.run("submit", cli.write(tfjob("loop", Worker=worker)), code=0)

    def repeated() -> bool:
        report = report_of(cli, "loop")
        return bool(report["failures"] and report["failures"][0]["same"] and "deterministic" in str(report["advice"]))

    eventually(repeated, within=120, every=0.5, what="both workers have failed three times")
    text = cli.run("report", "loop", code=0).stdout
    assert "ValueError: shapes differ" in text
    assert 'crash.py", line 5, in train' in text
    assert ": the same." in text


def test_stacks_are_taken_on_demand(cli: Cli) -> None:
    (cli.folder / "hang.py").write_text(HANG)
    cli.run("submit", cli.write(tfjob("hang", Worker=replica("python", "-u", "hang.py", replicas=2))), code=0)
    eventually(lambda: "waits" in cli.run("logs", "hang").stdout, within=60, every=0.5, what="it waits")

    def taken() -> str:
        text = cli.run("stacks", "hang", code=0).stdout
        assert text.count("wait_for_ever") == 2, text
        return text

    text = eventually(taken, within=60, every=0.5, what="both workers show where they wait")
    assert "worker-0:" in text
    assert "worker-1:" in text
    alone = json.loads(cli.run("stacks", "hang", "-r", "worker-1", "-o", "json", code=0).stdout)
    assert list(alone) == ["worker-1"]
    kept = cli.folder / "state/tfoperator/local/run/logs/default/hang-worker-0/tensorflow/0.stacks.txt"
    assert kept.stat().st_mode & 0o077 == 0
    assert "wait_for_ever" in kept.read_text()


def test_a_program_that_has_not_registered_says_what_to_do(cli: Cli) -> None:
    cli.run("submit", cli.write(tfjob("mute", Worker=replica("sleep", "1000", replicas=3))), code=0)
    eventually(lambda: "3/3" in cli.run("get", "mute").stdout, within=60, every=0.5, what="it runs")
    done = cli.run("stacks", "mute", code=1)
    # All lack them for the same reason.
    assert "worker-0..2: " in done.stderr
    assert done.stderr.count("register()") == 1
    assert done.stdout == ""
    cli.run("suspend", "mute", code=0)
    eventually(lambda: "Suspended" in cli.run("get", "mute").stdout, within=60, every=0.5, what="it is suspended")
    assert "TFJob mute has no pod that runs" in cli.run("stacks", "mute", code=1).stderr
