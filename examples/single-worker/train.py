"""Trains a small network on scikit-learn's handwritten digits with Keras, in one process.

There is nothing here of a cluster: a TFJob with one replica has no TF_CONFIG. After every epoch Keras keeps what it
needs to go on, in the temporary directory; a container that is started again goes on with the next epoch.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from typing import Any

# Leave the logs to what this script has to say.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import keras
import tensorflow as tf

tf.get_logger().setLevel("ERROR")

SEED = 20


def load_digits() -> Any:
    """1797 images of 8x8 pixels, a quarter of them held out; the same split in every run."""
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    images, labels = load(return_X_y=True)
    images = (images / 16.0).astype("float32")
    return train_test_split(images, labels.astype("int32"), test_size=0.25, random_state=SEED, stratify=labels)


def train(options: argparse.Namespace) -> None:
    """Train for `options.epochs`, or what is left of them; then measure the accuracy."""
    train_images, test_images, train_labels, test_labels = load_digits()
    keras.utils.set_random_seed(SEED)
    model = keras.Sequential(
        [keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)],
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(options.learning_rate), loss, metrics=["accuracy"])

    def say(epoch: int, logs: dict[str, float]) -> None:
        print(f"epoch {epoch + 1}/{options.epochs} loss {logs['loss']:.3f}", flush=True)

    model.fit(
        train_images,
        train_labels,
        batch_size=64,
        epochs=options.epochs,
        verbose=0,
        callbacks=[
            keras.callbacks.BackupAndRestore(options.backup_dir),
            keras.callbacks.LambdaCallback(on_epoch_end=say),
        ],
    )
    _, accuracy = model.evaluate(test_images, test_labels, verbose=0)
    print(f"accuracy on held-out samples: {accuracy:.3f}", flush=True)


def parse_arguments() -> argparse.Namespace:
    """The command line; its defaults are what the example is meant to do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=0.003)
    parser.add_argument(
        "--backup-dir",
        default=os.path.join(tempfile.gettempdir(), "single-worker-backup"),
        help="where the last epoch is kept until training is over (%(default)s)",
    )
    return parser.parse_args()


def main() -> None:
    """Train, alone."""
    options = parse_arguments()
    print(f"TF_CONFIG is {'set' if 'TF_CONFIG' in os.environ else 'not set'}", flush=True)
    train(options)


if __name__ == "__main__":
    main()
