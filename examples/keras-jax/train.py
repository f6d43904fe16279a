"""Trains a Keras model on scikit-learn's handwritten digits by `fit`, over several processes, with the JAX backend.

Every worker of the TFJob runs this same file. `keras.distribution.initialize()` needs no argument: the operator gives
each process the addresses of all, their number and its own. Each has a copy of the model and a share of each batch;
JAX adds up the gradients, so the copies stay equal, and equal to those of one process with the whole batch.

After each epoch all processes save the model, and process 0 keeps it, if `TFOPERATOR_CHECKPOINT_DIR` names a folder. A
run that is started again goes on after the last epoch that is there.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"

import keras
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SEED = 20
PIXELS, HIDDEN, CLASSES = 64, 64, 10
BATCH = 64  # of all processes together


def share_of(process: int, processes: int) -> Any:
    """Return a process's share of 1797 images of 8x8 pixels, and all of the quarter that is held out.

    Row `i` of a batch belongs to process `i % processes`: so each batch has the same images, however many share it.
    """
    images, labels = load_digits(return_X_y=True)
    images, labels = (images / 16.0).astype("float32"), labels.astype("int32")
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=0.25, random_state=SEED, stratify=labels
    )
    whole = len(train_labels) // BATCH * BATCH
    return train_images[process:whole:processes], train_labels[process:whole:processes], test_images, test_labels


def make_model() -> keras.Model:
    """Return a model that `fit` can train, with the same weights in each process."""
    keras.utils.set_random_seed(SEED)
    model = keras.Sequential(
        [
            keras.Input((PIXELS,)),
            keras.layers.Dense(HIDDEN, activation="relu"),
            keras.layers.Dense(CLASSES),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    return model


def newest_checkpoint(folder: Path) -> tuple[keras.Model | None, int]:
    """Return the model of the newest checkpoint and the number of its epochs; (None, 0) where there is none."""
    found = {int(match[1]): path for path in folder.glob("*.keras") if (match := re.match(r"epoch-(\d+)\.", path.name))}
    if not found:
        return None, 0
    last = max(found)
    return keras.saving.load_model(found[last]), last


class Checkpoints(keras.callbacks.Callback):
    """Writes the model after each epoch. A file has its name only when it is complete.

    All processes save, since Keras does so by operations in which all take part; process 0 keeps its file.
    """

    def __init__(self, folder: Path, *, keeps: bool) -> None:
        super().__init__()
        self.folder = folder
        self.keeps = keeps

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Write it."""
        del logs
        with tempfile.TemporaryDirectory(dir=self.folder if self.keeps else None) as work:
            unfinished = Path(work) / "unfinished.keras"
            self.model.save(unfinished)
            if self.keeps:
                unfinished.replace(self.folder / f"epoch-{epoch + 1}.keras")


class Pause(keras.callbacks.Callback):
    """Waits in each epoch."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Wait."""
        del epoch, logs
        time.sleep(self.seconds)


class Losses(keras.callbacks.Callback):
    """Prints the loss of each epoch with more digits than Keras, when the epoch's checkpoint is complete."""

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Print it."""
        print(f"epoch {epoch + 1} loss {(logs or {})['loss']:.7f}", flush=True)


def main() -> None:
    """Train with the processes that the variables name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds in each epoch, to have time to look")
    options = parser.parse_args()

    process, processes = 0, 1
    if "KERAS_DISTRIBUTION_NUM_PROCESSES" in os.environ:
        keras.distribution.initialize()
        keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
        process = int(os.environ["KERAS_DISTRIBUTION_PROCESS_ID"])
        processes = int(os.environ["KERAS_DISTRIBUTION_NUM_PROCESSES"])
    print(f"process {process} of {processes}", flush=True)

    folder = Path(os.environ.get("TFOPERATOR_CHECKPOINT_DIR", ""))
    model, done = newest_checkpoint(folder) if folder.name else (None, 0)
    model = model or make_model()
    if done:
        print(f"goes on after epoch {done}", flush=True)
    images, labels, test_images, test_labels = share_of(process, processes)
    checkpoints = [Checkpoints(folder, keeps=process == 0)] if folder.name else []
    model.fit(
        images,
        labels,
        batch_size=BATCH // processes,
        epochs=options.epochs,
        initial_epoch=done,
        shuffle=False,
        verbose=2,
        callbacks=[Pause(options.pause), *checkpoints, Losses()],
    )
    print(f"accuracy on held-out samples: {model.evaluate(test_images, test_labels, verbose=0)[1]:.3f}", flush=True)


if __name__ == "__main__":
    main()
