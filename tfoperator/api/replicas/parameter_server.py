"""The default parameter server: the operator runs this program in a PS replica without a template.

A parameter server is the same program in nearly every job: a gRPC server that offers its memory until it is stopped. It
needs only TF_CONFIG, so the program fits into a container's command, and any image with TensorFlow can run it.
"""

from __future__ import annotations

from typing import Any

from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME

PROGRAM = """\
import json, os, signal
# Joining the server would keep Python from noticing signals, and a container's first process has no default for them.
signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
job, index = config["task"]["type"], config["task"]["index"]
cluster = dict((name, tasks) for name, tasks in config["cluster"].items() if tasks)
if len(cluster[job]) <= index:
    # With dynamic workers a server is told of itself only, in a list of one.
    cluster[job] = {index: cluster[job][-1]}
train = tf.train if hasattr(tf.train, "Server") else tf.compat.v1.train
server = train.Server(train.ClusterSpec(cluster), job_name=job, task_index=index)
print("parameter server %d serves" % index)
while True:
    signal.pause()
"""
"""The source code of the program. It runs on TensorFlow 1 and 2, and on the Python 2 of the oldest images."""


def parameter_server_template(image: str) -> dict[str, Any]:
    """Return a pod template with a parameter server that runs until it is stopped; each call returns a new object."""
    container = {"name": DEFAULT_CONTAINER_NAME, "image": image, "command": ["python", "-u", "-c", PROGRAM]}
    return {"spec": {"containers": [container]}}
