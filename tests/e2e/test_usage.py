"""The usage of replicas, limits that hold, and GPUs that are shared, with real processes and the real kubectl.

The GPUs belong to a stand-in for NVIDIA's library (`tests.support.nvml`); the work with them is real.
"""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support import nvml
from tests.support.cli import Cli, local_cli, replica, tfjob
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tfoperator.local.runtime.process.groups.control_groups import open_control_groups
from tfoperator.local.runtime.protocol import RuntimeUnavailable

WITHIN = 60
HOLD = "held = bytearray({size} << 20); held[::4096] = b'x' * len(held[::4096]); print('up', flush=True)\n"
SLEEP = "import time\nwhile True: time.sleep(0.1)"
SHOW = "import os; print('sees', os.environ.get('CUDA_VISIBLE_DEVICES', 'all'), flush=True)\n"
UNTIL_TOLD = "import time\nwhile not os.path.exists('go'): time.sleep(0.05)"


def python(code: str, **fields: Any) -> dict[str, Any]:
    return replica("python", "-I", "-S", "-u", "-c", code, **fields)


def gpu(number: int) -> dict[str, Any]:
    return {"limits": {"nvidia.com/gpu": number}}


@pytest.fixture
def devices() -> Iterator[list[str]]:
    """Four GPUs that no other test has."""
    there = nvml.uuids(4)
    yield there
    nvml.forget(there)


@pytest.fixture
def up(tmp_path: Path, devices: list[str]) -> Iterator[tuple[Cli, Kubectl]]:
    """A control plane of a machine with two GPUs."""
    with local_cli(tmp_path, **nvml.environment(devices[:2])) as cli:
        yield cli, Kubectl(Path(cli.environment["KUBECONFIG"]), "default")


def table(text: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:]}


def test_kubectl_top_and_our_own_commands_tell_the_same(up: tuple[Cli, Kubectl]) -> None:
    cli, kubectl = up
    job = tfjob("top", PS=python(SLEEP), Worker=python(HOLD.format(size=100) + SLEEP, replicas=2))
    cli.run("submit", cli.write(job), code=0)
    names = {"top-ps-0", "top-worker-0", "top-worker-1"}

    def measured() -> dict[str, list[str]]:
        done = kubectl.run("top", "pods")
        usages = table(done.stdout)
        assert set(usages) == names, done
        assert all(int(usages[f"top-worker-{index}"][1].removesuffix("Mi")) >= 100 for index in range(2)), done
        return usages

    usages = eventually(measured, within=WITHIN, every=0.5, what="kubectl top pods")
    assert re.fullmatch(r"\d+m", usages["top-worker-0"][0])
    assert int(usages["top-ps-0"][1].removesuffix("Mi")) < 100
    selected = kubectl("top", "pods", "--containers", "-l", "training.kubeflow.org/replica-type=ps")
    assert [line.split()[:2] for line in selected.splitlines()[1:]] == [["top-ps-0", "tensorflow"]]
    [(node, (cpu, cpu_share, memory, memory_share))] = table(kubectl("top", "nodes")).items()
    assert node
    assert all(re.fullmatch(pattern, text) for pattern, text in (("[0-9]+m", cpu), ("[0-9]+%", cpu_share)))
    assert all(re.fullmatch(pattern, text) for pattern, text in (("[0-9]+Mi", memory), ("[0-9]+%", memory_share)))
    described = cli.run("describe", "top", code=0).stdout
    assert re.search(r"worker-0 +Running +yes +0 +\d+\.\d\d +1\d\dMi ", described), described
    wide = cli.run("get", "-o", "wide", code=0).stdout
    assert re.search(r"top .* \d+\.\d\d +2\d\dMi ", wide), wide


