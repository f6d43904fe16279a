"""Keras 3 with the JAX backend over several processes: equal losses, other numbers of workers, and killed workers."""

import inspect
import os
import re
import signal
from pathlib import Path

import pytest

from tests.support.cli import Cli, CliProcess, container_process, lines_of
from tests.support.eventually import eventually_holds
from tests.support.keras_jax import HELD, ROOT, TRAIN, assert_trained_as_one_process, attempts, hold_of
from tfoperator.notebook import run_locally

pytestmark = pytest.mark.tensorflow

LIMIT = 400  # seconds; a run takes some 15 on an idle machine of 2 cores


def run(checkpoints: Path, workers: int, epochs: int, *options: str) -> list[str]:
    """Train up to this epoch; return the log of each worker."""
    arguments = ["--workers", str(workers), "--checkpoint", str(checkpoints), "--logs-dir", f"{checkpoints}-{epochs}"]
    done = Cli(ROOT).run("run", TRAIN, *arguments, *options, "--", "--epochs", str(epochs), timeout=LIMIT, code=0)
    assert "progress: 100%" in done.stdout, "Keras' own output shows the progress"
    return [lines_of(done.stdout, f"worker-{index}") for index in range(workers)]


def connect() -> None:
    import os

    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import keras

    keras.distribution.initialize()
    print("connected as process", jax.process_index(), "of", jax.process_count(), flush=True)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("local_up")
def test_initialize_needs_no_argument_in_a_notebook_and_in_a_submitted_program(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run_locally(connect, num_workers=2)
    logs = [result.log(f"worker-{index}") for index in range(2)]
    (tmp_path / "work").mkdir()
    (tmp_path / "work/connects.py").write_text(f"{inspect.getsource(connect)}\n\nconnect()\n")
    options = ("--workdir", "work", "--workers", "2", "--image", "tf:1")
    done = cli.run("submit", "work/connects.py", *options, "--follow", timeout=LIMIT, code=0)
    logs += [lines_of(done.stdout, f"worker-{index}") for index in range(2)]
    for index, log in enumerate(logs):
        assert f"connected as process {index % 2} of 2" in log


@pytest.mark.timeout(600)
def test_one_process_two_and_one_again_train_as_one_does(tmp_path: Path) -> None:
    kept = tmp_path / "checkpoints"
    alone, two, again = run(kept, 1, 1), run(kept, 2, 3, "--resume"), run(kept, 1, 4, "--resume")
    for of_two in two:
        assert_trained_as_one_process("\n".join([*alone, of_two, *again]), [1, 3], range(1, 5))


def wait_for_epoch(process: CliProcess, attempt: int, epoch: int) -> None:
    """Wait until both workers train this epoch in this attempt of the job."""

    def train() -> None:
        worker_logs = [attempts(lines_of(process.output, worker))[attempt:] for worker in ("worker-0", "worker-1")]
        assert all(logs and f"Epoch {epoch}/" in logs[0] for logs in worker_logs), process.output

    eventually_holds(train, within=LIMIT, every=0.1, what=f"epoch {epoch} in attempt {attempt}")


@pytest.mark.timeout(600)
def test_a_worker_that_is_killed_in_any_epoch_costs_that_epoch_only(tmp_path: Path) -> None:
    """The test on a node (tests/cluster/test_keras_jax.py) kills each worker in each epoch."""
    (tmp_path / "held.py").write_text(HELD)
    checkpoints, kills = tmp_path / "checkpoints/default/held", ((1, 1), (2, 0))
    checkpoints.mkdir(parents=True)
    for kill in kills:
        hold_of(checkpoints, *kill).touch()
    command = ["run", "held.py", "--workers", "2", "--max-restarts", "2", "--restart-scope", "job"]
    command += ["--checkpoint", str(tmp_path / "checkpoints"), "--resume", "--logs-dir", str(tmp_path / "kept")]
    with Cli(tmp_path).start(*command, "--", str(ROOT / TRAIN).removesuffix("/train.py"), "--epochs", "3") as process:
        for attempt, (epoch, victim) in enumerate(kills):
            wait_for_epoch(process, attempt, epoch)
            os.kill(container_process(tmp_path / "kept", f"held-worker-{victim}"), signal.SIGKILL)
            hold_of(checkpoints, epoch, victim).unlink()
            process.until(f"because of Worker-{victim} (exited with code 137)", within=LIMIT)
        assert process.wait(LIMIT) == 0, process.output
    for worker in ("worker-0", "worker-1"):
        assert_trained_as_one_process(lines_of(process.output, worker), [1], range(1, 4))


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
