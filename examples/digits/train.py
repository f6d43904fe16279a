"""Trains a small network on scikit-learn's handwritten digits with TensorFlow's parameter server strategy.

Every replica of the TFJob runs this same file. What a process has to do it learns from TF_CONFIG alone, which the
operator sets: a `ps` or `worker` serves its devices over gRPC until it is stopped, the `chief` coordinates. The
variables live on the parameter servers, the workers compute gradients, and the chief decides when to stop:

* A worker that dies costs nothing but time: the coordinator gives its unfinished work to another one, and takes the
  replacement in when it comes back.
* When a parameter server dies, the variables are gone. The chief then ends with exit code 138, which every restart
  policy but Never answers with a new start, and resumes from its latest checkpoint.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from typing import Any

# Fail an RPC to a peer that isn't there instead of waiting for it without limit; TensorFlow's own retries stay.
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")
# Leave the logs to what this script has to say.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import tensorflow as tf

tf.get_logger().setLevel("ERROR")

SEED = 20
PIXELS, HIDDEN, CLASSES = 64, 64, 10
BATCH = 64
STEPS_PER_TASK = 20  # minibatches that a worker does for one request of the chief
RETRY = 138  # an exit code of 128 or more asks to be started again


def serve(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Lend this process's devices to the chief. Does not return: the operator stops it when the job is over."""
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol="grpc",
        start=True,
    )
    print(f"{resolver.task_type} {resolver.task_id} serves at {server.target}", flush=True)
    server.join()


def load_digits() -> Any:
    """1797 images of 8x8 pixels, a quarter of them held out; the same split in every run."""
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    images, labels = load(return_X_y=True)
    images = (images / 16.0).astype("float32")
    labels = labels.astype("int32")
    return train_test_split(images, labels, test_size=0.25, random_state=SEED, stratify=labels)


class Network(tf.Module):
    """One hidden layer. Create it inside a strategy's scope: that puts its variables on the parameter servers."""

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


def coordinate(resolver: tf.distribute.cluster_resolver.ClusterResolver, options: argparse.Namespace) -> None:
    """Train for `options.steps` minibatches, or what a checkpoint leaves of them; then measure the accuracy."""
    train_images, test_images, train_labels, test_labels = load_digits()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    print(f"cluster is up: {json.dumps(resolver.cluster_spec().as_dict())}", flush=True)

    with strategy.scope():
        network = Network()

    # The chief does all reading and writing of checkpoints, so the parameter servers need not share its disk.
    on_chief = tf.train.CheckpointOptions(experimental_io_device="/job:chief/replica:0/task:0/device:CPU:0")
    checkpoint = tf.train.Checkpoint(network=network)
    manager = tf.train.CheckpointManager(checkpoint, options.checkpoint_dir, max_to_keep=2)
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint, options=on_chief)
        print(f"resumed from step {int(network.step)} ({manager.latest_checkpoint})", flush=True)

    def batches() -> Any:
        data = tf.data.Dataset.from_tensor_slices((train_images, train_labels))
        return data.shuffle(len(train_labels), seed=SEED).repeat().batch(BATCH, drop_remainder=True)

    @tf.function
    def train(iterator: Any) -> tf.Tensor:
        loss = 0.0
        for _ in range(STEPS_PER_TASK):
            images, labels = next(iterator)
            with tf.GradientTape() as tape:
                loss = network.loss(images, labels)
            variables = network.trainable_variables
            for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
                variable.assign_sub(options.learning_rate * gradient)
        network.step.assign_add(STEPS_PER_TASK)
        return loss

    iterator = iter(coordinator.create_per_worker_dataset(batches))
    while (step := int(network.step)) < options.steps:
        tasks = -(-min(options.checkpoint_every, options.steps - step) // STEPS_PER_TASK)
        losses = [coordinator.schedule(train, args=(iterator,)) for _ in range(tasks)]
        coordinator.join()
        step = int(network.step)
        manager.save(checkpoint_number=step, options=on_chief)
        print(f"step {step}/{options.steps} loss {losses[-1].fetch():.3f}", flush=True)
        time.sleep(options.pause)

    predicted = tf.argmax(network(test_images), axis=1, output_type=tf.int32)
    accuracy = float(tf.reduce_mean(tf.cast(predicted == test_labels, tf.float32)))
    print(f"accuracy on held-out samples: {accuracy:.3f}", flush=True)


def parse_arguments() -> argparse.Namespace:
    """The command line; its defaults are what the example is meant to do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600, help="minibatches in all")
    parser.add_argument("--learning-rate", type=float, default=0.2)
    parser.add_argument("--checkpoint-every", type=int, default=100, help="minibatches between two checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to rest after each checkpoint")
    parser.add_argument(
        "--checkpoint-dir",
        default=os.environ.get("TFOPERATOR_CHECKPOINT_DIR")
        or os.path.join(tempfile.gettempdir(), "digits-checkpoints"),
        help="where the chief keeps checkpoints: the job's `spec.checkpoint`, if it has one (%(default)s)",
    )
    return parser.parse_args()


def main() -> None:
    """Do what this replica's part in TF_CONFIG is."""
    options = parse_arguments()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("ps", "worker"):
        serve(resolver)
        return
    try:
        coordinate(resolver, options)
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError) as error:
        print(f"lost a parameter server, start again: {error.message[:200]}", file=sys.stderr, flush=True)
        sys.exit(RETRY)


if __name__ == "__main__":
    main()
