"""The advice of `tfoperator run` about programs that fail, each with a program that really fails so."""

import json
import re
import signal
from pathlib import Path

import pytest
import yaml

from tests.support.cli import Cli, replica, tfjob

pytestmark = pytest.mark.timeout(300)  # the sum of what they wait for at most

LIMIT = 120.0  # seconds for what takes some three on an idle machine

TASK = 'import json, os, sys, time\nindex = json.loads(os.environ["TF_CONFIG"])["task"]["index"]\n'


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def program(cli: Cli, text: str, name: str = "train.py") -> str:
    (cli.folder / name).write_text(text)
    return name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "import os\nprint('step 1', flush=True)\nos.kill(os.getpid(), 9)",
            ["worker-0 failed with exit code 137 (killed).", "Next: worker-0 was killed by SIGKILL"],
        ),
        (
            "import ctypes\nprint('step 1', flush=True)\nctypes.string_at(0)",
            ["worker-0 failed with exit code 139 (SIGSEGV).", "add --env PYTHONFAULTHANDLER=1"],
        ),
        (
            "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--steps', required=True)\n"
            "parser.parse_args()",
            ["the following arguments are required: --steps", "Put the arguments after `--`"],
        ),
        (
            "import json, os\ntf_config = json.loads(os.environ.get('TF_CONFIG', '{}'))\nprint(tf_config['cluster'])",
            ["KeyError: 'cluster'", "a job of one replica has no TF_CONFIG", "--workers 2"],
        ),
    ],
)
def test_a_program_that_fails_has_advice_that_fits(cli: Cli, text: str, expected: list[str]) -> None:
    shown = cli.run("run", program(cli, text), code=1).stdout
    assert [words for words in expected if words not in shown] == [], shown
    assert "memory ran out" not in shown.replace("If memory ran out, the kernel killed it", "")


def test_python_itself_names_the_line_of_a_segmentation_fault(cli: Cli) -> None:
    text = "import ctypes\nctypes.string_at(0)"
    shown = cli.run("run", program(cli, text), "--env", "PYTHONFAULTHANDLER=1", code=1).stdout
    assert 'train.py", line 2 in <module>' in shown
    assert "the last lines show the line of Python" in shown


def test_memory_is_blamed_with_the_peak_and_the_limit_where_it_ran_out(cli: Cli) -> None:
    text = "kept = []\nfor _ in range(100):\n    kept.append(bytearray(4 << 20))"
    shown = cli.run("run", program(cli, text), "--memory", "100Mi", "--enforce-limits", code=1).stdout
    assert "worker-0 failed with exit code 137" in shown
    assert re.search(r"It used up to \d+ MiB of memory of its limit of 100 MiB\.", shown), shown
    assert "Next: worker-0 was killed because memory ran out: use less memory" in shown
    assert "or raise --memory." in shown


def test_the_peer_that_was_killed_is_the_cause(cli: Cli) -> None:
    lost = "Connection reset by peer from remote target /job:worker/replica:0/task:1"
    text = f"""{TASK}
if index == 1 and not os.path.exists("killed"):
    open("killed", "w").close()
    os.kill(os.getpid(), 9)
if index == 1:
    open("again", "w").close()
while not os.path.exists("again") or index == 1:
    time.sleep(0.05)
raise ConnectionError("Collective ops is aborted by: {lost}")
"""
    worker = replica("python", program(cli, text), replicas=2, restart="ExitCode")
    shown = cli.run("run", cli.write(tfjob("lost", Worker=worker)), code=1).stdout
    about = shown.partition("EXIT CODE")[2]
    assert about.index("worker-1 failed with exit code 137 (killed).") < about.index(
        "worker-0 failed with exit code 1."
    )
    assert "but worker-0 had lost the connection to worker-1, and failed" in about
    assert "set spec.runPolicy.restartScope to Job" in about
    assert "restartPolicy to" not in about


def test_workers_that_fail_alike_are_told_together(cli: Cli) -> None:
    text = f"""{TASK}
open(f"up-{{index}}", "w").close()
while not os.path.exists(f"up-{{1 - index}}"):
    time.sleep(0.01)
def train():
    raise ValueError("bad shape")
try:
    train()
finally:
    import traceback
    traceback.print_exc()
    sys.stderr.flush()
    time.sleep(2 * index)
"""
    shown = cli.run("run", program(cli, text), "--workers", "2", code=1).stdout
    assert "worker-1: the same." in shown
    assert "was stopped when" not in shown


def test_a_worker_that_starts_again_after_its_peer_has_ended_is_warned_of_at_once(cli: Cli) -> None:
    text = f"""{TASK}
if index == 1:
    print("done", flush=True)
    raise SystemExit
if not os.path.exists("failed"):
    time.sleep(3)
    open("failed", "w").close()
    os._exit(1)
print("waits for its peer", flush=True)
time.sleep(300)
"""
    with cli.start("run", program(cli, text), "--workers", "2", "--max-restarts", "2") as process:
        process.until("RestartedAlone: worker-0 is restarted after worker-1 had ended.", within=LIMIT)
        process.until("waits for its peer", within=LIMIT)
        process.signal(signal.SIGINT)
        assert process.wait(LIMIT) == 130, process.output


