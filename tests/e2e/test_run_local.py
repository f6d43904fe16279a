"""`tfoperator local up|down|status`: the control plane that stays."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import Cli, replica, tfjob
from tests.support.eventually import eventually
from tfoperator.api.v1.types import TFJOBS, decode_tfjob
from tfoperator.kube.client import Client
from tfoperator.kube.config import load_config
from tfoperator.local.identity import identify


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path, XDG_STATE_HOME=str(tmp_path / "state"))
    yield cli
    cli.run("local", "down", "--now")


def up(cli: Cli) -> str:
    """Start it; returns the kubeconfig's path."""
    done = cli.run("local", "up")
    assert done.returncode == 0, done.stderr
    export, _, path = done.stdout.strip().partition("=")
    assert export == "export KUBECONFIG"
    return shlex.split(path)[0]


def status(cli: Cli) -> dict[str, object]:
    return json.loads(cli.run("local", "status", "-o", "json").stdout)


def submit(kubeconfig: str, manifest: str) -> None:
    client = Client(load_config(kubeconfig))
    try:
        client.create(TFJOBS, "default", manifest.encode(), decode_tfjob)
    finally:
        client.close()


def log_of(cli: Cli, pod: str) -> str:
    path = cli.folder / "state/tfoperator/local/run/logs/default" / pod / "tensorflow/0.log"
    return path.read_text() if path.exists() else ""


def test_it_stays_up_runs_jobs_and_goes_down_in_order(cli: Cli) -> None:
    kubeconfig = up(cli)
    assert stat.S_IMODE(Path(kubeconfig).stat().st_mode) == 0o600
    assert "is up already" in cli.run("local", "up").stderr
    serve = "trap 'echo asked to stop; exit 0' TERM; echo $$$$; while true; do sleep 0.1; done"
    submit(kubeconfig, tfjob("quick", Worker=replica("echo", "hello")))
    submit(kubeconfig, tfjob("long", Worker=replica("sh", "-c", serve)))
    eventually(
        lambda: {j["name"]: j["phase"] for j in status(cli)["jobs"]} == {"quick": "Succeeded", "long": "Running"}
    )  # type: ignore[attr-defined]
    shown = cli.run("local", "status").stdout
    assert "default/quick  Succeeded" in shown
    pid = int(eventually(lambda: log_of(cli, "long-worker-0")))
    daemon = int(str(status(cli)["pid"]))
    done = cli.run("local", "down")
    assert done.returncode == 0, done.stderr
    assert "asked to stop" in log_of(cli, "long-worker-0")
    assert identify(pid) is None
    assert identify(daemon) is None
    assert not Path(kubeconfig).exists()
    assert cli.run("local", "status").returncode == 1


def test_after_a_crash_nothing_is_left_and_it_can_be_started_again(cli: Cli) -> None:
    kubeconfig = up(cli)
    submit(kubeconfig, tfjob("long", Worker=replica("sh", "-c", "echo $$$$; sleep 60")))
    pid = int(eventually(lambda: log_of(cli, "long-worker-0"), within=20))
    os.kill(int(str(status(cli)["pid"])), signal.SIGKILL)
    eventually(lambda: status(cli)["crashed"])
    eventually(lambda: identify(pid) is None, within=15)
    up(cli)
    assert status(cli)["running"] is True
    assert status(cli)["jobs"] == []


def test_a_port_in_use_is_explained(cli: Cli) -> None:
    up(cli)
    port = str(status(cli)["url"]).rpartition(":")[2]
    done = cli.run("local", "up", "--port", port, "--state-dir", str(cli.folder / "other"))
    assert done.returncode == 1
    assert "Address already in use" in done.stderr
    assert "Traceback" not in done.stderr


def test_up_waits_for_one_that_is_being_stopped(cli: Cli, tmp_path: Path) -> None:
    kubeconfig = up(cli)
    end = "until [ -e may-end ]; do sleep 0.1; done; exit 0"
    slow = f"trap '{end}' TERM; echo serving; while true; do sleep 0.1; done"
    submit(kubeconfig, tfjob("slow", Worker=replica("sh", "-c", slow)))
    eventually(lambda: "serving" in log_of(cli, "slow-worker-0"), within=20)
    first = status(cli)["pid"]
    os.kill(int(str(first)), signal.SIGTERM)
    eventually(lambda: status(cli)["stopping"], within=5)
    assert "is being stopped" in cli.run("local", "status").stdout
    with cli.start("local", "up") as second:
        second.until("waiting for its end")
        (tmp_path / "may-end").touch()
        assert second.wait() == 0, second.output
        assert "pods start in" in second.output
    assert (status(cli)["running"], status(cli)["stopping"]) == (True, False)
    assert status(cli)["pid"] != first


def test_in_the_foreground_an_interrupt_stops_pods_in_order(cli: Cli) -> None:
    serve = "trap 'sleep 1; echo asked to stop; exit 0' TERM; echo serving; while true; do sleep 0.1; done"
    with cli.start("local", "up", "--foreground") as process:
        process.until("ready at")
        kubeconfig = shlex.split(process.output.partition("export KUBECONFIG=")[2])[0]
        submit(kubeconfig, tfjob("long", Worker=replica("sh", "-c", serve)))
        eventually(lambda: "serving" in log_of(cli, "long-worker-0"), within=20)
        process.signal(signal.SIGINT)
        assert process.wait() == 0
    assert "asked to stop" in log_of(cli, "long-worker-0")
