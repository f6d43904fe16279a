"""Trains a Keras model on scikit-learn's handwritten digits with TensorFlow's MultiWorkerMirroredStrategy.

Keras 3 can't `fit` with this strategy: "Attempt to convert a value (PerReplica:{...". The model, its layers and its
optimizer can be trained with it all the same, by the loop of some lines below.

Every worker of the TFJob runs this same file, and learns from TF_CONFIG alone who it is and where the others are. Each
has a copy of the model and a share of the data; after every minibatch they add up their gradients, so the copies stay
equal.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

# Leave the logs to what this script has to say.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
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


def make_model() -> tuple[keras.Model, keras.Optimizer]:
    """A model and its optimizer, both with all their variables: inside a strategy's scope every worker has a copy."""
    keras.utils.set_random_seed(SEED)
    layers = [keras.Input((PIXELS,)), keras.layers.Dense(HIDDEN, activation="relu"), keras.layers.Dense(CLASSES)]
    model = keras.Sequential(layers)
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def train(strategy: tf.distribute.Strategy, epochs: int) -> None:
    """Train for so many epochs; then measure the accuracy."""
    train_images, test_images, train_labels, test_labels = load_digits()
    steps = len(train_labels) // BATCH
    with strategy.scope():
        model, optimizer = make_model()

    def share(context: tf.distribute.InputContext) -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices((train_images, train_labels))
        data = data.shard(context.num_input_pipelines, context.input_pipeline_id)
        batch = context.get_per_replica_batch_size(BATCH)
        return data.shuffle(len(train_labels), seed=SEED).repeat().batch(batch, drop_remainder=True)

    def learn(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            losses = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
            # Divided by the batch of all workers: their gradients are added up.
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def train_step(batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(learn, args=batch), axis=None)

    batches = iter(strategy.distribute_datasets_from_function(share))
    for epoch in range(1, epochs + 1):
        losses = [float(train_step(next(batches))) for _ in range(steps)]
        print(f"epoch {epoch}/{epochs} loss {sum(losses) / steps:.3f}", flush=True)

    logits = model(test_images, training=False)
    correct = tf.argmax(logits, axis=1, output_type=tf.int32) == test_labels
    print(f"accuracy on held-out samples: {float(tf.reduce_mean(tf.cast(correct, tf.float32))):.3f}", flush=True)


def main() -> None:
    """Train with the workers that TF_CONFIG names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    worker, workers = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync
    print(f"worker {worker} of {workers} is in the cluster", flush=True)
    train(strategy, options.epochs)


if __name__ == "__main__":
    main()
