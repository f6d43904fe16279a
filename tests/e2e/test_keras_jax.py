"""Keras 3 with the JAX backend over several processes: equal losses, other numbers of workers, and killed workers."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.support.cli import Cli, container_process

pytestmark = pytest.mark.tensorflow

ROOT = Path(__file__).parents[2]
TRAIN = "examples/keras-jax/train.py"
LIMIT = 400  # seconds; a run takes some 15 on an idle machine of 2 cores


def losses(output: str, replica: str = "worker-0") -> dict[int, float]:
    """The loss of each epoch that a replica has printed at the end of `fit`."""
    found = re.findall(rf"^\[{replica}\] epoch (\d+) loss (\S+)$", output, re.MULTILINE)
    return {int(epoch): float(loss) for epoch, loss in found}


def run(checkpoints: Path, workers: int, epochs: int, *options: str) -> dict[int, float]:
    arguments = ["--workers", str(workers), "--checkpoint", str(checkpoints), "--logs-dir", f"{checkpoints}-{epochs}"]
    done = Cli(ROOT).run("run", TRAIN, *arguments, *options, "--", "--epochs", str(epochs), timeout=LIMIT, code=0)
    if workers > 1:
        assert losses(done.stdout, "worker-1") == losses(done.stdout)
    return losses(done.stdout)


@pytest.fixture(scope="module")
def of_one_process(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """The losses of four epochs in one process."""
    return run(tmp_path_factory.mktemp("one") / "checkpoints", 1, 4)


@pytest.mark.timeout(600)
def test_one_process_two_and_one_again_train_as_one_does(tmp_path: Path, of_one_process: dict[int, float]) -> None:
    kept = tmp_path / "checkpoints"
    found = run(kept, 1, 1) | run(kept, 2, 3, "--resume") | run(kept, 1, 4, "--resume")
    assert found == pytest.approx(of_one_process, abs=1e-5)


@pytest.mark.timeout(600)
def test_a_worker_that_is_killed_in_any_epoch_costs_that_epoch_only(
    tmp_path: Path, of_one_process: dict[int, float]
) -> None:
    command = ["run", TRAIN, "--workers", "2", "--max-restarts", "5", "--restart-scope", "job"]
    command += ["--checkpoint", str(tmp_path / "checkpoints"), "--logs-dir", str(tmp_path / "kept")]
    with Cli(ROOT).start(*command, "--", "--epochs", "3", "--pause", "3") as process:
        for epoch, victim in ((1, "worker-1"), (2, "worker-0")):
            process.until(f"[{victim}] Epoch {epoch}/3", within=LIMIT)
            os.kill(container_process(tmp_path / "kept", f"train-{victim}"), signal.SIGKILL)
            process.until(f"because of {victim.capitalize()} (exited with code 137)", within=LIMIT)
        assert process.wait(LIMIT) == 0, process.output
    output = process.output
    for worker in ("worker-0", "worker-1"):
        assert re.findall(rf"\[{worker}\] goes on after epoch (\d)", output) == ["1"], output
        assert losses(output, worker) == pytest.approx({epoch: of_one_process[epoch] for epoch in (2, 3)}, abs=1e-5)


FITTING = """
import os, time
os.environ["KERAS_BACKEND"] = "jax"
import keras, numpy
from tfoperator.progress import SavingCallback
keras.distribution.initialize()
keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
process = int(os.environ["KERAS_DISTRIBUTION_PROCESS_ID"])
keras.utils.set_random_seed(1)
inputs = numpy.arange(1600, dtype="float32").reshape(400, 4) / 1600
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.01), "mse")
class Batches(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        print("begins after", int(self.model.optimizer.iterations), flush=True)
    def on_train_batch_end(self, batch, logs=None):
        print("batch", int(self.model.optimizer.iterations), flush=True)
        time.sleep(0.1)
share = inputs[process::2]
callbacks = [SavingCallback(), Batches()]
model.fit(share, share.sum(1), batch_size=5, epochs=2, shuffle=False, verbose=0, callbacks=callbacks)
"""


@pytest.mark.timeout(600)
def test_the_end_of_one_worker_is_announced_to_all_and_no_step_is_lost(tmp_path: Path) -> None:
    (tmp_path / "fitting.py").write_text(FITTING)
    command = ["run", "fitting.py", "--workers", "2", "--max-restarts", "5", "--restart-scope", "job"]
    command += ["--checkpoint", str(tmp_path / "checkpoints"), "--logs-dir", str(tmp_path / "kept")]
    with Cli(tmp_path).start(*command) as process:
        process.until("[worker-1] batch 10\n", within=LIMIT)
        os.kill(container_process(tmp_path / "kept", "fitting-worker-1"), signal.SIGTERM)
        assert process.wait(LIMIT) == 0, process.output
    for worker in ("worker-0", "worker-1"):
        begins = [int(step) for step in re.findall(rf"^\[{worker}\] begins after (\d+)$", process.output, re.MULTILINE)]
        batches = [int(step) for step in re.findall(rf"^\[{worker}\] batch (\d+)$", process.output, re.MULTILINE)]
        assert len(begins) == 2, process.output
        last = begins[1]  # which the program that ended after it has not printed
        assert last > 10
        assert batches[: last + 1] == [*range(1, last), last + 1, last + 2], "no step is lost, and none is made twice"