def test_a_node_shows_its_gpus_and_who_finds_none_waits(up: tuple[Cli, Kubectl]) -> None:
    cli, kubectl = up
    capacity = json.loads(kubectl("get", "nodes", "-o", "json"))["items"][0]["status"]
    assert capacity["capacity"]["nvidia.com/gpu"] == capacity["allocatable"]["nvidia.com/gpu"] == "2"
    job = tfjob("share", Worker=python(SHOW + UNTIL_TOLD, replicas=3, resources=gpu(1)))
    cli.run("submit", cli.write(job), code=0)

    def waiting() -> dict[str, Any]:
        pods = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
        phases = sorted(pod.get("status", {}).get("phase", "") for pod in pods)
        assert phases == ["Pending", "Running", "Running"], phases
        [pending] = [pod for pod in pods if pod["status"]["phase"] == "Pending"]
        assert pending["status"].get("conditions"), pending
        return dict(pending)

    pod = eventually(waiting, within=WITHIN, every=0.2, what="one waits for a GPU")
    [condition] = pod["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")
    assert condition["message"].startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    described = eventually(
        lambda: "Insufficient nvidia.com/gpu" in cli.run("describe", "share", code=0).stdout,
        within=WITHIN,
        what="describe says so",
    )
    assert described
    # The two that run are busy by half, according to the stand-in for NVML.
    eventually(
        lambda: re.search(r" 0\.50 +1\.0Gi ", cli.run("describe", "share", code=0).stdout),
        within=WITHIN,
        what="the use of GPUs",
    )
    (cli.folder / "go").touch()
    cli.run("wait", "share", "--timeout", "60s", code=0)


def why_limits_can_not_hold() -> str:
    """Return a run's message on a machine like this machine; empty if limits hold here."""
    try:
        open_control_groups().close()
    except RuntimeUnavailable as error:
        return str(error).partition(" (")[0]
    return ""


def seen(output: str) -> dict[str, str]:
    """Return the devices that each replica has printed."""
    return dict(re.findall(r"\[([\w-]+)\] sees (\S+)", output))


def test_replicas_of_a_run_have_devices_of_their_own_and_others_none(tmp_path: Path, devices: list[str]) -> None:
    cli = Cli(tmp_path, **nvml.environment(devices))
    ps, worker = python(SHOW + "open('go', 'w').close()"), python(SHOW + UNTIL_TOLD, replicas=2, resources=gpu(2))
    job = tfjob("own", PS=ps, Worker=worker, spec={"successPolicy": "AllWorkers"})
    done = cli.run("run", cli.write(job), code=0)
    devices_by_replica = seen(done.stdout)
    own = [devices_by_replica[f"worker-{index}"].split(",") for index in range(2)]
    assert devices_by_replica["ps-0"] == "-1"
    assert sorted(own[0] + own[1]) == sorted(devices)


def test_two_runs_share_a_machine_without_overlap(tmp_path: Path, devices: list[str]) -> None:
    cli = Cli(tmp_path, **nvml.environment(devices[:3]))
    with ExitStack() as stack:
        runs = []
        for name, number in (("first", 2), ("second", 2)):
            job = tfjob(name, Worker=python(SHOW + UNTIL_TOLD, resources=gpu(number)))
            file = cli.write(job, name=f"{name}.yaml")
            runs.append(stack.enter_context(cli.start("run", file, "--logs-dir", name)))
            runs[0].until("[worker-0] sees", within=WITHIN)
        runs[1].until("Insufficient nvidia.com/gpu", within=WITHIN)
        assert "sees" not in runs[1].output
        (cli.folder / "go").touch()
        assert [run.wait(WITHIN) for run in runs] == [0, 0]
    assert all(len(seen(run.output)["worker-0"].split(",")) == 2 for run in runs)


def test_a_machine_without_gpus_runs_on_the_cpu_and_says_so_once(tmp_path: Path) -> None:
    cli = Cli(tmp_path, **nvml.environment([]))
    worker = python(SHOW, replicas=2, resources=gpu(1))
    job = tfjob("none", Worker=worker, spec={"successPolicy": "AllWorkers"})
    done = cli.run("run", cli.write(job), code=0)
    assert done.stdout.count("warning: NoGPU: ") == 1
    assert len(seen(done.stdout)) == 2


def test_limits_hold_where_control_groups_allow_it_and_else_it_says_what_to_do(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    code = HOLD.format(size=1) + HOLD.format(size=200)
    job = tfjob("hungry", Worker=python(code, resources={"limits": {"memory": "64Mi", "cpu": 1}}))
    done = cli.run("run", "--enforce-limits", "-o", "json", cli.write(job))
    refusal = why_limits_can_not_hold()
    if refusal:
        output = " ".join(done.stderr.split())
        assert (done.returncode, refusal in output, "systemd-run --user --scope" in output) == (2, True, True), output
        return
    assert done.returncode == 1, done.stderr
    [result] = json.loads(done.stdout)["jobs"]
    assert "exited with code 137 (OOMKilled)" in result["message"]
    assert result["replicas"][0]["peakMemory"] <= 64 << 20
    assert "LimitsNotEnforced" not in done.stderr
