"""Trains with as many workers as there are: the job's elasticPolicy may change their number at each start.

Each start reads the number of workers from TF_CONFIG and goes on from the latest checkpoint. The batch of all workers
together stays the same, so a step means the same with each number. A change of the number is announced with SIGTERM to
all workers. They agree by a sum in each step, save after the same step, and end: no step is lost.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time

# Leave the logs to what this script has to say.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import tensorflow as tf

tf.get_logger().setLevel("ERROR")

RESTART = 143  # the exit code of a program that SIGTERM ends
BATCH, FEATURES = 64, 8  # the batch is of all workers together


def train(options: argparse.Namespace) -> None:
    """Fit a line, for `options.steps` steps or what a checkpoint leaves of them."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    worker, workers = strategy.cluster_resolver.task_id or 0, strategy.num_replicas_in_sync
    with strategy.scope():
        weights = tf.Variable(tf.zeros((FEATURES, 1)), aggregation=tf.VariableAggregation.MEAN)
    done = tf.Variable(0, dtype=tf.int64)  # this worker's own
    checkpoint = tf.train.Checkpoint(weights=weights, step=done)
    folder = os.path.join(options.checkpoint_dir, "steps")
    if latest := tf.train.latest_checkpoint(folder):
        checkpoint.restore(latest)
    # To save is a step that all workers take together, but only the first worker's files are of use.
    manager = tf.train.CheckpointManager(checkpoint, tempfile.mkdtemp() if worker else folder, max_to_keep=2)
    announced: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: announced.append(1))

    def learn(ends: tf.Tensor) -> tf.Tensor:
        inputs = tf.random.normal((BATCH // workers, FEATURES))
        labels = tf.reduce_sum(inputs, axis=1, keepdims=True)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((inputs @ weights - labels) ** 2)
        weights.assign_sub(0.05 * tape.gradient(loss, weights))
        return ends

    @tf.function
    def step(ends: tf.Tensor) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(learn, args=(ends,)), axis=None)

    print(f"worker {worker} of {workers} begins after step {int(done)}", flush=True)
    while int(done) < options.steps:
        ends = float(step(tf.constant(float(bool(announced)))))  # the number of workers that are to end
        done.assign_add(1)
        print(f"worker {worker} of {workers} step {int(done)}", flush=True)
        if ends or int(done) % options.checkpoint_every == 0:
            manager.save(checkpoint_number=int(done))
        if ends:
            sys.exit(RESTART)
        time.sleep(options.pause)


def parse_arguments() -> argparse.Namespace:
    """The command line; its defaults are what the example is meant to do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoint-every", type=int, default=5, help="steps between two checkpoints")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds after each step, to have time to look")
    parser.add_argument(
        "--checkpoint-dir",
        default=os.environ.get("TFOPERATOR_CHECKPOINT_DIR")
        or os.path.join(tempfile.gettempdir(), "elastic-checkpoints"),
        help="where all workers find what was saved (%(default)s)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    train(parse_arguments())
