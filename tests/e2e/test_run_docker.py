"""`tfoperator run --runtime docker` and `local up` likewise, on a real engine, which shows what they leave there."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml

from hack.docker_engine import BUSYBOX_IMAGE, DockerEngine
from tests.support.cli import COMMAND, Cli, CliProcess, lines_of, replica, tfjob
from tests.support.docker_engine import traces, with_this_python
from tests.support.eventually import eventually
from tests.support.keras_jax import assert_trained_as_one_process
from tfoperator.api.v1.types import TFJOBS, decode_tfjob
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config

pytestmark = pytest.mark.timeout(600)  # the sum of what it waits for at most

ROOT = Path(__file__).parents[2]
LIMIT = 120.0  # seconds for a training of two workers; it takes some 15 on an idle machine of 2 cores

SERVE = "trap 'echo asked to stop; exit 0' TERM; echo serving; while :; do sleep 0.05; done"


@pytest.fixture
def engine(docker_engine: DockerEngine) -> Iterator[Any]:
    """A client of an engine that other tests have left clean."""
    client = docker.DockerClient(base_url=docker_engine.url)
    eventually(lambda: traces(client) == [], what="what another test has left is gone")
    yield client
    client.close()


@pytest.fixture
def cli(docker_engine: DockerEngine, tmp_path: Path) -> Cli:
    return Cli(tmp_path, DOCKER_HOST=docker_engine.url, XDG_STATE_HOME=str(tmp_path / "state"))


def in_busybox(*command: str, **more: Any) -> dict[str, Any]:
    """A replica spec that runs a command in a container."""
    return replica(*command, image=BUSYBOX_IMAGE, **more)


@pytest.fixture
def training_image(docker_engine: DockerEngine) -> None:
    """The image that the examples name. It runs this machine's Python, which their pods mount."""
    programs = {"python": "", "tensorboard": "-m tensorboard.main"}
    docker_engine.load(
        "tfoperator/digits:latest",
        {
            f"bin/{name}": f'#!/bin/sh\nexec {sys.executable} {options} "$@"\n'.encode()
            for name, options in programs.items()
        }
        | {"app/examples": ROOT / "examples"},
        workdir="/app",
    )


@pytest.mark.tensorflow
@pytest.mark.usefixtures("training_image")
def test_two_workers_train_under_their_services_names_beside_a_tensorboard(
    cli: Cli, docker_engine: DockerEngine, engine: Any
) -> None:
    claim, job = yaml.safe_load_all((ROOT / "examples/multi-worker/tfjob.yaml").read_text())
    pod = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    with_this_python(pod)
    pod["containers"][0]["command"] = ["sh", "-ec"]
    trained = "python examples/multi-worker/train.py; until test -e $TFOPERATOR_CHECKPOINT_DIR/seen; do sleep 0.1; done"
    pod["containers"][0]["args"] = [f"echo $TF_CONFIG; {trained}"]
    board: dict[str, Any] = {"logDir": "/tmp", "image": "tfoperator/digits:latest"}
    with_this_python(board)
    job["spec"]["tensorBoard"] = board
    manifest = cli.write(yaml.safe_dump_all([claim, job]))

    command = [*docker_engine.enter, *COMMAND, "run", "--runtime", "docker", "--allow-privileged", manifest]
    command += ["--logs-dir", "out"]
    with CliProcess(command, cli.folder, cli.environment) as process:
        process.until("TensorBoard is ready at http://127.0.0.1:", within=LIMIT)
        url = process.output.partition("TensorBoard is ready at ")[2].split()[0]
        look = f"import urllib.request; print(urllib.request.urlopen({url!r}, timeout=60).read().decode())"
        page = subprocess.run(
            [*docker_engine.enter, sys.executable, "-c", look], capture_output=True, text=True, check=True
        )
        assert "<title>TensorBoard</title>" in page.stdout
        (cli.folder / "out/volumes/claims/default/multi-worker/default/multi-worker/seen").touch()
        assert process.wait(LIMIT) == 0, process.output

    assert (
        '"worker":["multi-worker-worker-0.default.svc:2222","multi-worker-worker-1.default.svc:2222"]' in process.output
    )
    result = json.loads((cli.folder / "out/result.json").read_text())
    assert [(summary["name"], summary["state"]) for summary in result["jobs"][0]["replicas"]] == [
        ("worker-0", "Succeeded"), ("worker-1", "Succeeded"),
    ]  # fmt: skip
    accuracies = [line.rpartition(": ")[2] for line in process.output.splitlines() if "accuracy on held-out" in line]
    assert len(accuracies) == 2
    assert float(accuracies[0]) == float(accuracies[1]) >= 0.90
    assert traces(engine) == []


@pytest.mark.tensorflow
@pytest.mark.usefixtures("training_image")
def test_keras_on_jax_and_a_data_service_find_each_other_by_the_addresses_in_their_variables(
    cli: Cli, engine: Any
) -> None:
    (claim, jax), (journal, fed) = (
        yaml.safe_load_all((ROOT / f"examples/{name}/tfjob.yaml").read_text()) for name in ("keras-jax", "data-service")
    )
    workers = [job["spec"]["tfReplicaSpecs"]["Worker"]["template"] for job in (jax, fed)]
    for template in (*workers, fed["spec"]["dataService"]["template"]):
        with_this_python(template["spec"])
    workers[0]["spec"]["containers"][0]["command"] += ["--epochs", "2"]
    manifest = cli.write(*(yaml.safe_dump_all(documents) for documents in ([claim, jax], [journal, fed])))
    done = cli.run("run", "--runtime", "docker", "--allow-privileged", manifest, timeout=4 * LIMIT, code=0)
    for worker in ("worker-0", "worker-1"):
        assert_trained_as_one_process(lines_of(done.stdout, f"keras-jax/{worker}"), [], range(1, 3))
    assert "400 elements were seen 1 times" in lines_of(done.stdout, "data-service/worker-0")
    assert traces(engine) == []


