"""Trains a linear classifier on scikit-learn's handwritten digits, distributed as TensorFlow 1 did it.

Every replica of the TFJob runs this same file, and learns from its arguments who it is: `--ps_hosts`, `--worker_hosts`,
`--job_name` and `--task_index`, which the operator adds when the job says `clusterArguments: true`. Each worker builds
the graph, whose variables live on the parameter servers, and works on minibatches of its own (between-graph
replication); worker 0 is the chief, which initialises the variables and measures the result.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

# Leave the logs to what this script has to say.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
tf.logging.set_verbosity(tf.logging.ERROR)

SEED = 20
PIXELS, CLASSES = 64, 10
BATCH = 64


def load_digits() -> Any:
    """1797 images of 8x8 pixels, a quarter of them held out; the same split in every process."""
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    images, labels = load(return_X_y=True)
    images = (images / 16.0).astype("float32")
    return train_test_split(images, labels.astype("int32"), test_size=0.25, random_state=SEED, stratify=labels)


def work(server: tf.train.Server, cluster: tf.train.ClusterSpec, options: argparse.Namespace) -> None:
    """Do this worker's share of the steps; the chief then waits for the others and says how good the result is."""
    train_images, test_images, train_labels, test_labels = load_digits()
    here = f"/job:worker/task:{options.task_index}"
    # Variables go to the parameter servers in turn, everything else stays on this worker.
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=here)):
        images = tf.placeholder(tf.float32, (None, PIXELS))
        labels = tf.placeholder(tf.int32, (None,))
        weights = tf.get_variable("weights", (PIXELS, CLASSES), initializer=tf.zeros_initializer())
        biases = tf.get_variable("biases", (CLASSES,), initializer=tf.zeros_initializer())
        logits = images @ weights + biases
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        step = tf.train.get_or_create_global_step()
        train = tf.train.GradientDescentOptimizer(options.learning_rate).minimize(loss, global_step=step)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), labels), tf.float32))

    is_chief = options.task_index == 0
    random = numpy.random.default_rng(SEED + options.task_index)
    # Without a log directory nothing is saved: a parameter server that is lost takes the model along.
    supervisor = tf.train.Supervisor(is_chief=is_chief, logdir=None, recovery_wait_secs=1)
    with supervisor.prepare_or_wait_for_session(server.target) as session:
        for own in range(1, options.steps + 1):
            batch = random.integers(len(train_labels), size=BATCH)
            feed = {images: train_images[batch], labels: train_labels[batch]}
            _, value = session.run([train, loss], feed)
            if own % 100 == 0:
                print(f"step {own}/{options.steps} loss {value:.3f}", flush=True)
        if is_chief:
            while session.run(step) < options.steps * cluster.num_tasks("worker"):
                time.sleep(0.1)
            result = session.run(accuracy, {images: test_images, labels: test_labels})
            print(f"accuracy on held-out samples: {result:.3f}", flush=True)


def parse_arguments() -> argparse.Namespace:
    """The command line: our own options, then what the operator adds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="minibatches of each worker")
    parser.add_argument("--learning-rate", type=float, default=0.5)
    parser.add_argument("--ps_hosts", required=True, help="host:port of each parameter server, separated by commas")
    parser.add_argument("--worker_hosts", required=True, help="host:port of each worker, separated by commas")
    parser.add_argument("--job_name", required=True, choices=["ps", "worker"])
    parser.add_argument("--task_index", required=True, type=int)
    return parser.parse_args()


def main() -> None:
    """Serve or work, as the arguments say."""
    options = parse_arguments()
    cluster = tf.train.ClusterSpec({"ps": options.ps_hosts.split(","), "worker": options.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=options.job_name, task_index=options.task_index)
    if options.job_name == "ps":
        print(f"ps {options.task_index} serves at {server.target}", flush=True)
        server.join()
    else:
        work(server, cluster, options)


if __name__ == "__main__":
    main()
