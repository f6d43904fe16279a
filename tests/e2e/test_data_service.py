"""`spec.dataService` on one machine: real data workers prepare what a real program trains on, and are killed."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.support.cli import Cli, container_process

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]  # the sum of what it waits for at most

ROOT = Path(__file__).parents[2]
TRAIN = "examples/data-service/train.py"
LIMIT = 400  # seconds; a run takes some 20 on an idle machine of 2 cores
ELEMENTS = 400


def seen(output: str) -> dict[int, int]:
    """The number of elements by how often the program has seen them."""
    counts = re.findall(r"^\[worker-0\] (\d+) elements were seen (\d+) times$", output, re.MULTILINE)
    return {int(times): int(elements) for elements, times in counts}


def test_a_data_worker_and_the_dispatcher_are_killed_and_no_element_is_lost_to_the_dispatchers_end(
    tmp_path: Path,
) -> None:
    kept = tmp_path / "kept"
    command = ["run", TRAIN, "--data-workers", "2", "--checkpoint", str(tmp_path / "checkpoints")]
    program = ["--", "--elements", str(ELEMENTS), "--wait", "100"]
    with Cli(ROOT).start(*command, "--logs-dir", str(kept), *program) as process:
        process.until("[worker-0] step 50\n", within=LIMIT)
        os.kill(container_process(kept, "train-dispatcher-0"), signal.SIGKILL)
        process.until("[worker-0] step 150\n", within=LIMIT)
        os.kill(container_process(kept, "train-dataworker-1"), signal.SIGKILL)
        assert process.wait(LIMIT) == 0, process.output
    # DYNAMIC sharding hands out each element at most once: the killed data worker takes a few with it.
    times = seen(process.output)
    assert times.keys() <= {0, 1}, process.output
    assert times.get(0, 0) < ELEMENTS // 8, process.output
    result = json.loads((kept / "result.json").read_text())["jobs"][0]
    states = {replica["name"]: replica["state"] for replica in result["replicas"]}
    assert states == {
        "worker-0": "Succeeded",
        "dispatcher-0": "Stopped",
        "dataworker-0": "Stopped",
        "dataworker-1": "Stopped",
    }


def test_an_image_without_tensorflow_is_named_as_the_cause(tmp_path: Path) -> None:
    """A module that can't be imported stands for the image: processes share the machine's TensorFlow."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "tensorflow.py").write_text("raise ImportError('there is none')\n")
    (tmp_path / "wait.py").write_text("import time\ntime.sleep(20)\n")
    cli = Cli(tmp_path, PYTHONPATH=str(tmp_path / "broken"))
    done = cli.run("run", "wait.py", "--data-workers", "1", timeout=LIMIT, code=0)
    assert "this image has no TensorFlow with tf.data service (2.4 or later): there is none" in done.stdout