def test_an_interrupt_stops_containers_in_order_and_leaves_nothing(cli: Cli, engine: Any) -> None:
    job = tfjob("long", Worker=in_busybox("sh", "-c", SERVE, replicas=2))
    with cli.start("run", "--runtime", "docker", cli.write(job)) as process:
        for replica in ("worker-0", "worker-1"):
            process.until(f"[{replica}] serving")
        assert process.end(signal.SIGINT) == 130, process.output
    assert process.output.count("asked to stop") == 2
    assert traces(engine) == []


def test_nothing_outlives_a_run_that_is_killed(cli: Cli, engine: Any) -> None:
    job = tfjob("long", Worker=in_busybox("sh", "-c", SERVE))
    with cli.start("run", "--runtime", "docker", cli.write(job)) as process:
        process.until("[worker-0] serving")
        process.end(signal.SIGKILL)
    eventually(lambda: traces(engine) == [], what="what the run had made is gone")


def test_a_failure_is_explained(cli: Cli, engine: Any) -> None:
    eat = "echo hungry; x=a; while :; do x=$x$x; done"
    little = {"limits": {"memory": "32Mi"}}
    job = tfjob("eater", Worker=in_busybox("sh", "-c", eat, resources=little))
    done = cli.run("run", "--runtime", "docker", cli.write(job), "--logs-dir", "out", code=1)
    assert "worker-0 failed with exit code 137" in done.stdout
    assert "OOMKilled" in done.stdout
    assert "| hungry" in done.stdout
    assert traces(engine) == []


def test_power_over_the_machine_needs_the_option(cli: Cli, engine: Any) -> None:
    worker = in_busybox("ls", "/host", volumeMounts=[{"name": "host", "mountPath": "/host"}])
    worker["template"]["spec"]["volumes"] = [{"name": "host", "hostPath": {"path": str(cli.folder)}}]
    file = cli.write(tfjob("curious", Worker=worker))
    refused = cli.run("run", "--runtime", "docker", file, code=1)
    assert f"volume 'host' with hostPath {cli.folder}" in refused.stdout
    assert "--allow-privileged" in refused.stdout
    assert "job.yaml" not in refused.stdout
    assert "[worker-0] job.yaml" in cli.run("run", "--runtime", "docker", "--allow-privileged", file, code=0).stdout
    assert traces(engine) == []


def test_without_an_engine_nothing_is_started(cli: Cli) -> None:
    there_is_none = Cli(cli.folder, DOCKER_HOST=f"unix://{cli.folder}/none.sock")
    done = there_is_none.run("run", "--runtime", "docker", cli.write(tfjob("j", Worker=in_busybox("true"))))
    assert done.returncode == 2
    assert "can't reach a Docker engine" in done.stderr
    assert "DOCKER_HOST" in done.stderr
    done = there_is_none.run("local", "up", "--runtime", "docker")
    assert done.returncode == 1
    assert "can't reach a Docker engine" in done.stderr


@pytest.fixture
def log(cli: Cli, engine: Any) -> Iterator[Path]:
    """Have a control plane up that runs a job: the log of its worker."""
    del engine  # asked for so that it is clean before
    worker = in_busybox("sh", "-c", SERVE, securityContext={"capabilities": {"add": ["SYS_NICE"]}})
    job = tfjob("long", clean="", Worker=worker)
    with Client(load_config(cli.local_up("--runtime", "docker", "--allow-privileged")["KUBECONFIG"])) as client:
        client.create(TFJOBS, "default", job.encode(), decode_tfjob)
    log = cli.folder / "state/tfoperator/local/run/logs/default/long-worker-0/tensorflow/0.log"
    eventually(lambda: log.exists() and log.read_text() == "serving\n", what="the container runs")
    yield log
    cli.run("local", "down", "--now")


def test_it_stays_up_and_goes_down_in_order(cli: Cli, log: Path, engine: Any) -> None:
    assert json.loads(cli.run("local", "status", "-o", "json").stdout)["runtime"] == "docker"
    assert cli.run("local", "down").returncode == 0
    assert "asked to stop" in log.read_text()
    assert traces(engine) == []


@pytest.mark.usefixtures("log")
def test_after_a_crash_that_took_the_guardian_too_down_removes_what_is_left(cli: Cli, engine: Any) -> None:
    pid = int(json.loads(cli.run("local", "status", "-o", "json").stdout)["pid"])
    children = [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    [guardian] = [child for child in children if "guardian_main" in Path(f"/proc/{child}/cmdline").read_text()]
    for process in (guardian, pid):
        os.kill(process, signal.SIGKILL)
    done = cli.run("local", "down", code=0)
    assert "the control plane had crashed: its processes and files are removed now" in done.stderr
    assert "removed the container tfoperator-" in done.stderr
    assert traces(engine) == []
