"""A program and its folder, submitted to a control plane of this machine: no image, no manifest."""

import json
import signal
from pathlib import Path

import pytest

from tests.support.cli import Cli
from tests.support.eventually import eventually
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.resources import CONFIG_MAPS

PROGRAM = """
import os, sys, time
import settings
if os.path.exists("first"):
    raise SystemExit("what an earlier start has written is there")
open("first", "w").close()
print(settings.GREETING, sys.argv[1:], os.environ["RATE"], flush=True)
attempt = sys.argv[1] + os.environ["HOSTNAME"]
if not os.path.exists(attempt):
    open(attempt, "w").close()
    raise SystemExit(3)
time.sleep(float(sys.argv[2]))
"""

pytestmark = pytest.mark.usefixtures("local_up")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / "src/train.py").write_text(PROGRAM)
    (work / "settings.py").write_text("GREETING = 'hello'\n")
    (work / ".tfoperatorignore").write_text("data/\n")
    (work / "data").mkdir()
    (work / "data/large").write_bytes(b"x" * 1000)
    return work


def config_maps(cli: Cli) -> list[str]:
    with Client(load_config(cli.environment["KUBECONFIG"])) as client:
        objects = client.list(CONFIG_MAPS, "default", json.loads).items
    return [obj["metadata"]["name"] for obj in objects if obj["metadata"]["name"].startswith("workdir-")]


@pytest.mark.journey
def test_a_program_goes_to_its_replicas_with_its_folder(cli: Cli, work: Path, tmp_path: Path) -> None:
    given = ("--workdir", "work", "--env", "RATE=$0.1", "--workers", "2", "--max-restarts", "4", "--image", "tf:1")
    own = ("--", f"{tmp_path}/", "0", "$(HOME)")
    done = cli.run("submit", "work/src/train.py", *given, "--follow", *own, code=0)
    assert " (files: 3, 0.0 MiB when packed)" in done.stderr
    assert "TFJob train has succeeded" in done.stderr
    greetings = [line for line in done.stdout.splitlines() if "hello" in line]
    assert sorted(greetings) == [
        f"[worker-{index}] hello ['{tmp_path}/', '0', '$(HOME)'] $0.1" for index in (0, 0, 1, 1)
    ]
    cli.run("submit", "work/src/train.py", *given, "--name", "again", "--wait", *own, code=0)
    assert len(config_maps(cli)) == 1
    cli.run("delete", "train", "--wait", code=0)
    assert len(config_maps(cli)) == 1
    cli.run("delete", "again", "--wait", code=0)
    eventually(lambda: not config_maps(cli), within=30, what="nothing is left of the folder")


def test_ctrl_c_leaves_the_job_there_unless_it_is_attached(cli: Cli, work: Path, tmp_path: Path) -> None:
    given = ("submit", "work/src/train.py", "--workdir", "work", "--env", "RATE=1", "--max-restarts", "1")
    own = ("--", f"{tmp_path}/", "1000")
    with cli.start(*given, "--follow", *own) as running:
        running.until("hello")
        assert running.end(signal.SIGINT) == 130
        assert (
            "TFJob train is still running. To see its logs again: tfoperator logs train -f --all-replicas -n default"
            in running.output
        )
    assert "Running" in cli.run("get", "train", code=0).stdout
    with cli.start(*given, "--name", "attached", "--attached", *own) as running:
        running.until("hello")
        assert running.end(signal.SIGINT) == 130
        assert "TFJob attached is deleted" in running.output
    cli.run("get", "attached", code=1)
