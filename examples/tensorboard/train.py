"""Trains a small network on scikit-learn's handwritten digits, and writes what TensorBoard shows.

After each epoch the loss and the accuracy are written as scalars, on the training data and on held-out samples as two
runs of one page, and the first layer's weights as a histogram. All of it is in the log directory, which the job's
TensorBoard reads while the training goes on.
"""

from __future__ import annotations

import argparse
import os
import time
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
    """Train for `options.epochs`, and write a point of each curve after every one."""
    train_images, test_images, train_labels, test_labels = load_digits()
    keras.utils.set_random_seed(SEED)
    model = keras.Sequential(
        [keras.Input((64,)), keras.layers.Dense(64, activation="relu", name="hidden"), keras.layers.Dense(10)],
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(options.learning_rate), loss, metrics=["accuracy"])
    writers = {name: tf.summary.create_file_writer(os.path.join(options.log_dir, name)) for name in ("train", "test")}

    def write(name: str, epoch: int, logs: dict[str, float]) -> None:
        with writers[name].as_default(step=epoch):
            tf.summary.scalar("loss", logs["loss"])
            tf.summary.scalar("accuracy", logs["accuracy"])
            if name == "train":
                tf.summary.histogram("hidden/kernel", model.get_layer("hidden").kernel)
        writers[name].flush()

    for epoch in range(1, options.epochs + 1):
        history = model.fit(train_images, train_labels, batch_size=64, verbose=0).history
        write("train", epoch, {name: values[-1] for name, values in history.items()})
        test = model.evaluate(test_images, test_labels, verbose=0, return_dict=True)
        write("test", epoch, test)
        print(f"epoch {epoch}/{options.epochs} loss {history['loss'][-1]:.3f}", flush=True)
        time.sleep(options.pause)
    print(f"accuracy on held-out samples: {test['accuracy']:.3f}", flush=True)


def parse_arguments() -> argparse.Namespace:
    """The command line; its defaults are what the example is meant to do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--learning-rate", type=float, default=0.001)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds to rest after each epoch, to be watched")
    parser.add_argument(
        "--log-dir",
        # Where `tfoperator run` has the volume `logs`, which a process without rights can't have at /logs.
        default=os.environ.get("TFOPERATOR_MOUNT_LOGS") or "/logs",
        help="where the event files go: the `logDir` of the job's TensorBoard (%(default)s)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    train(parse_arguments())
