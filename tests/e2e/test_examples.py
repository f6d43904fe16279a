"""The examples: every manifest is valid, and those that no test of its own looks at train under `tfoperator run`."""

import json
import os
import re
import signal
from pathlib import Path

import pytest
import yaml

from tests.support.cli import Cli, container_process

pytestmark = pytest.mark.tensorflow

ROOT = Path(__file__).parents[2]
LIMIT = 300  # seconds; each takes some 10 on an idle machine of 2 cores

WITHOUT_A_JOB = {
    "accelerators/operator.yaml",
    "checkpoint/claim.yaml",
    "katib/experiment.yaml",
    "launcher/component.yaml",
    "launcher/train.yaml",
    "pipeline/argo.yaml",
    "pipeline/runner.yaml",
    "tensorboard/claim.yaml",
}
MANIFESTS = {str(path.relative_to(ROOT / "examples")) for path in (ROOT / "examples").rglob("*.yaml")}


def train(example: str, run_dir: Path) -> tuple[str, dict[str, str]]:
    """Run an example to its end; returns its output and how each replica ended."""
    done = Cli(ROOT).run("run", f"examples/{example}/tfjob.yaml", "--logs-dir", str(run_dir), timeout=LIMIT, code=0)
    result = json.loads((run_dir / "result.json").read_text())
    return done.stdout, {replica["name"]: replica["state"] for replica in result["jobs"][0]["replicas"]}


def accuracies(replica: str, output: str) -> list[float]:
    """Return the accuracies of a replica, in the order of its lines."""
    numbers = re.findall(rf"^\[{replica}\] .*accuracy on held-out samples: (\d\.\d+)", output, re.MULTILINE)
    assert numbers, output
    return [float(number) for number in numbers]


@pytest.mark.parametrize("manifest", sorted(MANIFESTS - WITHOUT_A_JOB))
def test_a_manifest_is_valid(manifest: str) -> None:
    Cli(ROOT / "examples").run("validate", manifest, code=0)


def test_a_single_worker_trains_without_tf_config(tmp_path: Path) -> None:
    output, states = train("single-worker", tmp_path)
    assert "[worker-0] TF_CONFIG is not set" in output
    assert accuracies("worker-0", output)[-1] >= 0.90
    assert states == {"worker-0": "Succeeded"}


def test_a_program_that_reads_its_cluster_from_arguments_trains(tmp_path: Path) -> None:
    output, states = train("cluster-arguments", tmp_path)
    assert accuracies("worker-0", output)[-1] >= 0.85
    assert "[worker-1] step 300/300" in output
    assert states == {"ps-0": "Stopped", "worker-0": "Succeeded", "worker-1": "Succeeded"}


def test_the_stock_parameter_servers_serve_until_the_job_is_over(tmp_path: Path) -> None:
    output, states = train("default-parameter-server", tmp_path)
    assert "[ps-1] parameter server 1 serves" in output
    assert accuracies("chief-0", output)
    assert {states["ps-0"], states["ps-1"]} == {"Stopped"}
    replicas = json.loads((tmp_path / "result.json").read_text())["jobs"][0]["replicas"]
    assert {replica["exitCode"] for replica in replicas if replica["name"].startswith("ps-")} == {143}


def test_an_evaluator_measures_the_checkpoints_of_a_chief(tmp_path: Path) -> None:
    output, states = train("evaluator", tmp_path)
    assert "[chief-0] step 600/600" in output
    assert accuracies("evaluator-0", output)[-1] >= 0.90
    assert states.pop("evaluator-0") in ("Succeeded", "Stopped")  # it ends when the chief does
    assert states == {"chief-0": "Succeeded"}


def test_two_mirrored_workers_end_with_the_same_network(tmp_path: Path) -> None:
    output, states = train("multi-worker", tmp_path)
    assert "[worker-0] worker 0 of 2 is in the cluster" in output
    assert accuracies("worker-0", output) == accuracies("worker-1", output)
    assert accuracies("worker-0", output)[-1] >= 0.90
    assert states == {"worker-0": "Succeeded", "worker-1": "Succeeded"}


def test_a_keras_model_is_trained_by_two_workers_that_fit_could_not_train(tmp_path: Path) -> None:
    output, states = train("keras-multi-worker", tmp_path)
    assert accuracies("worker-0", output) == accuracies("worker-1", output)
    assert accuracies("worker-0", output)[-1] >= 0.90
    assert states == {"worker-0": "Succeeded", "worker-1": "Succeeded"}


@pytest.mark.timeout(400)
def test_two_mirrored_workers_resume_together_when_one_is_killed(tmp_path: Path) -> None:
    job = list(yaml.safe_load_all((ROOT / "examples/multi-worker/tfjob.yaml").read_text()))[1]
    [container] = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    # Both rest at their first checkpoint until one is killed; those that come after them do not.
    choose = f"pause=0; for n in 1 2; do mkdir '{tmp_path}/first-'$n && pause=600 && break; done 2>/dev/null"
    script = f"{choose}; exec python '{ROOT}/examples/multi-worker/train.py' --pause $pause"
    container["command"] = ["sh", "-c", script]
    cli = Cli(tmp_path)
    with cli.start("run", cli.write(yaml.safe_dump(job)), "--logs-dir", "kept") as process:
        process.until("[worker-0] step 100/300", within=LIMIT)
        os.kill(container_process(tmp_path / "kept", "multi-worker-worker-1"), signal.SIGKILL)
        assert process.wait(LIMIT) == 0, process.output
    assert "is restarting all its replicas because of Worker-1 (exited with code 137)" in process.output
    for worker in ("worker-0", "worker-1"):
        assert re.search(rf"\[{worker}\] resumed from step 100", process.output), process.output
    assert accuracies("worker-0", process.output) == accuracies("worker-1", process.output)
    result = json.loads((tmp_path / "kept/result.json").read_text())
    assert {replica["name"]: replica["restarts"] for replica in result["jobs"][0]["replicas"]} == {
        "worker-0": 1,
        "worker-1": 1,
    }


@pytest.mark.timeout(400)
def test_two_workers_lose_no_step_when_the_end_of_one_is_announced(tmp_path: Path) -> None:
    command = ["run", "examples/preemption/tfjob.yaml", "--logs-dir", str(tmp_path / "kept")]
    with Cli(ROOT).start(*command) as process:
        process.until("[worker-0] step 50 ", within=LIMIT)
        os.kill(container_process(tmp_path / "kept", "preemption-worker-1"), signal.SIGTERM)
        assert process.wait(LIMIT) == 0, process.output
    assert re.search(r"restarting all its replicas because of Worker-\d \(exited with code 143\)", process.output)
    for worker in ("worker-0", "worker-1"):
        steps = [int(step) for step in re.findall(rf"\[{worker}\] step (\d+) ", process.output)]
        assert steps == list(range(1, 201))  # none is lost, and none is done again
