"""Two workers in step whose end is announced: all save the same step and leave, and go on after it.

SIGTERM comes to one worker, whose node is drained, and the others must not wait for it in the next step. TensorFlow's
own PreemptionCheckpointHandler tells them through the workers' coordination service: each does the same number of
steps, then all save together and exit. What restarts them is the job's `restartPolicy`; none of it is this program's.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time

# Leave the logs to what this script has to say.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import tensorflow as tf

tf.get_logger().setLevel("ERROR")

RESTART = 143  # the exit code of a program that SIGTERM ends
BATCH, FEATURES = 32, 8


def train(options: argparse.Namespace) -> None:
    """Fit a line, for `options.steps` steps or what a checkpoint leaves of them."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    worker = strategy.cluster_resolver.task_id
    with strategy.scope():
        weights = tf.Variable(tf.zeros((FEATURES, 1)), aggregation=tf.VariableAggregation.MEAN)
        # Counted by the handler: it restores the step with the weights.
        checkpoint = tf.train.Checkpoint(weights=weights)
    handler = tf.distribute.experimental.PreemptionCheckpointHandler(
        strategy.cluster_resolver,
        checkpoint,
        # Workers but the first write beside this folder, and in a cluster the volume is all that they may write to.
        os.path.join(options.checkpoint_dir, "steps"),
        tf.distribute.experimental.TerminationConfig(exit_fn=lambda: sys.exit(RESTART)),
    )

    def learn(inputs: tf.Tensor) -> tf.Tensor:
        labels = tf.reduce_sum(inputs, axis=1, keepdims=True)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((inputs @ weights - labels) ** 2)
        weights.assign_sub(0.05 * tape.gradient(loss, weights))
        return loss

    @tf.function
    def step() -> tf.Tensor:
        losses = strategy.run(learn, args=(tf.random.normal((BATCH, FEATURES)),))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    first = handler.total_run_calls
    print(f"worker {worker} begins after step {first}", flush=True)
    for number in range(first + 1, options.steps + 1):
        loss = handler.run(step)
        print(f"step {number} loss {float(loss):.4f}", flush=True)
        time.sleep(options.pause)
    print(f"worker {worker} is done", flush=True)


def parse_arguments() -> argparse.Namespace:
    """The command line; its defaults are what the example is meant to do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds after each step, to have time to look")
    parser.add_argument(
        "--checkpoint-dir",
        default=os.environ.get("TFOPERATOR_CHECKPOINT_DIR")
        or os.path.join(tempfile.gettempdir(), "preemption-checkpoints"),
        help="where all workers find what was saved (%(default)s)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    train(parse_arguments())
