"""Trains a small network on scikit-learn's handwritten digits with TensorFlow's MultiWorkerMirroredStrategy.

Every worker of the TFJob runs this same file, and learns from TF_CONFIG alone who it is and where the others are. Each
has a copy of the variables and a share of the data; after every minibatch they average their gradients, so the copies
stay equal. Worker 0 is the chief, which is to say that its checkpoints are the ones that are kept.

No worker can go on without the others. When one is lost, the operator starts all of them again (`restartScope: Job`),
and they resume from the latest checkpoint.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from typing import Any

# Leave the logs to what this script has to say.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import tensorflow as tf

tf.get_logger().setLevel("ERROR")

SEED = 20
PIXELS, HIDDEN, CLASSES = 64, 64, 10
BATCH = 64  # of all workers together


def load_digits() -> Any:
    """1797 images of 8x8 pixels, a quarter of them held out; the same split in every process."""
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    images, labels = load(return_X_y=True)
    images = (images / 16.0).astype("float32")
    return train_test_split(images, labels.astype("int32"), test_size=0.25, random_state=SEED, stratify=labels)


class Network(tf.Module):
    """One hidden layer. Create it inside a strategy's scope: that gives every worker a copy, equal at the start."""

    def __init__(self) -> None:
        super().__init__()
        random = tf.random.Generator.from_seed(SEED)
        self.w1 = self._variable(random.normal((PIXELS, HIDDEN), stddev=(2 / PIXELS) ** 0.5))
        self.b1 = self._variable(tf.zeros(HIDDEN))
        self.w2 = self._variable(random.normal((HIDDEN, CLASSES), stddev=(1 / HIDDEN) ** 0.5))
        self.b2 = self._variable(tf.zeros(CLASSES))

    @staticmethod
    def _variable(value: tf.Tensor) -> tf.Variable:
        # What the workers add to a variable is averaged over them first.
        return tf.Variable(value, aggregation=tf.VariableAggregation.MEAN)

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """The logits of each class."""
        return tf.nn.relu(images @ self.w1 + self.b1) @ self.w2 + self.b2

    def loss(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The mean cross-entropy."""
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=self(images)))


def train(strategy: tf.distribute.Strategy, options: argparse.Namespace) -> None:
    """Train for `options.steps` minibatches, or what a checkpoint leaves of them; then measure the accuracy."""
    train_images, test_images, train_labels, test_labels = load_digits()
    with strategy.scope():
        network = Network()

    def share(context: tf.distribute.InputContext) -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices((train_images, train_labels))
        data = data.shard(context.num_input_pipelines, context.input_pipeline_id)
        batch = context.get_per_replica_batch_size(BATCH)
        return data.shuffle(len(train_labels), seed=SEED).repeat().batch(batch, drop_remainder=True)

    def learn(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = network.loss(images, labels)
        variables = network.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(options.learning_rate * gradient)
        return loss

    @tf.function
    def train_step(batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(learn, args=batch), axis=None)

    resolver = strategy.cluster_resolver
    done = tf.Variable(0, dtype=tf.int64)  # this worker's own
    checkpoint = tf.train.Checkpoint(network=network, step=done)
    latest = tf.train.latest_checkpoint(options.checkpoint_dir)
    if latest:
        checkpoint.restore(latest)
        print(f"resumed from step {int(done)} ({latest})", flush=True)
    # To save is a step that all workers take together, but only the chief's files are of use.
    scratch = tempfile.mkdtemp()
    folder = options.checkpoint_dir if resolver.task_id == 0 else scratch
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)

    batches = iter(strategy.distribute_datasets_from_function(share))
    while (step := int(done)) < options.steps:
        loss = train_step(next(batches))
        done.assign(step := step + 1)
        if step % options.checkpoint_every == 0 or step == options.steps:
            manager.save(checkpoint_number=step)
            print(f"step {step}/{options.steps} loss {float(loss):.3f}", flush=True)
            time.sleep(options.pause)

    predicted = tf.argmax(network(test_images), axis=1, output_type=tf.int32)
    accuracy = float(tf.reduce_mean(tf.cast(predicted == test_labels, tf.float32)))
    print(f"accuracy on held-out samples: {accuracy:.3f}", flush=True)


def parse_arguments() -> argparse.Namespace:
    """The command line; its defaults are what the example is meant to do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="minibatches in all")
    parser.add_argument("--learning-rate", type=float, default=0.2)
    parser.add_argument("--checkpoint-every", type=int, default=100, help="minibatches between two checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each checkpoint, to have time to look")
    parser.add_argument(
        "--checkpoint-dir",
        default=os.environ.get("TFOPERATOR_CHECKPOINT_DIR")
        or os.path.join(tempfile.gettempdir(), "multi-worker-checkpoints"),
        help="where the chief keeps checkpoints and all find them (%(default)s)",
    )
    return parser.parse_args()


def main() -> None:
    """Train with the workers that TF_CONFIG names."""
    options = parse_arguments()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    worker, workers = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync
    print(f"worker {worker} of {workers} is in the cluster", flush=True)
    train(strategy, options)


if __name__ == "__main__":
    main()
