"""The work of the four steps of digits.py: plain Python, run by a container's command line or as classes in process.

Real data: the 1797 handwritten digits that come with scikit-learn.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split

_PATIENCE = 120.0  # seconds that the first replica waits for the others


def data(samples: str, seed: int) -> dict[str, Any]:
    """Split the digits into a training and a test set."""
    x, y = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(x / 16.0, y, test_size=0.25, random_state=seed)
    write(Path(samples), train_x=train_x, train_y=train_y, test_x=test_x, test_y=test_y)
    return {"train": len(train_y), "test": len(test_y)}


def train(samples: str, model: str, alpha: float) -> dict[str, Any]:
    """Fit a linear model to this replica's share of the samples; the first replica waits for the others' models."""
    cluster = json.loads(os.environ.get("TF_CONFIG", "{}"))
    index = int(cluster.get("task", {}).get("index", 0))
    replicas = len(cluster.get("cluster", {}).get("worker", [None]))
    with np.load(Path(samples, "arrays.npz")) as arrays:
        x, y = arrays["train_x"][index::replicas], arrays["train_y"][index::replicas]
    fitted = SGDClassifier(alpha=alpha, random_state=index).fit(x, y)
    print(f"replica {index} of {replicas}: {len(y)} samples")
    write(Path(model, str(index)), coefficients=fitted.coef_, intercept=fitted.intercept_)
    if index == 0:
        end = time.monotonic() + _PATIENCE
        while not all(Path(model, str(one), "arrays.npz").exists() for one in range(replicas)):
            if time.monotonic() > end:
                sys.exit("the other replicas have not finished")
            time.sleep(0.05)
    return {"replicas": replicas, "alpha": alpha}


def evaluate(samples: str, models: Sequence[str], report: str) -> dict[str, Any]:
    """The accuracy of each model on the test set; a model of several replicas is the mean of theirs."""
    with np.load(Path(samples, "arrays.npz")) as arrays:
        x, y = arrays["test_x"], arrays["test_y"]
    found = {}
    for position, model in enumerate(models):
        parts = [np.load(path) for path in sorted(Path(model).glob("*/arrays.npz"))]
        scores = sum(x @ part["coefficients"].T + part["intercept"] for part in parts)
        found[f"model_{position}"] = round(float((np.argmax(scores, axis=1) == y).mean()), 4)
    Path(report).write_text(json.dumps(found))
    print(f"accuracy on held-out samples: {found}")
    return found


def write(folder: Path, **arrays: Any) -> None:
    """Arrays in a folder, all or none of them."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / "partial.npz"
    np.savez(partial, **arrays)
    partial.replace(folder / "arrays.npz")


def say(tmp_path: str, output: str, uri: str, properties: dict[str, Any]) -> None:
    """Tell the launcher what is known of an output."""
    document = {"outputs": {output: {"uri": uri, "properties": properties}}}
    Path(tmp_path).mkdir(parents=True, exist_ok=True)
    Path(tmp_path, "output.json").write_text(json.dumps(document))


class Data:
    """`data` in process."""

    def do(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], properties: Mapping[str, Any]) -> None:
        """See `Executor`."""
        del inputs  # it has none
        uri = outputs["samples"][0].uri
        say(properties["tmp_path"], "samples", uri, data(uri, properties["seed"]))


class Train:
    """`train` in process."""

    def do(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], properties: Mapping[str, Any]) -> None:
        """See `Executor`."""
        uri = outputs["model"][0].uri
        said = train(inputs["samples"][0].uri, uri, properties["alpha"])
        say(properties["tmp_path"], "model", uri, said)


class Evaluate:
    """`evaluate` in process."""

    def do(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], properties: Mapping[str, Any]) -> None:
        """See `Executor`."""
        uri = outputs["report"][0].uri
        models = [inputs[name][0].uri for name in ("first", "second")]
        say(properties["tmp_path"], "report", uri, evaluate(inputs["samples"][0].uri, models, uri))


def main(step: str, tmp_path: str, *words: str) -> None:
    """A step as a command: its name, where output.json goes, its output, its inputs and parameters."""
    if step == "data":
        say(tmp_path, "samples", words[0], data(words[0], int(words[1])))
    elif step == "train":
        said = train(words[1], words[0], float(words[2]))
        if "TF_CONFIG" not in os.environ or json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
            say(tmp_path, "model", words[0], said)
    elif step == "evaluate":
        say(tmp_path, "report", words[0], evaluate(words[1], words[2:], words[0]))
    else:
        sys.exit(f"there is no step {step!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
