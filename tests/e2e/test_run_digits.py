"""The digits example under `tfoperator run`: four TensorFlow processes, real data, real faults."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import Cli, container_process

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(600)]  # the sum of what it waits for at most

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "digits"
LIMIT = 150  # seconds; it takes 15 on an idle machine of 2 cores


def accuracy(output: str) -> float:
    match = re.search(r"\[chief-0\] accuracy on held-out samples: (\d\.\d+)", output)
    assert match, output
    return float(match[1])


def modified_example(folder: Path, *options: str, prelude: str = "", **replacements: str) -> str:
    """A copy of the example with options and with faults built into its script; returns the manifest's name."""
    script = (EXAMPLE / "train.py").read_text()
    for old, new in replacements.values():
        assert old in script, "the example has changed: adapt the fault"
        script = script.replace(old, new)
    future = "from __future__ import annotations\n"
    (folder / "train.py").write_text(script.replace(future, f"{future}\n{prelude}\n", 1))
    job: dict[str, Any] = yaml.safe_load((EXAMPLE / "tfjob.yaml").read_text())
    for spec in job["spec"]["tfReplicaSpecs"].values():
        spec["template"]["spec"]["containers"][0]["command"] = ["python", "train.py", *options]
    (folder / "tfjob.yaml").write_text(yaml.safe_dump(job))
    return "tfjob.yaml"


@pytest.mark.journey
def test_the_example_trains_a_model(tmp_path: Path) -> None:
    done = Cli(ROOT).run("run", "examples/digits/tfjob.yaml", "--logs-dir", str(tmp_path), timeout=LIMIT, code=0)
    assert accuracy(done.stdout) >= 0.90
    assert "[chief-0] step 600/600" in done.stdout
    result = json.loads((tmp_path / "result.json").read_text())
    states = {replica["name"]: replica["state"] for replica in result["jobs"][0]["replicas"]}
    assert states == {"chief-0": "Succeeded", "ps-0": "Stopped", "worker-0": "Stopped", "worker-1": "Stopped"}


def test_a_worker_with_a_mistake_fails_the_job_and_is_named(tmp_path: Path) -> None:
    prelude = "import json, os, sys\n"
    prelude += "if json.loads(os.environ['TF_CONFIG'])['task'] == {'type': 'worker', 'index': 1}:\n"
    prelude += "    sys.exit('this worker has a mistake')"
    done = Cli(tmp_path).run("run", modified_example(tmp_path, prelude=prelude), timeout=LIMIT, code=1)
    assert "worker-1 failed with exit code 1." in done.stdout
    assert "| this worker has a mistake" in done.stdout.partition("Its last log lines")[2]


def test_training_survives_a_killed_worker_and_resumes_after_the_chief_was_lost(tmp_path: Path) -> None:
    # The chief exits with 137, as if the kernel had killed it, once it has written its second checkpoint.
    pause = "time.sleep(options.pause)"
    fault = f"{pause}\n        if step == 200 and not os.path.exists('lost'):\n"
    fault += "            open('lost', 'w').close()\n            os._exit(137)"
    manifest = modified_example(tmp_path, "--pause", "1.5", chief=(pause, fault))
    with Cli(tmp_path).start("run", manifest, "--logs-dir", "kept") as process:
        process.until("[chief-0] step 100/600", within=LIMIT)
        os.kill(container_process(tmp_path / "kept", "digits-worker-0"), signal.SIGKILL)
        assert process.wait(LIMIT) == 0, process.output
    assert "[chief-0] resumed from step 200" in process.output
    assert accuracy(process.output) >= 0.90
    result = json.loads((tmp_path / "kept" / "result.json").read_text())
    restarts = {replica["name"]: replica["restarts"] for replica in result["jobs"][0]["replicas"]}
    assert restarts == {"chief-0": 1, "ps-0": 0, "worker-0": 1, "worker-1": 0}
