"""`tfoperator local up|down|status`: the control plane that stays."""

import json
import os
import re
import resource
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.cli import Cli, replica, tfjob
from tests.support.eventually import eventually
from tfoperator.api.v1.types import TFJOBS, decode_tfjob
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.local.identity import identify


def status(cli: Cli) -> dict[str, object]:
    return json.loads(cli.run("local", "status", "-o", "json").stdout)


@contextmanager
def open_files(limit: int) -> Iterator[None]:
    """How many files this process, and those that it starts, may have open meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def submit(kubeconfig: str, manifest: str) -> None:
    with Client(load_config(kubeconfig)) as client:
        client.create(TFJOBS, "default", manifest.encode(), decode_tfjob)


def log_of(cli: Cli, pod: str) -> str:
    path = cli.folder / "state/tfoperator/local/run/logs/default" / pod / "tensorflow/0.log"
    return path.read_text() if path.exists() else ""


@pytest.mark.journey
def test_jobs_are_submitted_waited_for_and_read_from_a_terminal(cli: Cli) -> None:
    cli.environment["KUBECONFIG"] = cli.local_up()["KUBECONFIG"]
    cli.run("submit", cli.write(tfjob("short", clean="None", Worker=replica("echo", "hello", replicas=2))), code=0)
    cli.run("wait", "short", "--timeout", "100s", code=0)
    assert sorted(cli.run("logs", "short", "--all-replicas", code=0).stdout.splitlines()) == [
        "[worker-0] hello",
        "[worker-1] hello",
    ]
    assert "Succeeded" in cli.run("get", code=0).stdout


@pytest.mark.journey
def test_it_stays_up_runs_jobs_and_goes_down_in_order(cli: Cli) -> None:
    kubeconfig = cli.local_up()["KUBECONFIG"]
    assert stat.S_IMODE(Path(kubeconfig).stat().st_mode) == 0o600
    assert "is already running" in cli.run("local", "up").stderr
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
    cli.run("local", "down", code=0)
    assert "asked to stop" in log_of(cli, "long-worker-0")
    assert identify(pid) is None
    assert identify(daemon) is None
    assert not Path(kubeconfig).exists()
    assert cli.run("local", "status").returncode == 1


def test_a_job_that_has_failed_lets_go_of_its_processes_and_keeps_its_pods_and_logs(cli: Cli) -> None:
    kubeconfig = cli.local_up()["KUBECONFIG"]
    serve = "trap 'echo asked to stop; exit 0' TERM; echo $$$$; while true; do sleep 0.1; done"
    submit(kubeconfig, tfjob("long", clean="", Worker=replica("sh", "-c", serve, restart="OnFailure")))
    pid = int(eventually(lambda: log_of(cli, "long-worker-0")))
    ended = cli.stopped_by_its_end(kubeconfig, "long")
    assert ended["reason"] == "DeadlineExceeded"
    assert identify(pid) is None
    cli.environment["KUBECONFIG"] = kubeconfig
    assert cli.run("logs", "long", code=0).stdout.endswith("asked to stop\n")
    shown = cli.run("describe", "long", code=0).stdout
    assert re.search(r"worker-0 +Stopped +no .* job-failed", shown), shown
    assert "SuccessfulStopPod" in shown


def test_a_sidecar_ends_with_the_program_beside_it_and_keeps_its_log(cli: Cli) -> None:
    kubeconfig = cli.local_up()["KUBECONFIG"]
    cli.environment["KUBECONFIG"] = kubeconfig
    worker = replica("sh", "-c", "until [ -e ships ]; do sleep 0.05; done; echo trained")
    serve = "trap 'echo asked to stop; exit 0' TERM; echo $$$$; touch ships; while true; do sleep 0.1; done"
    containers = worker["template"]["spec"]["containers"]
    containers.insert(0, {**containers[0], "name": "ships-logs", "command": ["sh", "-c", serve]})
    submit(kubeconfig, tfjob("both", clean="", Worker=worker))
    cli.run("wait", "both", "--timeout=60s", code=0)

    def log_lines() -> list[str]:
        lines = cli.run("logs", "both", "-c", "ships-logs", code=0).stdout.split("\n")
        return lines if "asked to stop" in lines else []

    pid = int(eventually(log_lines, within=30, every=0.2, what="the sidecar is stopped")[0].split()[-1])
    eventually(lambda: identify(pid) is None, what="the sidecar has ended")
    shown = cli.run("describe", "both", code=0).stdout
    assert re.search(r"worker-0 +Succeeded", shown), shown


@pytest.mark.journey
def test_after_a_crash_nothing_is_left_and_it_can_be_started_again(cli: Cli) -> None:
    kubeconfig = cli.local_up()["KUBECONFIG"]
    submit(kubeconfig, tfjob("long", Worker=replica("sh", "-c", "echo $$$$; sleep 60")))
    pid = int(eventually(lambda: log_of(cli, "long-worker-0")))
    os.kill(int(str(status(cli)["pid"])), signal.SIGKILL)
    eventually(lambda: status(cli)["crashed"])
    eventually(lambda: identify(pid) is None)
    cli.local_up()
    assert status(cli)["running"] is True
    assert status(cli)["jobs"] == []


def test_up_waits_for_one_that_is_being_stopped(cli: Cli, tmp_path: Path) -> None:
    kubeconfig = cli.local_up()["KUBECONFIG"]
    end = "until [ -e may-end ]; do sleep 0.1; done; exit 0"
    slow = f"trap '{end}' TERM; echo serving; while true; do sleep 0.1; done"
    submit(kubeconfig, tfjob("slow", Worker=replica("sh", "-c", slow)))
    eventually(lambda: "serving" in log_of(cli, "slow-worker-0"))
    first = status(cli)["pid"]
    os.kill(int(str(first)), signal.SIGTERM)
    eventually(lambda: status(cli)["stopping"])
    assert "is being stopped" in cli.run("local", "status").stdout
    with cli.start("local", "up") as second:
        second.until("waiting until it has ended")
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
        eventually(lambda: "serving" in log_of(cli, "long-worker-0"))
        process.signal(signal.SIGINT)
        assert process.wait() == 0
    assert "asked to stop" in log_of(cli, "long-worker-0")


def test_a_flood_of_connections_costs_little_memory(cli: Cli) -> None:
    cli.local_up()
    plane_status = status(cli)
    process, port = psutil.Process(int(str(plane_status["pid"]))), str(plane_status["url"]).rpartition(":")[2]
    resident, most = process.memory_info().rss, 0
    command = [sys.executable, "-m", "tests.support.crowd", "mixed", "1", "2000", "8", port, "--"]
    with open_files(4096), subprocess.Popen(command, stdout=subprocess.PIPE) as flood:
        while flood.poll() is None:
            most = max(most, process.memory_info().rss)
            time.sleep(0.05)
        assert flood.stdout is not None
        opened = int(flood.stdout.read())
    grown = (most - resident) >> 20
    print(f"{opened} connections; {grown} MiB more")
    assert opened > 2000, "some were closed, and opened again"
    assert grown < 64
