"""Trains a small network on scikit-learn's handwritten digits with Keras, and reports how far it is.

One line does that: `callbacks=[ProgressCallback()]`. Where nobody asks for reports, the line does nothing.
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

from tfoperator.progress import ProgressCallback


def load_digits() -> Any:
    """1797 images of 8x8 pixels, a quarter of them held out; the same split in every run."""
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    images, labels = load(return_X_y=True)
    images = (images / 16.0).astype("float32")
    return train_test_split(images, labels.astype("int32"), test_size=0.25, random_state=20, stratify=labels)


def main() -> None:
    """Train, then measure the accuracy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--pause", type=float, default=0.2, help="seconds of rest after each epoch, to watch it")
    options = parser.parse_args()
    train_images, test_images, train_labels, test_labels = load_digits()
    keras.utils.set_random_seed(20)
    model = keras.Sequential(
        [keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)],
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.003), loss, metrics=["accuracy"])
    rest = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: time.sleep(options.pause))
    model.fit(
        train_images,
        train_labels,
        validation_data=(test_images, test_labels),
        batch_size=64,
        epochs=options.epochs,
        verbose=0,
        callbacks=[ProgressCallback(), rest],
    )
    _, accuracy = model.evaluate(test_images, test_labels, verbose=0)
    print(f"accuracy on held-out samples: {accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main()
