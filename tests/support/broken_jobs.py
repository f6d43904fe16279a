"""Twelve jobs, each broken in its own way, and the words that name its cause. Every program logs 1,200 lines first."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

LOGS = """
import errno, json, os, sys, time
index = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("index", 0)
for step in range(1200):
    print(f"INFO:tensorflow:step {step} of 120000, loss = {7 / (step + 10):.4f}, 84.2 examples/sec")
sys.stdout.flush()
"""
LOST_PEER = "Connection reset by peer from remote target /job:worker/replica:0/task:1"


class BrokenJob(NamedTuple):
    """A job, and what an answer must have: words of the cause, words of a next step, the replica that failed first."""

    name: str
    broken: str
    program: str
    cause: str
    next_step: str = ""
    first: str = ""
    workers: int = 1
    run_policy: Mapping[str, Any] = MappingProxyType({})
    container: Mapping[str, Any] = MappingProxyType({})
    restart_policy: str = "Never"

    def manifest(self) -> dict[str, Any]:
        """The TFJob."""
        container = {
            "name": "tensorflow",
            "image": "example.invalid/train:1",
            "command": ["python", "-c", LOGS + self.program],
            **self.container,
        }
        worker = {
            "replicas": self.workers,
            "restartPolicy": self.restart_policy,
            "template": {"spec": {"containers": [container]}},
        }
        return {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"name": self.name},
            "spec": {"runPolicy": dict(self.run_policy), "tfReplicaSpecs": {"Worker": worker}},
        }


BROKEN_JOBS = (
    BrokenJob(
        "wrong-shape",
        "one worker of three raises an exception",
        "if index == 1:\n    raise ValueError('shapes (32, 10) and (32, 11) differ')\ntime.sleep(600)",
        "ValueError: shapes (32, 10) and (32, 11) differ",
        "orrect the error in the log",
        first="worker-1",
        workers=3,
    ),
    BrokenJob(
        "lost-peer",
        "one worker is killed, and the other workers fail because they have lost the connection to this worker",
        "if index == 1:\n    time.sleep(1)\n    os.kill(os.getpid(), 9)\n"
        f"time.sleep(4)\nraise RuntimeError({LOST_PEER!r})",
        "exit code 137",
        "killed",
        first="worker-1",
        workers=3,
    ),
    BrokenJob(
        "segfault",
        "a library crashes",
        "import ctypes\nctypes.string_at(0)",
        "SIGSEGV",
        "PYTHONFAULTHANDLER",
        first="worker-0",
    ),
    BrokenJob(
        "no-module",
        "the image lacks a Python module",
        "import a_module_that_nobody_has",
        "No module named 'a_module_that_nobody_has'",
        "Install the missing module",
        first="worker-0",
    ),
    BrokenJob(
        "bad-arguments",
        "the program does not accept its arguments",
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--rate', required=True)\n"
        "parser.parse_args([])",
        "arguments are required: --rate",
        "did not accept its arguments",
        first="worker-0",
    ),
    BrokenJob(
        "no-cluster",
        "the program reads `TF_CONFIG`, which does not exist in a job with only one replica",
        "cluster = json.loads(os.environ['TF_CONFIG'])['cluster']",
        "KeyError: 'TF_CONFIG'",
        "has no TF_CONFIG",
        first="worker-0",
    ),
    BrokenJob(
        "no-data",
        "the data is not where the program looks for it",
        "open('/mnt/no-such-volume/train.tfrecord')",
        "FileNotFoundError",
        "/mnt/no-such-volume/train.tfrecord",
        first="worker-0",
    ),
    BrokenJob(
        "full-disk",
        "a disk is full",
        "raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), '/checkpoints/model.ckpt')",
        "No space left on device",
        "free some space",
        first="worker-0",
    ),
    BrokenJob(
        "again-and-again",
        "a worker fails in the same way after each restart",
        "raise RuntimeError('the optimizer has no learning rate')",
        "the optimizer has no learning rate",
        "again",
        first="worker-0",
        run_policy={"backoffLimit": 2},
        restart_policy="OnFailure",
    ),
    BrokenJob(
        "too-slow",
        "the job runs longer than its `activeDeadlineSeconds`",
        "time.sleep(600)",
        "active longer",
        "activeDeadlineSeconds",
        run_policy={"activeDeadlineSeconds": 5},
    ),
    BrokenJob(
        "no-command",
        "the image does not contain the program of `command`",
        "",
        "exit code 127",
        "does not exist where the program ran",
        first="worker-0",
        container={"command": ["a-program-that-nobody-has", "--train"]},
    ),
    BrokenJob(
        "no-config-map",
        "a ConfigMap is missing",
        "time.sleep(600)",
        "ConfigMap 'settings' not found",
        "Create the missing object",
        container={"env": [{"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "rate"}}}]},
    ),
)
"""The jobs of the table in docs/agents.md."""
