"""The program of examples/keras-jax under tests: held in the epochs in which its workers are killed, and judged."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRAIN = "examples/keras-jax/train.py"

HELD = """
import os, sys, time
sys.path.insert(0, sys.argv.pop(1))
import train
folder = os.environ["TFOPERATOR_CHECKPOINT_DIR"]
process = os.environ.get("KERAS_DISTRIBUTION_PROCESS_ID", "0")
class Held(train.Pause):
    def on_epoch_begin(self, epoch, logs=None):
        self.hold = f"{folder}/hold-{process}-in-{epoch + 1}"
    def on_train_batch_begin(self, batch, logs=None):
        while batch == 5 and os.path.exists(self.hold):
            time.sleep(0.05)
train.Pause = Held
train.main()
"""
"""Runs train.py from the folder in its first argument. It stays in an epoch as long as a file for its process exists.

A worker that is killed there has trained a part of the epoch. The other worker stays, too, or waits for its gradients.
"""


def hold_of(checkpoints: Path, epoch: int, worker: int) -> Path:
    """The file that holds this worker in this epoch."""
    return checkpoints / f"hold-{worker}-in-{epoch}"


@cache
def losses_of_one_process(epochs: int) -> dict[int, float]:
    """The loss of each epoch in a single process without an operator, with the same batches."""
    command = [sys.executable, TRAIN, "--epochs", str(epochs)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=True)
    return dict(losses(done.stdout))


def attempts(log: str) -> list[str]:
    """Split the log of a replica where its program begins."""
    return re.split(r"^process \d+ of \d+$", log, flags=re.MULTILINE)[1:]


def losses(log: str) -> list[tuple[int, float]]:
    """The epochs that have ended in a log, with the loss of each epoch."""
    return [(int(epoch), float(loss)) for epoch, loss in re.findall(r"^epoch (\d+) loss (\S+)$", log, re.MULTILINE)]


def assert_trained_as_one_process(log: str, starts: list[int], epochs: range) -> None:
    """Check a log of all attempts: each attempt goes on after the newest checkpoint, and the losses are equal.

    `starts` has the epoch of each attempt's checkpoint, and `epochs` the epochs that have ended in the log, each once.
    """
    assert [int(epoch) for epoch in re.findall(r"^goes on after epoch (\d+)$", log, re.MULTILINE)] == starts, log
    actual, expected = losses(log), losses_of_one_process(max(epochs))
    assert [epoch for epoch, _ in actual] == [*epochs], log
    assert dict(actual) == pytest.approx({epoch: expected[epoch] for epoch in epochs}, abs=1e-5)
