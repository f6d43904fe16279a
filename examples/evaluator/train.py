"""Trains a small network on scikit-learn's handwritten digits, and measures it in another process meanwhile.

Both replicas of the TFJob run this same file, and TF_CONFIG says which one a process is. The `chief` trains and saves a
checkpoint now and then; the `evaluator` looks for them in the directory they share, measures the latest whenever there
is a new one, and ends after the last. They have no other connection, so either can be started again at any time.

The job is over when the chief ends, and an evaluator that still runs is stopped then. So the chief waits until the last
checkpoint has been measured.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# Leave the logs to what this script has to say.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import tensorflow as tf

tf.get_logger().setLevel("ERROR")

SEED = 20
PIXELS, HIDDEN, CLASSES = 64, 64, 10
BATCH = 64
POLL = 0.2  # seconds between two looks at the shared directory


def load_digits() -> Any:
    """1797 images of 8x8 pixels, a quarter of them held out; the same split in every process."""
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    images, labels = load(return_X_y=True)
    images = (images / 16.0).astype("float32")
    return train_test_split(images, labels.astype("int32"), test_size=0.25, random_state=SEED, stratify=labels)


class Network(tf.Module):
    """One hidden layer, and the number of minibatches that it has learned from."""

    def __init__(self) -> None:
        super().__init__()
        random = tf.random.Generator.from_seed(SEED)
        self.w1 = tf.Variable(random.normal((PIXELS, HIDDEN), stddev=(2 / PIXELS) ** 0.5))
        self.b1 = tf.Variable(tf.zeros(HIDDEN))
        self.w2 = tf.Variable(random.normal((HIDDEN, CLASSES), stddev=(1 / HIDDEN) ** 0.5))
        self.b2 = tf.Variable(tf.zeros(CLASSES))
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """The logits of each class."""
        return tf.nn.relu(images @ self.w1 + self.b1) @ self.w2 + self.b2

    def loss(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The mean cross-entropy."""
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=self(images)))


def result_of(step: int, options: argparse.Namespace) -> Path:
    """The file in which the evaluator leaves what it has measured at a step."""
    return Path(options.checkpoint_dir, f"evaluation-{step}.json")


def train(options: argparse.Namespace) -> None:
    """Train for `options.steps` minibatches, or what a checkpoint leaves of them; then wait for the evaluator."""
    images, _, labels, _ = load_digits()
    network = Network()
    # All are kept, so that none goes while the evaluator reads it.
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(network=network), options.checkpoint_dir, max_to_keep=None)
    if manager.restore_or_initialize():
        print(f"resumed from step {int(network.step)} ({manager.latest_checkpoint})", flush=True)

    @tf.function
    def learn(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = network.loss(images, labels)
        variables = network.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(options.learning_rate * gradient)
        network.step.assign_add(1)
        return loss

    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels), seed=SEED).repeat()
    batches = iter(data.batch(BATCH, drop_remainder=True))
    while int(network.step) < options.steps:
        loss = learn(*next(batches))
        step = int(network.step)
        if step % options.checkpoint_every == 0 or step == options.steps:
            manager.save(checkpoint_number=step)
            print(f"step {step}/{options.steps} loss {float(loss):.3f}", flush=True)

    deadline = time.monotonic() + options.patience
    while not result_of(int(network.step), options).exists():
        if time.monotonic() > deadline:
            sys.exit(f"the evaluator has not measured the last checkpoint within {options.patience:g} s")
        time.sleep(POLL)


def evaluate(options: argparse.Namespace) -> None:
    """Measure the latest checkpoint whenever there is a new one, until `options.steps` are done."""
    _, images, _, labels = load_digits()
    network = Network()
    checkpoint = tf.train.Checkpoint(network=network)
    measured = -1
    while measured < options.steps:
        # Written after the checkpoint's own files, so what it names is complete.
        latest = tf.train.latest_checkpoint(options.checkpoint_dir)
        step = int(latest.rpartition("-")[2]) if latest else -1
        if step == measured:
            time.sleep(POLL)
            continue
        checkpoint.restore(latest).expect_partial()
        predicted = tf.argmax(network(images), axis=1, output_type=tf.int32)
        accuracy = float(tf.reduce_mean(tf.cast(predicted == labels, tf.float32)))
        print(f"step {step}: accuracy on held-out samples: {accuracy:.3f}", flush=True)
        result_of(step, options).write_text(json.dumps({"step": step, "accuracy": accuracy}))
        measured = step


def parse_arguments() -> argparse.Namespace:
    """The command line; its defaults are what the example is meant to do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600, help="minibatches in all")
    parser.add_argument("--learning-rate", type=float, default=0.2)
    parser.add_argument("--checkpoint-every", type=int, default=100, help="minibatches between two checkpoints")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds that the chief waits for the evaluator")
    parser.add_argument(
        "--checkpoint-dir",
        default=os.environ.get("TFOPERATOR_CHECKPOINT_DIR")
        or os.path.join(tempfile.gettempdir(), "evaluator-checkpoints"),
        help="where the chief saves checkpoints and the evaluator finds them (%(default)s)",
    )
    return parser.parse_args()


def main() -> None:
    """Do what this replica's part in TF_CONFIG is."""
    options = parse_arguments()
    role = json.loads(os.environ["TF_CONFIG"])["task"]["type"]
    if role == "evaluator":
        evaluate(options)
    else:
        train(options)


if __name__ == "__main__":
    main()