def test_what_stood_still_when_its_time_was_up_needs_no_more_of_it(cli: Cli) -> None:
    text = f"{TASK}print('step', index, flush=True)\ntime.sleep(300)"
    shown = cli.run(
        "run", program(cli, text), "--workers", "2", "--stall", "30s", "--grace", "1s", "--timeout", "50s", code=124
    ).stdout
    assert "has made no progress for 30s" in shown
    assert "More time will not help" in shown or "more time will not help" in shown
    assert "give it more time" not in shown


def test_who_holds_on_after_the_success_is_named(cli: Cli) -> None:
    text = f"""{TASK}
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(f"up-{{index}}", "w").close()
while not os.path.exists(f"up-{{1 - index}}"):
    time.sleep(0.01)
time.sleep(300 * index)
"""
    shown = cli.run("run", program(cli, text), "--workers", "2", "--grace", "1s", code=0).stdout
    assert (
        "worker-1 was stopped when the job was over (it did not end within its grace period, and was killed)" in shown
    )
    assert "set a longer --grace" in shown


def test_a_worker_that_ends_a_moment_after_the_first_has_succeeded_too(cli: Cli) -> None:
    text = f"""{TASK}
open(f"up-{{index}}", "w").close()
while not os.path.exists(f"up-{{1 - index}}"):
    time.sleep(0.01)
time.sleep(0.7 * index)
print("trained", flush=True)
"""
    shown = cli.run("run", program(cli, text), "--workers", "2", "-o", "json", code=0).stdout
    replicas = json.loads(shown)["jobs"][0]["replicas"]
    assert [(summary["state"], summary["exitCode"]) for summary in replicas] == [("Succeeded", 0)] * 2


BARS = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for epoch in (1, 2):
    print(f"Epoch {epoch}/2", flush=True)
    for step in range(1, 71, 3):
        bar = f"{step}/70 [{'=' * (step // 3)}>{'.' * (23 - step // 3)}] - ETA: 1s - loss: 0.51"
        sys.stdout.write("\\b" * 80 + "\\r" + bar)
        sys.stdout.flush()
        time.sleep(0.1)
    print("\\r70/70 [==============================] - 2s 20ms/step - loss: 0.50", flush=True)
"""


def test_who_finishes_after_ctrl_c_has_succeeded(cli: Cli) -> None:
    with cli.start("run", program(cli, BARS), "--logs-dir", "kept") as process:
        process.until("Epoch 2/2", within=LIMIT)
        process.signal(signal.SIGINT)
        assert process.wait(LIMIT) == 0, process.output
    assert "TFJob train succeeded" in process.output
    assert "was interrupted" not in process.output
    result = json.loads((cli.folder / "kept/result.json").read_text())
    assert (result["outcome"], result["exitCode"]) == ("Succeeded", 0)
    assert result["jobs"][0]["replicas"][0]["state"] == "Succeeded"


def test_tqdm_shows_how_far_a_program_is(cli: Cli) -> None:
    text = """
import time
from tqdm import tqdm
for epoch in (1, 2):
    with tqdm(range(20), desc=f"Epoch {epoch}/2", mininterval=0) as steps:
        for _ in steps:
            time.sleep(0.05)
            steps.set_postfix(loss=0.5)
"""
    shown = cli.run("run", program(cli, text), code=0).stdout
    assert "progress: 100%, step 40 of 40, loss 0.5, epoch 2" in shown


def test_a_loss_that_is_no_number_is_said_and_fails_no_job(cli: Cli) -> None:
    text = """
import time
print("Epoch 1/1")
for step in range(1, 81):  # a busy machine takes several lines for one report
    print(f"{step}/80 - 1s - 10ms/step - loss: {'nan' if step > 4 else 0.5}", flush=True)
    time.sleep(0.15)
"""
    done = cli.run("run", program(cli, text), "--logs-dir", "kept", code=0)
    loss = "The loss of TFJob default/train is not a number (NaN or infinite)"
    statement = f"{loss}: worker-0 has reported this 10 times in a row"
    assert f"[train] Diverged: {statement}" in done.stdout
    assert f"\n{statement}" in done.stdout.partition("TFJob train succeeded")[2]
    status = yaml.safe_load((cli.folder / "kept/default.train.yaml").read_text())["status"]
    assert [condition["status"] for condition in status["operatorConditions"] if condition["type"] == "Diverged"] == [
        "True"
    ]
    assert "Diverged" not in [condition["type"] for condition in status["conditions"]]


@pytest.mark.parametrize(("name", "content", "expected"), [("x.ipynb", "{}", "nbconvert"), ("x.sh", "", "[sh, x.sh]")])
def test_a_notebook_or_a_shells_script_is_told_how_to_run(cli: Cli, name: str, content: str, expected: str) -> None:
    refused = cli.run("run", program(cli, content, name), code=2)
    assert expected in refused.stderr
    assert "apiVersion" not in refused.stderr
