"""The parameter server that v1alpha1's operator ran for a PS replica without a template, written out as a template.

Its operator mounted a gRPC server's source into a stock TensorFlow image. Nothing but TF_CONFIG is needed for the same
today, so the program fits into the command, and the manifest says everything that runs.
"""

from __future__ import annotations

from typing import Any

from tfoperator.api.names import DEFAULT_CONTAINER_NAME

__all__ = ["DEFAULT_IMAGE", "parameter_server_template"]

DEFAULT_IMAGE = "tensorflow/tensorflow:1.3.0"
"""v1alpha1's default of `tfImage`."""

# Runs on TensorFlow 1 and 2, which keeps the server in another module.
_PROGRAM = """\
import json, os
import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
train = tf.train if hasattr(tf.train, "Server") else tf.compat.v1.train
train.Server(train.ClusterSpec(config["cluster"]), job_name=task["type"], task_index=task["index"]).join()
"""


def parameter_server_template(image: str = "") -> dict[str, Any]:
    """A pod template that serves until it is stopped, in `image` or the default one."""
    container = {"name": DEFAULT_CONTAINER_NAME, "image": image or DEFAULT_IMAGE, "command": ["python", "-c", _PROGRAM]}
    return {"spec": {"containers": [container]}}
